"""Runs that are asked to end: by each signal, in each phase, at one rank or at all, and by --stop_at_update.
They end with exit code 9 and a checkpoint of the last finished update, or before the first one at once."""
import array
import fcntl
import os
import signal
import subprocess
import termios
import time

from ddptest import (ENDLESS, SLOW, Failure, Folder, Started, children, expect, held_save, installed, main, must, of_torch,
                     reached, read_log, run, wait_for)
from predict import job as with_outputs
from resume import STATE, equal

JOB = "examples/digits/job.ddp"
SHORT = ["--warmup_steps", "0"]
STOPPED = 9


def checkpoints(out):
    return sorted(int(d[11:]) for d in os.listdir(out) if d.startswith("checkpoint-"))


def no_halves(out):
    found = [os.path.join(d, f) for d, folders, files in os.walk(out) for f in folders + files
             if "tmp" in f or "partial" in f]
    expect(not found, f"half-written: {found}")


def expect_stopped(code, name, out, text, log):
    expect(code == STOPPED, f"exit code {code}, not {STOPPED}:\n{text}")
    last = log[-1]
    expect(last.get("stopped_by") == name, f"stopped_by is {last.get('stopped_by')}, not {name}:\n{text}")
    expect(checkpoints(out) == [last["step"]], f"stopped after update {last['step']}, there is {os.listdir(out)}")
    expect(os.path.getsize(f"{out}/checkpoint-{last['step']}/model.safetensors") > 1000, "no weights")
    expect("stopped by " + name in text and f"checkpoint-{last['step']}" in text, f"nothing is said:\n{text}")
    expect("error" not in text.replace("error_", ""), f"a stop is no error:\n{text}")
    no_halves(out)


def training():
    """Each signal to the launcher; to one rank only; and to a program of one rank."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            for rank, ranks in ((None, 3), (2, 3), (None, 1)):
                out = f.file(f"{name}-{rank}-{ranks}")
                many = ["--nproc-per-node", str(ranks)] if ranks > 1 else []
                with Started(f, [binary, "--output_dir", out, *ENDLESS, *many]) as s:
                    wait_for(lambda: reached(out, 5), 30, "update 5")
                    os.kill(s.p.pid if rank is None else children(s.p.pid)[rank], getattr(signal, name))
                    expect_stopped(s.end(10), name, out, s.text(), read_log(out))


def evaluation():
    """An evaluation that takes long is given up, whichever rank is asked; the checkpoint is that of the update
    before it."""
    with Folder() as f:
        # a large model, one sample at a time: about a second for one evaluation
        binary = f.compile(JOB, "digits", ["hidden=3000", "train.per_device_eval_batch_size=1"])
        for ranks, rank in ((1, None), (2, None), (2, 1)):
            out = f.file(f"out-{ranks}-{rank}")
            many = ["--nproc-per-node", str(ranks)] if ranks > 1 else []
            with Started(f, [binary, "--output_dir", out, "--max_steps", "5", *SHORT, "--logging_steps", "1", "--eval_strategy",
                             "steps", "--eval_steps", "2", *many]) as s:
                wait_for(lambda: reached(out, 2), 60, "update 2")
                begin = time.monotonic()
                os.kill(s.p.pid if rank is None else children(s.p.pid)[rank], signal.SIGTERM)
                code = s.end(20)
                took = time.monotonic() - begin
                log = read_log(out)
                expect_stopped(code, "SIGTERM", out, s.text(), log)
                expect(log[-1]["step"] == 2, f"update {log[-1]['step']}")
                expect(not [r for r in log if "eval_loss" in r], "the evaluation was not given up")
                print(f"  {ranks} ranks, signal to {rank}: {took:.2f} s")


def before(f, args, ready, ranks, phase, rank=None):
    out = f.file(f"out-{phase.replace(' ', '-')}-{ranks}-{rank}")
    many = ["--nproc-per-node", str(ranks)] if ranks > 1 else []
    with Started(f, args + ["--output_dir", out, *ENDLESS, *many]) as s:
        wait_for(lambda: ready(s), 30, phase)
        begin = time.monotonic()
        os.kill(s.p.pid if rank is None else children(s.p.pid)[rank], signal.SIGTERM)
        code = s.end(8)
        text = s.text()
        expect(code == STOPPED, f"{phase}: exit code {code}, not {STOPPED}:\n{text}")
        expect("stopped by SIGTERM" in text and phase in text, f"{phase}: not said:\n{text}")
        # a rank that hangs in reading is given three seconds when another one was asked
        limit = (3 if rank is None else 6) * SLOW
        expect(time.monotonic() - begin < limit, f"{phase}: it took {time.monotonic() - begin:.1f} s")
        saved = checkpoints(out) if os.path.exists(out) else []
        expect(not saved, f"{phase}: checkpoints {saved}")


def opens(pid, path):
    """The process waits in open() of a pipe that nobody writes: it has come as far as reading data."""
    try:
        with open(f"/proc/{pid}/syscall") as file:
            number, _, address = file.read().split()[:3]
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(int(address, 16))
            return number in ("257", "56") and os.fsencode(path) in memory.read(len(path) + 1)
    except (OSError, ValueError, OverflowError):
        return False


def starting():
    """While the data are read, and while the other ranks have not come yet."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        pipe = f.file("digits.csv.gz")
        os.mkfifo(pipe)
        for ranks, rank in ((1, None), (3, None), (3, 1)):
            def ready(s):
                pids = [p for r, p in children(s.p.pid).items() if ranks == 1 or r >= 0]
                return len(pids) == ranks and all(opens(p, pipe) for p in pids)
            before(f, [binary, "--data_root", f.path], ready, ranks, "reading data", rank)

        def blocks(s):
            """These three and no others: while it starts a thread a program blocks all, and a sanitizer before that."""
            with open(f"/proc/{s.p.pid}/status") as file:
                return any(x.startswith("SigBlk") and int(x.split()[1], 16) == asked for x in file)
        asked = sum(1 << number - 1 for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        env = dict(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                   MASTER_PORT="1")
        for k, v in env.items():
            os.environ[k] = v
        try:
            before(f, [binary], blocks, 1, "start")
        finally:
            for k in env:
                del os.environ[k]


def ending():
    """The last save has begun: the run is whole and ends as usual, also when asked to end."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        for ranks in (1, 2):
            out = f.file(f"out{ranks}")
            pipe = held_save(out)
            many = ["--nproc-per-node", str(ranks)] if ranks > 1 else []
            with Started(f, [binary, "--output_dir", out, "--max_steps", "3", *SHORT, "--eval_strategy", "no", *many]) as s:
                wait_for(lambda: any(opens(p, pipe) for p in children(s.p.pid).values()), 30, "the last save")
                os.kill(s.p.pid, signal.SIGTERM)
                with open(pipe, "rb") as reader:
                    expect(len(reader.read()) > 1000, "no weights")
                code = s.end(10)
                expect(code == 0, f"exit code {code}:\n{s.text()}")
                expect("stopped_by" not in read_log(out)[-1], "it was not stopped")


def twice():
    """A second signal ends it at once, with its usual effect and nothing half-written."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        out = f.file("out")
        pipe = held_save(out)
        with Started(f, [binary, "--output_dir", out, "--max_steps", "3", *SHORT, "--eval_strategy", "no"]) as s:
            wait_for(lambda: opens(s.p.pid, pipe), 30, "the last save")
            os.kill(s.p.pid, signal.SIGTERM)
            wait_for(lambda: not pending(s.p.pid), 5, "the signal to be taken")
            os.kill(s.p.pid, signal.SIGTERM)
            code = s.end(5)
            expect(code == -signal.SIGTERM, f"exit code {code}")


def pending(pid):
    with open(f"/proc/{pid}/status") as f:
        return any(x.startswith("ShdPnd") and int(x.split()[1], 16) for x in f)


def at_update():
    """--stop_at_update N: what happens after update N happens, then the run ends."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        for ranks in (1, 2):
            out = f.file(f"out{ranks}")
            many = ["--nproc-per-node", str(ranks)] if ranks > 1 else []
            r = run([binary, "--output_dir", out, "--max_steps", "20", *SHORT, "--logging_steps", "1", "--eval_strategy", "steps",
                     "--eval_steps", "7", "--stop_at_update", "7", *many])
            log = read_log(out)
            expect_stopped(r.code, "--stop_at_update", out, r.out, log)
            expect(log[-1]["step"] == 7, f"stopped after update {log[-1]['step']}")
            expect([x["step"] for x in log if "eval_loss" in x] == [7], "update 7 was not evaluated")
        for bad in ("0", "-3", "x", "1.5"):
            r = run([binary, "--output_dir", out, "--stop_at_update", bad])
            expect(r.code == 2 and "stop_at_update" in r.out, f"{bad}: exit code {r.code}\n{r.out}")
        r = run([binary, "--output_dir", out, "--init-only", "--stop_at_update", "3"])
        expect(r.code == 2 and "no effect" in r.out, f"--init-only: exit code {r.code}\n{r.out}")
        must([binary, "--output_dir", out, "--max_steps", "3", *SHORT, "--stop_at_update", "3"])


def pieces():
    """A run cut into pieces by --stop_at_update, by signals, and in the middle of an evaluation, writes the bytes
    of the whole one: at ends of epochs, where evaluations, saves and lines of the log fall together, and elsewhere."""
    flags = ["--max_steps", "100", "--logging_steps", "3", "--eval_strategy", "epoch", "--save_strategy", "epoch"]
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        straight = f.file("straight")
        must([binary, "--output_dir", straight, *flags, "--nproc-per-node", "2"])
        out = f.file("pieces")
        for stop in (1, 7, 45, 46, 90):
            r = run([binary, "--output_dir", out, *flags, "--nproc-per-node", "2", "--resume_from_checkpoint", "true",
                     "--stop_at_update", str(stop)])
            expect(r.code == STOPPED, f"exit code {r.code}:\n{r.out}")
        r = run([binary, "--output_dir", out, *flags, "--nproc-per-node", "2", "--resume_from_checkpoint", "true",
                 "--stop_at_update", "60"])
        expect(r.code == STOPPED and "after update 90" in r.out, f"update 60 lies behind:\n{r.out}")
        must([binary, "--output_dir", out, *flags, "--nproc-per-node", "2", "--resume_from_checkpoint", "true"])
        same_runs(straight, out, (45, 90, 100))


def given_up():
    """The evaluation that a signal ended is made by the run that goes on, before the save of the same update."""
    flags = ["--max_steps", "4", *SHORT, "--logging_steps", "1", "--eval_strategy", "steps", "--eval_steps", "2",
             "--save_strategy", "steps", "--save_steps", "2"]
    with Folder() as f:
        binary = f.compile(JOB, "digits", ["hidden=3000", "train.per_device_eval_batch_size=1"])
        straight = f.file("straight")
        must([binary, "--output_dir", straight, *flags])
        out = f.file("pieces")
        for update in (2, 4):
            with Started(f, [binary, "--output_dir", out, *flags, "--resume_from_checkpoint", "true"]) as s:
                wait_for(lambda: reached(out, update), 30, f"update {update}")
                os.kill(s.p.pid, signal.SIGTERM)
                expect(s.end(20) == STOPPED, s.text())
                expect(read_log(out)[-1]["step"] == update, s.text())
        must([binary, "--output_dir", out, *flags, "--resume_from_checkpoint", "true"])
        same_runs(straight, out, (2, 4))


def under(f, launcher, limit):
    """A foreign launcher gets SIGTERM, and one of its ranks alone: a complete checkpoint either way, and the run goes
    on from it to the bytes of a straight one."""
    binary = f.compile(JOB, "digits")
    flags = ["--max_steps", "4000", *SHORT, "--num_train_epochs", "1000", "--logging_steps", "1", "--eval_strategy", "no"]
    for alone in (False, True):
        out = f.file(f"out{alone}")
        with Started(f, [*launcher, binary, "--output_dir", out, *flags]) as s:
            wait_for(lambda: reached(out, 5), limit, "update 5")
            ranks = [p for p in processes(binary) if p != s.p.pid]
            os.kill(ranks[-1] if alone else s.p.pid, signal.SIGTERM)
            code = s.p.wait(40 * SLOW)
            wait_for(lambda: not processes(binary), 5, "the ranks to go")
            text, log = s.text(), read_log(out)
            expect(code != 0, "exit code 0")
            expect(log[-1].get("stopped_by") == "SIGTERM", f"{log[-1]}\n{text[-2000:]}")
            expect(checkpoints(out) == [log[-1]["step"]], f"{os.listdir(out)}\n{text[-2000:]}")
            no_halves(out)
        stop = log[-1]["step"] + 10
        again = run([*launcher, binary, "--output_dir", out, *flags, "--resume_from_checkpoint", "true",
                     "--stop_at_update", str(stop)], limit=90)
        straight = f.file(f"straight{alone}")
        whole = run([binary, "--nproc-per-node", "2", "--output_dir", straight, *flags, "--stop_at_update", str(stop)])
        expect(whole.code == STOPPED and again.code != 0, whole.out + again.out)
        equal(f"{straight}/checkpoint-{stop}", f"{out}/checkpoint-{stop}", STATE)


def processes(binary):
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/exe") == binary:
                found.append(int(name))
        except OSError:
            pass
    return sorted(found)


def torchrun():
    with Folder() as f:
        under(f, [of_torch("torchrun"), "--no-python", "--nproc_per_node=2"], 60)


def mpirun():
    with Folder() as f:
        under(f, [installed("mpirun"), "--allow-run-as-root", "--oversubscribe", "--mca", "odls_base_sigkill_timeout", "5", "-np",
                  "2"], 30)


def other_work():
    """--predict and --generate end at once, and no half-written file is left."""
    with Folder() as f:
        binary = with_outputs(f)
        must([binary, "--output_dir", f.file("out"), "--max_steps", "2", *SHORT])
        result = f.file("result.safetensors")
        os.mkfifo(result + ".tmp")
        with Started(f, [binary, "--output_dir", f.file("out"), "--predict", result]) as s:
            wait_for(lambda: opens(s.p.pid, result + ".tmp"), 30, "the result to be written")
            os.kill(s.p.pid, signal.SIGTERM)
            code = s.end(5)
            expect(code == STOPPED and "prediction" in s.text(), f"exit code {code}\n{s.text()}")
            expect(not os.path.exists(result), "there is a result")


def long_update():
    """An update of hundreds of micro-batches is not finished when a signal comes: weights and buffers are as before it,
    and the run that goes on does all of it."""
    with Folder() as f:
        binary = f.compile("tests/e2e/slow.ddp", "slow")
        for ranks, rank in ((1, None), (2, 1)):
            base = [binary, *(["--nproc-per-node", str(ranks)] if ranks > 1 else [])]
            straight = f.file(f"straight{ranks}")
            if not os.path.exists(straight):
                begin = time.monotonic()
                for stop in (1, 2):
                    r = run([*base, "--output_dir", straight, "--stop_at_update", str(stop), "--resume_from_checkpoint",
                             "true"], limit=100)
                    expect(r.code == STOPPED, r.out)
                update = (time.monotonic() - begin) / 2
            out = f.file(f"out{ranks}{rank}")
            with Started(f, [*base, "--output_dir", out]) as s:
                wait_for(lambda: reached(out, 1), 60, "update 1")
                begin = time.monotonic()
                os.kill(s.p.pid if rank is None else children(s.p.pid)[rank], signal.SIGTERM)
                code = s.end(60)
                took = time.monotonic() - begin
                print(f"  {ranks} ranks, signal to {rank}: {took:.2f} s; an update takes {update:.2f} s")
                expect_stopped(code, "SIGTERM", out, s.text(), read_log(out))
                expect(checkpoints(out) == [1], f"{os.listdir(out)}")
                expect(took < update * 0.7, f"it took {took:.2f} s")
            equal(f"{straight}/checkpoint-1", f"{out}/checkpoint-1", STATE[:2])
            r = run([*base, "--output_dir", out, "--stop_at_update", "2", "--resume_from_checkpoint", "true"], limit=100)
            expect(r.code == STOPPED, r.out)
            equal(f"{straight}/checkpoint-2", f"{out}/checkpoint-2", STATE)


def shutdown_timeout():
    """A save that takes longer than --shutdown-timeout: the ranks are killed, and the launcher says so."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        out = f.file("out")
        pipe = held_save(out)
        with Started(f, [binary, "--output_dir", out, "--max_steps", "3", *SHORT, "--eval_strategy", "no",
                         "--nproc-per-node", "2", "--shutdown-timeout", "2"]) as s:
            wait_for(lambda: any(opens(p, pipe) for p in children(s.p.pid).values()), 30, "the last save")
            begin = time.monotonic()
            os.kill(s.p.pid, signal.SIGTERM)
            code = s.end(10)
            took = time.monotonic() - begin
            expect(code == 137 and "did not end; killing it" in s.text(), f"exit code {code}\n{s.text()}")
            expect(2 <= took < 2 + 4 * SLOW, f"{took:.1f} s")


def unread():
    """Nobody reads what the run prints (mpirun stops reading when it ends a job): it waits for a reader, but not
    when it is asked to end."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        for ranks in (1, 2):
            out = f.file(f"out{ranks}")
            reader, writer = os.pipe()
            p = subprocess.Popen([binary, "--output_dir", out, *ENDLESS, "--nproc-per-node", str(ranks)], stdout=writer,
                                 stderr=writer, start_new_session=True)
            try:
                held = array.array("i", [0])

                def full():
                    fcntl.ioctl(reader, termios.FIONREAD, held)
                    return held[0] > 60000
                wait_for(full, 30, "a full pipe")
                os.kill(p.pid, signal.SIGTERM)
                try:
                    code = p.wait(10 * SLOW)
                except subprocess.TimeoutExpired:
                    raise Failure("it still waits for a reader")
            finally:
                for pid in children(p.pid).values():
                    os.kill(pid, signal.SIGKILL)
                p.wait()
                os.close(reader), os.close(writer)
            log = read_log(out)
            expect(code == STOPPED and log[-1].get("stopped_by") == "SIGTERM", f"exit code {code}: {log[-1]}")
            expect(checkpoints(out) == [log[-1]["step"]], f"{os.listdir(out)}")


def same_runs(straight, out, updates):
    for update in updates:
        equal(f"{straight}/checkpoint-{update}", f"{out}/checkpoint-{update}", STATE)
    equal(straight, out, STATE[:1])
    no_halves(out)


if __name__ == "__main__":
    main(dict(training=training, evaluation=evaluation, starting=starting, ending=ending, twice=twice, at_update=at_update, pieces=pieces,
              given_up=given_up, torchrun=torchrun, mpirun=mpirun, other_work=other_work,
              unread=unread, shutdown_timeout=shutdown_timeout, long_update=long_update))
