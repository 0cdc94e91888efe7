"""Ports and output folders are free again as soon as a run is gone, whatever ended it."""
import os
import signal
import socket

from chaos import JOB, Folder, Live, expect, main, run, updates, wait_for

LONG = ["--max_steps", "1000000", "--save_strategy", "no", "--eval_strategy", "no", "--logging_steps", "5"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def ports():
    """The same port, again and again, right after all ranks were killed with open connections."""
    with Folder() as f:
        binary = f.compile(JOB, "train")
        port = free_port()
        for turn in range(8):
            def rank(k):
                env = dict(RANK=str(k), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
                return Live(f, [binary, "--output_dir", f.file("out"), *LONG], env, f"console{k}")
            seen = updates(f.file("out")) if turn else 0
            if os.path.exists(f.file("out/log.jsonl")):
                os.remove(f.file("out/log.jsonl"))
            with rank(0) as a, rank(1) as b:
                wait_for(lambda: updates(f.file("out")) >= 5 or a.p.poll() is not None, 20, "training")
                expect(a.p.poll() is None, f"turn {turn} (after {seen} updates): rank 0 ended\n{a.text()}")
                # In turn: both at once, one and the other left to see it.
                for pid in ((a.pid, b.pid), (a.pid,), (b.pid,))[turn % 3]:
                    os.kill(pid, signal.SIGKILL)
                codes = {a.end(10), b.end(10)}
                expect(codes <= {-signal.SIGKILL, 4}, f"exit codes {codes}\n{a.text()}{b.text()}")


def locks():
    """While a run lasts its folder is taken; a moment after it was killed it is free."""
    with Folder() as f:
        binary = f.compile(JOB, "train")
        out = f.file("out")
        command = [binary, "--output_dir", out, "--nproc-per-node", "2"]
        for turn in range(6):
            if os.path.exists(os.path.join(out, "log.jsonl")):
                os.remove(os.path.join(out, "log.jsonl"))
            with Live(f, command + LONG) as live:
                wait_for(lambda: updates(out) >= 5 or live.p.poll() is not None, 20, "training")
                expect(live.p.poll() is None, f"turn {turn} did not start:\n{live.text()}")
                if turn == 0:
                    second = run(command + ["--max_steps", "40"], limit=20)
                    expect(second.code == 6 and "in use by another run" in second.out,
                           f"exit {second.code}\n{second.out}")
                    expect(updates(out) >= 5 and live.p.poll() is None, "the first run was disturbed")
                victim = live.pid if turn % 2 else live.ranks()[turn % 4 // 2]
                os.kill(victim, signal.SIGKILL)
                live.end(10)
        done = run(command + ["--max_steps", "40"], limit=20)
        expect(done.code == 0, f"the folder stays taken: exit {done.code}\n{done.out}")


main(dict(ports=ports, locks=locks))
