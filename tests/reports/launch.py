"""Starting, ending and disturbing runs: environments, ports, differing ranks, signals, kills during a save.
Every run has a hard limit: a hang is a failure. The number in front of a test is its row in README.md."""
import glob
import os
import pty
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

from reports import DDPC, Failure, Folder, Job, expect, main, must, read_log, run, tensors, weights

LONG = "--num_train_epochs 1000000 --logging_steps 1000 "


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def probe(f, rows=8):
    job = Job(f, "probe")
    job.data(train=[[0, 2 ** k % 1000, 0, 1] for k in range(rows)], eval=[[1, 0, 0, 1]])
    return job


def start(args, **more):
    return subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            start_new_session=True, **more)


def end(processes, limit):
    """Outputs of processes, all ended within the limit."""
    outs, stop = [], time.monotonic() + limit
    for p in processes:
        try:
            outs.append(p.communicate(timeout=max(0.1, stop - time.monotonic()))[0])
        except subprocess.TimeoutExpired:
            for q in processes:
                if q.poll() is None:
                    os.killpg(q.pid, signal.SIGKILL)
            raise Failure(f"still running after {limit} s: {p.args}")
    return outs


def two(binaries, flags, port, limit=15, cwd=None):
    """Rank 0 and 1 started by hand; flags may differ."""
    ps = [start([b, *fl], env=dict(os.environ, RANK=str(k), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                   MASTER_PORT=str(port)), cwd=cwd)
          for k, (b, fl) in enumerate(zip(binaries, flags))]
    outs = end(ps, limit)
    return [p.returncode for p in ps], "".join(outs)


def processes(binary):
    """Pids that run this program."""
    found = []
    for path in glob.glob("/proc/[0-9]*/exe"):
        try:
            if os.readlink(path) == binary:
                found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


def wait(condition, limit, what):
    stop = time.monotonic() + limit
    while not condition():
        if time.monotonic() > stop:
            raise Failure(f"waited {limit} s for {what}")
        time.sleep(0.01)


def row_24_rendezvous_counts():
    with Folder() as f:
        binary = probe(f).binary()
        port = str(free_port())
        whole = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        for env, text, least in ((dict(WORLD_SIZE="2", RANK="5", **whole), "RANK=5 is not below WORLD_SIZE=2", 0),
                                 (dict(WORLD_SIZE="2"), "WORLD_SIZE=2 is set but RANK is not", 0),
                                 (dict(WORLD_SIZE="2", RANK="a", **whole), "RANK=a: must be a number", 0),
                                 (dict(WORLD_SIZE="2", RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="66660"),
                                  "MASTER_PORT=66660: must be a number from 1 to 65535", 0),
                                 (dict(WORLD_SIZE="2", RANK="1"), "MASTER_ADDR", 0),
                                 (dict(WORLD_SIZE="2", RANK="0", **whole), "rank 1 did not come within 1 s", 1)):
            r = run([binary, "--output_dir", f.file("o"), "--ddp_timeout", "1"], env=env, limit=10)
            expect(r.code > 0 and text in r.out and least <= r.seconds <= least + 3,
                   f"{env}: {r.seconds:.1f} s, exit {r.code}\n{r.out}")
        ps = [start([binary, "--output_dir", f.file("o"), "--ddp_timeout", "3"],
                    env=dict(os.environ, WORLD_SIZE="3", RANK=r, **whole)) for r in ("0", "1", "1")]
        outs = "".join(end(ps, 12))
        expect("two processes are rank 1" in outs, f"rank 1 twice:\n{outs}")
        expect(all(p.returncode for p in ps), "a rank ended well")


def row_23_environments():
    with Folder() as f:
        job = probe(f)
        log, out = job.train(env=dict(SLURM_PROCID="0", SLURM_NTASKS="1"))
        expect(log[0]["world_size"] == 1, "one task of SLURM is no world")
        log, own = job.train(ranks=2)
        binary = job.binary()
        codes, text = two([binary] * 2, [["--output_dir", f.file("by-hand")]] * 2, free_port())
        expect(codes == [0, 0] and "2 ranks (torch environment" in text, text)
        expect(weights(f.file("by-hand")) == weights(own), "other weights")


def row_23_two_runs_in_one_folder():
    with Folder() as f:
        binary = probe(f).binary()
        first = start([binary, "--output_dir", f.file("one"), *LONG.split()])
        try:
            wait(lambda: os.path.exists(f.file("one/log.jsonl")), 10, "the first run")
            r = run([binary, "--output_dir", f.file("one")], limit=10)
            expect(r.code > 0 and "in use" in r.out and f.file("one") in r.out, f"exit {r.code}\n{r.out}")
            expect(first.poll() is None, "the first run was disturbed")
        finally:
            first.send_signal(signal.SIGTERM)
            end([first], 10)
        expect(run([binary, "--output_dir", f.file("one")], limit=10).code == 0, "the folder stays locked")


def row_14_ranks_differ():
    with Folder() as f:
        job = probe(f)
        other = f.file("other.ddp")
        with open(f.file("probe.ddp")) as file:
            text = file.read()
        with open(other, "w") as file:
            file.write(text.replace("w: param [2]", "w: param [3]"))
        a, b = job.binary(), f.file("other")
        must([DDPC, other, "-o", b])
        os.makedirs(f.file("copy"))
        shutil.copy(f.file("eval.csv"), f.file("copy"))
        with open(f.file("copy/train.csv"), "w") as file:
            file.write(open(f.file("train.csv")).read() + "0,1,0,1\n")
        out = ["--output_dir", f.file("o")]
        for binaries, flags, part in (([a, b], [out, out], "other"),
                                      ([a, a], [out, out + ["--data_root", f.file("copy")]], "data"),
                                      ([a, a], [out + ["--ddp_bucket_cap_mb", "1"],
                                                out + ["--ddp_bucket_cap_mb", "25"]], "ddp_bucket_cap_mb"),
                                      ([a, a], [out, out + ["--seed", "7"]], "seed")):
            codes, text = two(binaries, flags, free_port())
            expect(all(codes) and part in text and "rank 1" in text, f"{flags[1]}: {codes}\n{text}")
            expect("step 1" not in text, "an update was made")


def row_86_other_initial_weights():
    """A rank that reads another file trains on from rank 0's weights: all updates are those of rank 0's file."""
    with Folder() as f:
        binary = f.compile("examples/digits/job.ddp", "digits")
        for seed in ("1", "2"):
            must([binary, "--init-only", "--seed", seed, "--output_dir", f.file(seed)])
        other, one = ([f"{f.file(seed)}/model.safetensors" for seed in seeds] for seeds in ("12", "11"))
        ends = []
        for k, files in enumerate((other, one)):
            out = ["--output_dir", f.file(f"o{k}"), "--max_steps", "25", "--init_from"]
            codes, text = two([binary] * 2, [out + [x] for x in files], free_port())
            expect(codes == [0, 0], f"{codes}\n{text}")
            ends.append(weights(f.file(f"o{k}")))
        expect(weights(f.file("1")) != weights(f.file("2")), "the seed makes no difference")
        expect(ends[0] == ends[1], "not rank 0's weights on both ranks")


def row_65_ports():
    with Folder() as f:
        binary = probe(f).binary()
        ps = [start([binary, "--nproc-per-node", "2", "--output_dir", f.file(f"o{k}")]) for k in (0, 1)]
        outs = end(ps, 20)
        expect([p.returncode for p in ps] == [0, 0], f"two jobs at once:\n{outs[0]}\n{outs[1]}")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = s.getsockname()[1]
            r = run([binary, "--output_dir", f.file("o"), "--ddp_timeout", "3"], limit=12,
                    env=dict(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)))
        expect(r.code > 0 and str(port) in r.out and r.seconds < 8, f"port in use, {r.seconds:.1f} s:\n{r.out}")
        expect(f", pid {os.getpid()})" in r.out, f"no owner:\n{r.out}")
        # A job that has met needs its port no longer: a second one with the same port does not disturb it.
        by_hand = [dict(os.environ, RANK=str(k), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
                   for k in (0, 1)]
        first = [start([binary, "--output_dir", f.file("first"), *LONG.split()], env=e) for e in by_hand]
        try:
            wait(lambda: os.path.exists(f.file("first/log.jsonl")), 15, "the first run")
            codes, text = two([binary] * 2, [["--output_dir", f.file("second")]] * 2, port)
            expect(codes == [0, 0] and all(p.poll() is None for p in first), text)
        finally:
            for p in first:
                p.kill()
            end(first, 10)
        codes, text = two([binary] * 2, [["--output_dir", f.file("third")]] * 2, port)
        expect(codes == [0, 0], f"at once after a kill:\n{text}")


def row_41_signals():
    """Ctrl-C on a terminal, TERM and KILL to the launcher: no process is left, the log is whole."""
    with Folder() as f:
        job = probe(f)
        binary = job.binary()
        for k, (sig, ranks) in enumerate(((signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 2),
                                          (signal.SIGKILL, 2))):
            out = f.file(f"o{k}")
            args = [binary, "--output_dir", out, *LONG.split(), "--save_strategy", "steps", "--save_steps", "5000"]
            args += ["--nproc-per-node", str(ranks)] if ranks > 1 else []
            pid, terminal = pty.fork()
            if pid == 0:
                os.execv(binary, args)
            text = b""
            try:
                wait(lambda: os.path.exists(os.path.join(out, "log.jsonl")) and
                     len(open(os.path.join(out, "log.jsonl")).readlines()) > 2, 15, "the run")
                if sig == signal.SIGINT:
                    os.write(terminal, b"\x03")
                else:
                    os.kill(pid, sig)
                stop = time.monotonic() + 10
                while time.monotonic() < stop:
                    try:
                        data = os.read(terminal, 65536)
                    except OSError:
                        break
                    if not data:
                        break
                    text += data
                wait(lambda: not [p for p in processes(binary) if p != pid], 3, f"the ranks to go after {sig.name}")
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            finally:
                for p in processes(binary):
                    os.kill(p, signal.SIGKILL)
                os.close(terminal)
            expect(code != 0, f"{sig.name}, {ranks} ranks: exit 0")
            log = read_log(out)  # every line is JSON
            if sig != signal.SIGKILL:
                expect(f"stopped by {sig.name}".encode() in text, f"{sig.name}, {ranks} ranks:\n{text.decode()}")
                expect(log[-1].get("stopped_by") == sig.name, f"last record: {log[-1]}")
            for path in glob.glob(out + "/checkpoint-*/*.safetensors"):
                tensors(path)


def row_5_killed_while_saving():
    """SIGKILL at random moments of a run that saves after every update: what lies under its final name is
    whole, can be loaded, and no save that was complete is lost."""
    with Folder() as f:
        job = Job(f, "wide")
        job.data(train=[[(k * i) % 7 / 7 for i in range(16)] + [k % 10] for k in range(64)])
        binary = job.binary()
        chance = random.Random(1)
        for k in range(8):
            out = f.file(f"o{k}")
            p = start([binary, "--output_dir", out, "--max_steps", "1000000", "--save_strategy", "steps",
                       "--save_steps", "1"])
            wait(lambda: os.path.exists(out + "/checkpoint-1"), 15, "the first save")
            time.sleep(chance.random() * 0.3)
            p.kill()
            end([p], 5)
            whole = glob.glob(out + "/checkpoint-*/model.safetensors")
            steps = sorted(int(re.search(r"checkpoint-(\d+)", x).group(1)) for x in whole)
            expect(steps == list(range(1, len(steps) + 1)), f"saves are missing: {steps}")
            last = f"{out}/checkpoint-{steps[-1]}/model.safetensors"
            for path in whole:
                tensors(path)
            r, _ = job.start(f"--init-only --init_from {last}")
            expect(r.code == 0, r.out)
        with open(last, "rb+") as file:
            file.truncate(os.path.getsize(last) - 1)
        job.fails(last, f"--init_from {last}")


def row_59_threads():
    with Folder() as f:
        job = Job(f, "wide")
        job.data(train=[[0] * 17] * 16)
        cpus = sorted(os.sched_getaffinity(0))
        log, _ = job.train("--max_steps 1")
        expect(log[0]["threads"] <= len(cpus), f"{log[0]['threads']} threads on {len(cpus)} CPUs")
        log, _ = job.train("--max_steps 1", ranks=2)
        expect(log[0]["threads"] == max(1, len(cpus) // 2), f"{log[0]['threads']} threads a rank")
        log, _ = job.train("--max_steps 1", env={"OMP_NUM_THREADS": "1"})
        expect(log[0]["threads"] == 1, "OMP_NUM_THREADS is not obeyed")
        binary = job.binary()
        out = f.file("bound")
        p = subprocess.run([binary, "--output_dir", out, "--max_steps", "1"], capture_output=True, timeout=30,
                           preexec_fn=lambda: os.sched_setaffinity(0, {cpus[0]}))
        expect(p.returncode == 0 and read_log(out)[0]["threads"] == 1, "one CPU, more threads")


def row_69_libraries():
    with Folder() as f:
        r = run(["ldd", probe(f).binary()])
        wrong = [x for x in r.out.splitlines() if re.search("cuda|nccl|mpi|gloo", x)]
        expect(r.code == 0 and not wrong, f"a CPU program needs {wrong}")


def user_closes_the_output():
    """Whoever looks at the first lines only does not end the training."""
    with Folder() as f:
        binary = probe(f, 64).binary()
        out = f.file("o")
        p = subprocess.run(f"'{binary}' --output_dir '{out}' --num_train_epochs 200 | head -1", shell=True,
                           capture_output=True, timeout=30)
        expect(p.returncode == 0, p.stderr.decode())
        wait(lambda: not processes(binary), 20, "the run to end")
        expect(os.path.exists(out + "/model.safetensors"), f"no weights after | head:\n{p.stderr.decode()}")
        expect("train_loss" in read_log(out)[-1], "the log has no end")


def user_starts_without_descriptors():
    """As some daemons start programs: messages must not end up in the log or in a socket."""
    with Folder() as f:
        binary = probe(f).binary()
        for k, ranks in enumerate(("", "--nproc-per-node 2")):
            out = f.file(f"o{k}")
            code = subprocess.run(f"exec '{binary}' --output_dir '{out}' {ranks} <&- >&- 2>&-", shell=True,
                                  timeout=30).returncode
            expect(code == 0, f"{ranks}: exit {code}")
            expect("train_loss" in read_log(out)[-1], "something else than records in the log")


def user_has_no_room():
    """A file over the limit (as on a full disk): an error with the path, nothing half-written, what was
    saved before stays."""
    with Folder() as f:
        job = Job(f, "wide")
        job.data(train=[[0] * 17] * 16)
        binary = job.binary()
        _, out = job.train("--max_steps 1")
        before = weights(out)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))

        for flags in ("--save_strategy steps --save_steps 1", "--save_strategy no"):
            p = subprocess.run([binary, "--output_dir", out, "--max_steps", "2", *flags.split()], timeout=30,
                               preexec_fn=limit, capture_output=True, text=True)
            expect(p.returncode > 0 and "cannot write" in p.stderr and "model.safetensors" in p.stderr, p.stderr)
            names = sorted(os.listdir(out))
            expect(names == ["log.jsonl", "model.safetensors", "trainer_state.json"], f"{names}")
            expect(weights(out) == before, "the saved weights are lost")


main({k: v for k, v in list(globals().items()) if k.startswith(("row_", "user_"))})
