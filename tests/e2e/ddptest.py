"""What the end-to-end tests share: compile a job, run it under a launcher with a hard time limit, read
its log. Only Python's standard library. Every process started here is ended here."""
import ctypes
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("DDP_BUILD", os.path.join(ROOT, "build"))
DDPC = os.path.join(BUILD, "ddpc")
LIMIT = 60  # seconds; a hang is a failure
# Every limit is so many times as long: under sanitizers, or for a machine that is slow or busy.
SLOW = float(os.environ.get("DDP_TEST_SLOWNESS", "1"))
ENDLESS = ["--max_steps", "1000000", "--logging_steps", "1", "--eval_strategy", "no"]


class Failure(Exception):
    pass


class Skip(Exception):
    """What the test needs is not here; the text says what."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


class Run:
    """One finished program: exit code, output, seconds."""

    def __init__(self, code, out, seconds):
        self.code, self.out, self.seconds = code, out, seconds


def run(args, limit=LIMIT, env=None, cwd=None):
    """Runs to the end in a session of its own; kills the whole session at the limit."""
    start = time.monotonic()
    full = dict(os.environ, **(env or {}))
    p = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=full, cwd=cwd,
                         start_new_session=True)
    try:
        out, _ = p.communicate(timeout=limit * SLOW)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, _ = p.communicate()
        raise Failure(f"still running after {limit * SLOW} s: {' '.join(args)}\n{out}")
    return Run(p.returncode, out, time.monotonic() - start)


def must(args, **how):
    r = run(args, **how)
    expect(r.code == 0, f"exit {r.code}: {' '.join(args)}\n{r.out}")
    return r


class Folder:
    """A temporary folder with compiled jobs and their outputs."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="ddptest-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name):
        return os.path.join(self.path, name)

    def compile(self, job, name, defines=(), flags=()):
        out = self.file(name)
        args = [DDPC, os.path.join(ROOT, job), "-o", out]
        for d in defines:
            args += ["-D", d]
        must(args + list(flags))
        return out

    def train(self, binary, name, ranks=1, flags=(), env=None, launcher=None, limit=LIMIT):
        """Trains into folder NAME; returns (Run, log records)."""
        out = self.file(name)
        base = [binary, "--output_dir", out] + list(flags)
        args = (launcher + base) if launcher else base + (["--nproc-per-node", str(ranks)] if ranks > 1 else [])
        r = must(args, env=env, limit=limit)
        return r, read_log(out)


def read_log(folder):
    with open(os.path.join(folder, "log.jsonl")) as f:
        return [json.loads(line) for line in f]


def collectives(trace):
    """{(rank, name): how often} of a time line that --profile wrote."""
    count = {}
    with open(trace) as f:
        for e in json.load(f)["traceEvents"]:
            if e.get("cat") == "collective":
                key = e["pid"], e["name"]
                count[key] = count.get(key, 0) + 1
    return count


def waited(folder):
    """The longest wait that the flight records tell of. By the clock of a test it may seem shorter than ddp_timeout: who is
    stopped or cut off may have been late already."""
    waits = []
    for path in glob.glob(os.path.join(folder, "flight-*.json")):
        with open(path) as f:
            record = json.load(f)
        waits.append(record["clock"] - record["collectives"][-1]["scheduled"])
    return max(waits, default=0)


def losses(log):
    return [r["loss"] for r in log if "loss" in r]


def same(a, b, tolerance, what):
    expect(len(a) == len(b) and a, f"{what}: {len(a)} and {len(b)} losses")
    worst = max(abs(x - y) / max(abs(x), abs(y), 1e-12) for x, y in zip(a, b))
    expect(worst <= tolerance, f"{what}: relative difference {worst:.3g} is over {tolerance:g}")
    return worst


def installed(*names):
    """Path of the first of these programs."""
    for name in names:
        found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if found:
            return found
    raise Skip(f"{names[0]} is not installed")


def of_torch(name):
    """A program that stands beside the Python with PyTorch (DDP_TORCH_PYTHON)."""
    python = os.environ.get("DDP_TORCH_PYTHON")
    found = os.path.join(os.path.dirname(python), name) if python else shutil.which(name)
    if not found or not os.path.exists(found):
        raise Skip(f"{name} is not installed (DDP_TORCH_PYTHON names the Python of PyTorch)")
    return found


def apart(size="1m", network=False):
    """From now on this program and what it starts have an empty /dev/shm of their own, and if asked for a network: what
    is found there is theirs, whatever else runs on this machine. False without the right to do that."""
    new_mounts, new_network, private = 0x00020000, 0x40000000, 0x4000 | 1 << 18  # CLONE_NEW*, MS_REC | MS_PRIVATE
    libc = ctypes.CDLL(None)
    return not (libc.unshare(new_mounts | (new_network if network else 0))
                or libc.mount(None, b"/", None, ctypes.c_ulong(private), None)
                or libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", ctypes.c_ulong(0), f"size={size}".encode()))


def children(session):
    """{rank: pid} of the processes of this session; negative keys for what is no rank."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                name, fields = f.read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue  # it ended while we looked
        pid, fields = int(path.split("/")[2]), fields.split()
        if int(fields[3]) != session or fields[0] == "Z":
            continue
        found[int(name[9:]) if name.startswith("ddp rank ") else -pid] = pid
    return found


def wait_for(condition, limit, what):
    end = time.monotonic() + limit * SLOW
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise Failure(f"waited {limit * SLOW} s for {what}")


def reached(folder, step):
    try:
        return any(r.get("step", 0) >= step for r in read_log(folder))
    except (OSError, ValueError):
        return False


def held_save(out):
    """Makes the output folder, in which saving the weights of the end waits until somebody reads the pipe that is
    returned."""
    os.mkdir(out)
    pipe = os.path.join(out, "model.safetensors.tmp")
    os.mkfifo(pipe)
    return pipe


class Started:
    """A program in a session of its own; ends with everything in it."""

    def __init__(self, folder, args, env=None):
        self.console = open(folder.file("console"), "w+")
        self.p = subprocess.Popen(args, stdout=self.console, stderr=subprocess.STDOUT, start_new_session=True,
                                  env=dict(os.environ, **(env or {})))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in children(self.p.pid).values():
            os.kill(pid, signal.SIGKILL)
        self.p.wait()
        self.console.close()

    def text(self):
        self.console.flush()
        with open(self.console.name) as f:
            return f.read()

    def end(self, limit):
        try:
            code = self.p.wait(limit * SLOW)
        except subprocess.TimeoutExpired:
            raise Failure(f"still running after {limit * SLOW} s:\n{self.text()}")
        wait_for(lambda: not children(self.p.pid), 2, "the last process to go")
        return code


SKIPPED = 77  # exit code, as CMakeLists.txt tells ctest


def main(tests):
    """Runs the named tests (all without arguments), each reported on a line."""
    wanted = sys.argv[1:] or list(tests)
    failed = skipped = 0
    for name in wanted:
        start = time.monotonic()
        try:
            tests[name]()
            print(f"ok    {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Skip as e:
            skipped += 1
            print(f"skipped: {e}", flush=True)
        except Failure as e:
            failed += 1
            print(f"FAIL  {name}: {e}", flush=True)
    sys.exit(1 if failed else SKIPPED if skipped == len(wanted) else 0)
