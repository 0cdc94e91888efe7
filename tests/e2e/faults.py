"""A killed rank and a stopped rank, in the middle of training: everybody ends in time, the right rank is
named, nothing is left behind."""
import os
import signal
import subprocess
import time

from ddptest import Failure, Folder, children, expect, main, read_log, wait_for

JOB = "examples/digits/job.ddp"
RANKS = 4


def reached(folder, step):
    try:
        return any(r.get("step", 0) >= step for r in read_log(folder))
    except (OSError, ValueError):
        return False


def fault(rank, sig, flags, limit, backend=()):
    """Starts 4 ranks, sends the signal to one at update 5; returns (seconds to the end, exit code, output)."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        shm = set(os.listdir("/dev/shm"))
        out = f.file("out")
        log = open(f.file("console"), "w+")
        p = subprocess.Popen([binary, "--nproc-per-node", str(RANKS), "--output_dir", out, "--max_steps", "1000000",
                              "--logging_steps", "1", "--eval_strategy", "no", *flags, *backend],
                             stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            wait_for(lambda: reached(out, 5), 30, "update 5")
            os.kill(children(p.pid)[rank], sig)
            start = time.monotonic()
            try:
                code = p.wait(limit)
            except subprocess.TimeoutExpired:
                raise Failure(f"still running {limit} s after {sig.name} of rank {rank}")
            seconds = time.monotonic() - start
            wait_for(lambda: not children(p.pid), 1, "the last process to go")
        finally:
            for pid in children(p.pid).values():
                os.kill(pid, signal.SIGKILL)
            p.wait()
            log.seek(0)
            text = log.read()
        expect(set(os.listdir("/dev/shm")) <= shm, "something is left in /dev/shm")
        expect(not [x for x in os.listdir(out) if "tmp" in x], f"half-written files: {os.listdir(out)}")
        return seconds, code, text


def killed(backend=()):
    for rank in (0, 2, 3):
        seconds, code, text = fault(rank, signal.SIGKILL, [], 5, backend)
        expect(code != 0, f"exit code 0 after rank {rank} was killed")
        expect(f"rank {rank}" in text, f"rank {rank} is not named:\n{text}")


def stopped(backend=()):
    for rank in range(RANKS):
        seconds, code, text = fault(rank, signal.SIGSTOP, ["--ddp_timeout", "5"], 8, backend)
        expect(code != 0, f"exit code 0 with rank {rank} stopped")
        expect(5 <= seconds <= 8, f"ended {seconds:.1f} s after rank {rank} was stopped, not in 5 to 8")
        expect(f"rank {rank}" in text, f"rank {rank} is not named:\n{text}")
        expect("all-reduce" in text or "broadcast" in text or "barrier" in text, f"no operation is named:\n{text}")


GLOO = ("--intra_node", "backend")
if __name__ == "__main__":
    main(dict(killed=killed, stopped=stopped, killed_gloo=lambda: killed(GLOO), stopped_gloo=lambda: stopped(GLOO)))
