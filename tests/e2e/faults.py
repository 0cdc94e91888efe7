"""A killed rank and a stopped rank, in the middle of training: everybody ends in time, the right rank is
named, nothing is left behind."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

from ddptest import ENDLESS, SLOW, Folder, Started, apart, children, expect, held_save, main, reached, wait_for, waited

JOB = "examples/digits/job.ddp"
RANKS = 4


def fault(rank, sig, flags, limit, backend=()):
    """Starts 4 ranks, sends the signal to one at update 5; returns (seconds to the end, the longest wait of a rank,
    exit code, output)."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        alone = apart()  # other programs of this machine have names in /dev/shm that come and go
        out = f.file("out")
        os.mkdir(out)
        for k in rank, RANKS:  # of an earlier run: two ranks that were killed while they wrote
            open(os.path.join(out, f"flight-{k}.json.tmp"), "w").close()
        with Started(f, [binary, "--nproc-per-node", str(RANKS), "--output_dir", out, *ENDLESS, *flags, *backend]) as s:
            wait_for(lambda: reached(out, 5), 30, "update 5")
            os.kill(children(s.p.pid)[rank], sig)
            start = time.monotonic()
            code = s.end(limit)
            seconds = time.monotonic() - start
            text = s.text()
        expect(not alone or not os.listdir("/dev/shm"), f"left in /dev/shm: {os.listdir('/dev/shm')}")
        expect(not [x for x in os.listdir(out) if "tmp" in x], f"half-written files: {os.listdir(out)}")
        for survivor in set(range(RANKS)) - {rank}:
            with open(os.path.join(out, f"flight-{survivor}.json")) as file:
                record = json.load(file)
            expect(record["blamed_rank"] == rank, f"the record of rank {survivor} blames {record['blamed_rank']}")
            expect(record["collectives"][-1]["state"] != "completed", f"rank {survivor} waits for nothing: {record}")
        return seconds, waited(out), code, text


def killed(backend=()):
    for rank in (0, 2, 3):
        _, _, code, text = fault(rank, signal.SIGKILL, [], 5, backend)
        expect(code != 0, f"exit code 0 after rank {rank} was killed")
        losses = re.findall(rf"error: (.*)lost rank {rank} ", text)
        expect(losses and all(re.fullmatch(r"update \d+: ([a-z-]+( of|:) .*: )?", x) for x in losses),
               f"rank {rank} is not named with update and operation:\n{text}")


def in_time(wait, least, seconds, most, rank, text):
    """All ended, not before ddp_timeout and not long after it."""
    expect(wait >= least, f"rank {rank} was waited for {wait:.3f} s, not {least}\n{text}")
    expect(seconds <= most, f"ended {seconds:.1f} s after rank {rank} was stopped, not within {most:g}\n{text}")


def stopped(backend=()):
    for rank in range(RANKS):
        seconds, wait, code, text = fault(rank, signal.SIGSTOP, ["--ddp_timeout", "5"], 8, backend)
        expect(code != 0, f"exit code 0 with rank {rank} stopped")
        in_time(wait, 5, seconds, 5 + 3 * SLOW, rank, text)
        expect(f"rank {rank}" in text, f"rank {rank} is not named:\n{text}")
        expect("all-reduce" in text or "broadcast" in text or "barrier" in text, f"no operation is named:\n{text}")


def saving():
    """Rank 0 saves for longer than ddp_timeout, since the disk is slow: the others wait. It is stopped while it
    saves: after ddp_timeout they end and say so."""
    for stop in (False, True):
        with Folder() as f:
            binary = f.compile(JOB, "digits")
            out = f.file("out")
            pipe = held_save(out)
            with Started(f, [binary, "--nproc-per-node", "3", "--output_dir", out, "--max_steps", "3", "--warmup_steps", "0",
                             "--eval_strategy", "no", "--ddp_timeout", "3"]) as s:
                wait_for(lambda: {0, 1, 2} <= set(children(s.p.pid)) and waits_in_open(children(s.p.pid)[0]), 30,
                         "rank 0 to save")
                start = time.monotonic()
                if stop:
                    os.kill(children(s.p.pid)[0], signal.SIGSTOP)
                else:
                    time.sleep(8)  # the slow disk
                    with open(pipe, "rb") as reader:
                        reader.read()
                code = s.end(15)
                seconds = time.monotonic() - start
                text, wait = s.text(), waited(out)
            if not stop:
                expect(code == 0, f"exit code {code}:\n{text}")
                continue
            expect(code == 5, f"exit code {code}:\n{text}")
            in_time(wait, 3, seconds, 3 + 5 * SLOW, 0, text)
            expect("saving" in text and "rank 0 did not arrive" in text and "it is stopped" in text, text)


def waits_in_open(pid):
    with open(f"/proc/{pid}/wchan") as file:
        return file.read() in ("wait_for_partner", "fifo_open")


def launcher_ends():
    """The launcher is asked to end while a rank is stopped, or is killed: nothing is left, and its port is free."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        for stop in (None, 0, 2):
            with Folder() as f:
                binary = f.compile(JOB, "digits")
                out = f.file("out")
                with socket.socket() as s:
                    s.bind(("127.0.0.1", 0))
                    port = s.getsockname()[1]
                with Started(f, [binary, "--nproc-per-node", "4", "--output_dir", out, *ENDLESS,
                                 "--master-port", str(port)]) as s:
                    wait_for(lambda: reached(out, 5), 30, "update 5")
                    if stop is not None:
                        os.kill(children(s.p.pid)[stop], signal.SIGSTOP)
                    os.kill(s.p.pid, number)
                    code = s.end(10)
                    text = s.text()
                expect(code == (-9 if number == signal.SIGKILL else 9), f"{number.name}: exit code {code}\n{text}")
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
                left = [x for x in os.listdir(out) if "tmp" in x or (code == 9 and "partial" in x)]
                expect(not left, f"half-written: {left}")


def memory_ran_out():
    """A rank is killed while the kernel counts a kill for memory: the launcher says so. The kernel's counter is a
    file of ours, in a mount namespace."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        out, counter = f.file("out"), f.file("vmstat")

        def count(n):
            with open(counter, "w") as file:
                file.write(f"nr_free_pages 1\noom_kill {n}\n")
        count(3)
        if subprocess.run(["unshare", "-m", "mount", "--bind", counter, "/proc/vmstat"], capture_output=True).returncode:
            print("skipped: no right to make a mount namespace")
            sys.exit(77)
        for kills, said in ((3, False), (4, True)):
            count(3)
            with Started(f, ["unshare", "-m", "sh", "-c", f'mount --bind {counter} /proc/vmstat; exec "$@"', "-",
                             binary, "--nproc-per-node", "2", "--output_dir", out, *ENDLESS]) as s:
                wait_for(lambda: 1 in children(s.p.pid) and reached(out, 5), 30, "update 5")
                count(kills)
                os.kill(children(s.p.pid)[1], signal.SIGKILL)
                expect(s.end(10) == 137, "exit code")
                text = s.text()
            os.unlink(os.path.join(out, "log.jsonl"))
            expect("rank 1 was killed by signal 9" in text and ("memory ran out" in text) == said, text)


GLOO = ("--intra_node", "backend")
if __name__ == "__main__":
    main(dict(killed=killed, stopped=stopped, killed_gloo=lambda: killed(GLOO), stopped_gloo=lambda: stopped(GLOO),
              saving=saving, launcher_ends=launcher_ends, memory_ran_out=memory_ran_out))
