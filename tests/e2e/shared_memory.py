"""Shared memory where there is little or none of it, and what runs leave of it that are killed."""
import os
import random
import signal
import subprocess
import time

from ddptest import BUILD, SLOW, Failure, Folder, Skip, apart, children, expect, losses, main, must, read_log, same, wait_for

JOB = "examples/digits/job.ddp"
FLAGS = ["--max_steps", "20", "--eval_strategy", "no", "--logging_steps", "1", "--nproc-per-node", "2"]


def enter(size="1m"):
    if not apart(size, network=True):
        raise Skip("no namespaces here")


def small():
    """/dev/shm of 64 KiB, as some containers have it: nothing of ours goes there."""
    enter("64k")
    with Folder() as f:
        r = must([f.compile(JOB, "digits"), "--output_dir", f.file("out"), *FLAGS])
        expect("2 ranks (own launcher, shared memory)" in r.out, r.out)
        expect(not os.listdir("/dev/shm"), f"in /dev/shm: {os.listdir('/dev/shm')}")


def forbidden():
    """No memfd_create: the ranks use Gloo, say so once, and compute the same bits."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        _, log = f.train(binary, "with", 1, FLAGS)  # FLAGS have the number of ranks
        r = must([os.path.join(BUILD, "without_memfd"), binary, "--output_dir", f.file("without"), *FLAGS])
        expect("2 ranks (own launcher, gloo)" in r.out, r.out)
        expect(r.out.count("no shared memory on this host (memfd_create: Operation not permitted)") == 1, r.out)
        same(losses(log), losses(read_log(f.file("without"))), 0, "without memfd_create")


def left():
    """Names in /dev/shm and abstract sockets."""
    sockets = subprocess.run(["ss", "-xH"], stdout=subprocess.PIPE, text=True).stdout
    return set(os.listdir("/dev/shm")) | {w for w in sockets.split() if w.startswith("@ddp-")}


def killed():
    """50 runs ended by kill -9 of a rank or of the launcher, at any moment from the start on."""
    chance = random.Random(3)
    enter()
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        for i in range(50):
            p = subprocess.Popen([binary, "--nproc-per-node", "2", "--output_dir", f.file("out"), "--max_steps", "1000000",
                                  "--eval_strategy", "no"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 start_new_session=True)
            end = time.monotonic() + chance.uniform(0.0, 0.3)
            while time.monotonic() < end:
                time.sleep(0.001)
            ranks = [pid for rank, pid in children(p.pid).items() if rank >= 0]
            try:
                os.kill(chance.choice(ranks + [p.pid]), signal.SIGKILL)
            except ProcessLookupError:
                pass
            try:
                p.wait(10 * SLOW)
            except subprocess.TimeoutExpired:
                raise Failure(f"run {i} does not end")
            wait_for(lambda: not children(p.pid), 5, f"the ranks of run {i}")
            wait_for(lambda: not left(), 5, f"what run {i} leaves to go")  # a process ends before its sockets do


main(dict(small=small, forbidden=forbidden, killed=killed))
