"""What the chaos tests share: a job that is started, disturbed and looked at from outside. Only Python's
standard library. Nothing that is started here outlives the test."""
import glob
import json
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from ddptest import (BUILD, DDPC, ROOT, SLOW, Failure, Folder, Skip, apart, children, expect, main,  # noqa: E402,F401
                     must, read_log, run, wait_for)

JOB = "tests/chaos/digits.ddp"


def amount(name, default):
    """How much of something a test does: what is asked for, else less where everything is slow."""
    return int(os.environ.get(name, int(default / SLOW)))


def heed_signals():
    """A shell that starts this test in the background has SIGINT ignored, nohup SIGHUP: the runs are not to be."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Live:
    """A program that runs in a session of its own. Its output goes to a file."""

    def __init__(self, folder, args, env=None, name="console"):
        self.console = folder.file(name)
        self.started = time.monotonic()
        with open(self.console, "a") as out:
            self.p = subprocess.Popen(args, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                      env=dict(os.environ, **(env or {})), start_new_session=True,
                                      preexec_fn=heed_signals)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in children(self.p.pid).values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.p.wait()

    @property
    def pid(self):
        return self.p.pid

    def ranks(self):
        """{rank: pid}; a run of one rank is its own."""
        found = {k: pid for k, pid in children(self.pid).items() if k >= 0}
        return found or ({0: self.pid} if self.p.poll() is None else {})

    def send(self, number, pid=None):
        try:
            os.kill(pid or self.pid, number)
            return True
        except ProcessLookupError:
            return False

    def end(self, limit):
        """Exit code; all processes of the run are gone a second later at the latest."""
        try:
            code = self.p.wait(limit * SLOW)
        except subprocess.TimeoutExpired:
            raise Failure(f"still running after {limit * SLOW} s:\n{self.text()}")
        wait_for(lambda: not children(self.pid), 3, f"the last process to go: {children(self.pid)}")
        return code

    def text(self, last=3000):
        with open(self.console, errors="replace") as f:
            return f.read()[-last:]


def fresh_pause(most):
    """A moment for a fault: the pause is the fault's own time, nothing is synchronised by it."""
    time.sleep(random.uniform(0, most))


def updates(folder):
    """Steps of the log so far; lines that are being written are left out."""
    try:
        with open(os.path.join(folder, "log.jsonl")) as f:
            lines = f.read().split("\n")[:-1]
    except OSError:
        return 0
    steps = [0]
    for line in lines:
        try:
            steps.append(json.loads(line).get("step", 0))
        except ValueError:
            pass
    return steps[-1]


def checkpoints(folder, without=()):
    """Numbers of the checkpoints, in order. One without a manifest, or with a file that is not whole, is a failure;
    one that a live run takes away while it is looked at is none."""
    found = []
    for path in glob.glob(os.path.join(folder, "checkpoint-*")):
        number = int(path.rsplit("-", 1)[1])
        if number in without:
            continue
        try:
            check_checkpoint(path)
            found.append(number)
        except Failure:
            if os.path.exists(path):
                raise
    return sorted(found)


def check_checkpoint(path):
    try:
        with open(os.path.join(path, "manifest.json")) as f:
            manifest = json.load(f)
        for name in os.listdir(path):
            if name.endswith(".safetensors"):
                check_tensors(os.path.join(path, name))
            elif name.endswith(".json"):
                with open(os.path.join(path, name)) as f:
                    json.load(f)
    except (OSError, ValueError) as e:
        raise Failure(f"{path}: {e}")
    expect(isinstance(manifest, dict), f"{path}: the manifest is no object")


def check_tensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    ends = [t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"]
    if len(data) != 8 + n + max(ends, default=0):
        raise ValueError(f"{path} has {len(data)} bytes, not {8 + n + max(ends, default=0)}")


def leftovers(folder):
    """Names in an output folder that belong to files under way."""
    found = []
    for base, folders, files in os.walk(folder):
        found += [os.path.join(base, x) for x in folders + files if ".tmp" in x or ".partial" in x]
    return found


def of_process(pid):
    """Descriptors, threads and resident KiB of a process; None when it is gone."""
    try:
        with open(f"/proc/{pid}/status") as f:
            status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
        return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": int(status["Threads"]),
                "memory": int(status["VmRSS"].split()[0])}
    except (OSError, KeyError):
        return None


inside = False  # namespaces of our own


def inside_namespaces(needed=False):
    """From now on mounts and a network of our own, where other jobs of the machine are not seen. Without the right to
    have them the test goes on, or is skipped where it needs them."""
    global inside
    inside = apart(network=True)
    if inside:
        must(["ip", "link", "set", "lo", "up"])
    elif needed:
        raise Skip("no namespaces here")


def of_machine():
    """Names that a run may leave behind: shared memory with a name, sockets without a file. None where other jobs
    would be seen."""
    if not inside:
        return set()
    with open("/proc/net/unix") as f:
        sockets = {line.split()[-1] for line in f if "@ddp-" in line}
    return set(os.listdir("/dev/shm")) | sockets
