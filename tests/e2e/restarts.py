"""The own launcher's restarts: from the newest checkpoint of this job, to the same bits; with fewer ranks when
that is allowed; on several hosts; and not where the same would happen again."""
import os
import signal
import socket

from crashes import fault
from ddptest import Folder, Started, children, expect, main, must, run, wait_for
from resume import STATE, equal
from stops import checkpoints, no_halves

JOB = "tests/e2e/fault.ddp"
STEPS = ["--max_steps", "30"]


def straight(f, binary, ranks, flags=()):
    out = f.file("straight")
    must([binary, "--output_dir", out, "--nproc-per-node", str(ranks), *STEPS, *flags])
    return out


def same_bits():
    """A rank crashes once and again; what comes out are the bytes of a run without crashes."""
    with Folder() as f:
        binary = f.compile(JOB, "fault")
        whole = straight(f, binary, 2)
        for how in ("null", "abort"):
            out = f.file(how)
            r = run([binary, "--output_dir", out, "--nproc-per-node", "2", "--max-restarts", "5", *STEPS],
                    env=fault(how, 1, 13))
            expect(r.code == 0, f"exit code {r.code}\n{r.out}")
            expect("restart 2 of 5, with 2 ranks" in r.out and "restart 3" not in r.out, r.out)
            expect("resumed from" in r.out and "checkpoint-10" in r.out and "checkpoint-20" in r.out, r.out)
            equal(whole, out, STATE[:1])
            equal(f"{whole}/checkpoint-30", f"{out}/checkpoint-30")
            no_halves(out)


def used_up():
    """A fault before every save: the restarts come to an end, with the exit code of the fault."""
    with Folder() as f:
        binary = f.compile(JOB, "fault")
        for many in (["--nproc-per-node", "2"], ["--nproc-per-node", "1"]):
            r = run([binary, "--output_dir", f.file("out"), *many, "--max-restarts", "2", *STEPS], env=fault("null", 0, 3))
            expect(r.code == 139, f"exit code {r.code}\n{r.out}")
            expect(r.out.count("crashed: SIGSEGV") == 3, r.out)
            expect("restart 2 of 2" in r.out and "none is left (--max-restarts 2)" in r.out, r.out)


def not_again():
    """Errors of flags, data and numbers are not tried again; a stop is no failure."""
    with Folder() as f:
        binary = f.compile(JOB, "fault")
        base = [binary, "--output_dir", f.file("out"), "--nproc-per-node", "2", "--max-restarts", "3"]
        for flags, code in ((["--learning_rate", "1e30"], 8), (["--data_root", "/nowhere"], 3), (["--max_steps", "x"], 2)):
            r = run(base + flags)
            expect(r.code == code, f"{flags}: exit code {r.code}\n{r.out}")
            expect(f"not restarted: it would end with exit code {code} again" in r.out, r.out)
            expect("restart 1" not in r.out, r.out)
        r = run(base + ["--stop_at_update", "4"])
        expect(r.code == 9 and "restart" not in r.out, f"exit code {r.code}\n{r.out}")
        for flags, text in ((["--min-nproc-per-node", "3"], "from 1 to 2"), (["--max-restarts", "-1"], "given twice"),):
            r = run(base + flags)
            expect(r.code == 2 and text in r.out, f"{flags}: exit code {r.code}\n{r.out}")
        r = run([binary, "--nproc-per-node", "2", "--min-nproc-per-node", "1"])
        expect(r.code == 2 and "no effect without --max-restarts" in r.out, r.out)


def fewer():
    """Four ranks, one is killed: three go on with the same global batch; two of them are killed: where one rank
    is not allowed, two go on."""
    flags = ["--gradient_accumulation_steps", "3"]
    with Folder() as f:
        binary = f.compile(JOB, "fault")
        out = f.file("out")
        with Started(f, [binary, "--output_dir", out, "--nproc-per-node", "4", "--max-restarts", "4",
                         "--min-nproc-per-node", "2", "--max_steps", "1000000", *flags]) as s:
            for ranks, victims, world in ((4, [3], 3), (3, [0, 1], 2)):
                wait_for(lambda: set(children(s.p.pid)) >= set(range(ranks)) and checkpoints_at(out, ranks), 30,
                         f"{ranks} ranks to save")
                now = children(s.p.pid)
                for v in victims:
                    os.kill(now[v], signal.SIGKILL)
                wait_for(lambda: f"with {world} ranks (--min-nproc-per-node)" in s.text(), 20, f"{world} ranks")
            wait_for(lambda: "16 x 6 x 2" in s.text(), 20, "two ranks to train")
            os.kill(s.p.pid, signal.SIGTERM)
            code = s.end(20)
            text = s.text()
        expect(code == 9, f"exit code {code}\n{text}")
        for cut in ("192 = 16 x 3 x 4", "192 = 16 x 4 x 3", "192 = 16 x 6 x 2"):
            expect("global batch " + cut in text, f"no global batch {cut}:\n{text}")
        expect(text.count("resumed from") == 2, text)
        no_halves(out)


def checkpoints_at(out, world):
    """The newest complete checkpoint is of that many ranks."""
    try:
        saved = checkpoints(out)
        with open(f"{out}/checkpoint-{saved[-1]}/manifest.json") as f:
            return f'"world": {world}' in f.read()
    except (OSError, IndexError):
        return False


def old_ones():
    """Checkpoints that an earlier run left are not those of this job: before the first save it begins anew, then
    it goes on from its own. With --resume_from_checkpoint true they count."""
    with Folder() as f:
        binary = f.compile(JOB, "fault")
        out = f.file("out")
        base = [binary, "--output_dir", out, "--nproc-per-node", "2"]
        must([*base, "--max_steps", "30", "--seed", "7"])
        r = run([*base, *STEPS, "--max-restarts", "1"], env=fault("null", 1, 4))
        expect("restart 1 of 1" in r.out and "resumed" not in r.out, r.out)
        r = run([*base, *STEPS, "--max-restarts", "1"], env=fault("null", 1, 8))
        expect("resumed from" in r.out and "checkpoint-5:" in r.out, r.out)
        r = run([*base, "--max_steps", "40", "--resume_from_checkpoint", "true", "--resume_changes", "allow",
                 "--max-restarts", "1"], env=fault("null", 1, 4))
        expect(r.out.count("checkpoint-30: update 30") == 2, r.out)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Hosts:
    """Launchers with two ranks each on what they take for two hosts, in folders of their own."""

    def __init__(self, f, binary, out, env=None, flags=()):
        self.f, self.env = f, env
        self.base = [binary, "--nproc-per-node", "2", "--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port",
                     str(free_port()), *flags]
        self.out = [out, f.file("other")]

    def start(self, k, name):
        os.mkdir(self.f.file(name))
        console = type("At", (), dict(file=lambda _, x: os.path.join(self.f.file(name), x)))()
        return Started(console, [*self.base, "--node-rank", str(k), "--output_dir", self.out[k]], env=self.env)


def hosts():
    """A rank of the second launcher dies twice, both start theirs again each time, and the bytes are those of a run
    without that."""
    with Folder() as f:
        binary = f.compile(JOB, "fault")
        whole, out = straight(f, binary, 4), f.file("out")
        both = Hosts(f, binary, out, fault("null", 3, 13), ["--max-restarts", "3", *STEPS])
        with both.start(0, "a") as a, both.start(1, "b") as b:
            codes = a.end(60), b.end(60)
            text = a.text() + b.text()
            expect(codes == (0, 0), f"exit codes {codes}\n{text}")
            for s in (a, b):
                expect("restart 2 of 3, with 2 ranks" in s.text() and "restart 3" not in s.text(), text)
        expect("resumed from" in text and "checkpoint-20:" in text, text)
        equal(whole, out, STATE[:1])
        r = run([*both.base, "--node-rank", "0", "--min-nproc-per-node", "1"])
        expect(r.code == 2 and "not supported yet" in r.out, r.out)


def host_comes_back():
    """The second launcher is killed. The first one starts its ranks again, which wait; when the second is started
    again they go on together from the newest checkpoint. If it does not come, the missing ranks are named."""
    flags = ["--max_steps", "1000000", "--max-restarts", "1", "--save_steps", "200"]
    with Folder() as f:
        binary = f.compile(JOB, "fault")
        out = f.file("out")
        both = Hosts(f, binary, out, flags=flags)
        with both.start(0, "a") as a, both.start(1, "b") as b:
            wait_for(lambda: os.path.isdir(out) and checkpoints(out), 30, "a checkpoint")
            os.kill(b.p.pid, signal.SIGKILL)
            wait_for(lambda: "restart 1 of 1, with 2 ranks" in a.text(), 20, "the restart")
            b.p.wait()
            with both.start(1, "c") as c:
                wait_for(lambda: "resumed from" in a.text(), 30, "both to go on")
                saved = checkpoints(out)[-1]
                wait_for(lambda: checkpoints(out)[-1] > saved, 30, "another checkpoint")
                os.kill(c.p.pid, signal.SIGTERM)
                codes = a.end(20), c.end(20)
                expect(codes == (9, 9), f"exit codes {codes}\n{a.text()}{c.text()}")
        both = Hosts(f, binary, f.file("out2"), flags=[*flags, "--ddp_timeout", "4"])
        with both.start(0, "d") as a, both.start(1, "e") as b:
            wait_for(lambda: os.path.isdir(f.file("out2")) and checkpoints(f.file("out2")), 30, "a checkpoint")
            os.kill(b.p.pid, signal.SIGKILL)
            code = a.end(20)
            text = a.text()
            expect(code in (4, 5) and "none is left (--max-restarts 1)" in text, f"exit code {code}\n{text}")
            expect("2, 3" in text[text.index("restart 1 of 1"):], f"the missing ranks are not named:\n{text}")


if __name__ == "__main__":
    main(dict(same_bits=same_bits, used_up=used_up, not_again=not_again, fewer=fewer, old_ones=old_ones, hosts=hosts,
              host_comes_back=host_comes_back))
