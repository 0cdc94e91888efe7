"""The part of `gpu-check run` that measures: milliseconds of an update and memory, against PyTorch if it is installed. Same
GPU, same precision, numbers by chance, rounds of both taking turns, medians. PyTorch's data lie in the GPU's memory already,
and it waits for the GPU at the end of a round only; ddpc's time is the median of its updates, gathering and copying their
data included, and its memory holds the context of CUDA, which PyTorch's does not."""
import json
import os
import selectors
import statistics
import subprocess
import sys
import time

from checks import NotHere, Wrong, read_log
from programs import PROGRAMS

ROUNDS = 3
# program: (arguments of peer.py, updates of a round, the goal: how many times PyTorch's speed, share of its memory)
JOBS = {"gpt2_b32": (["gpt2", "--batch", "32", "--bf16", "--compile"], 30, 1.10, 0.6),
        "gpt2_b4": (["gpt2", "--batch", "4", "--bf16", "--compile"], 60, 1.5, None),
        "mlp": (["mlp", "--batch", "64"], 1000, 2, None),
        "resnet18": (["resnet18", "--batch", "32"], 300, 2, None)}


class Peer:
    """PyTorch in a process of its own, which compiles once and runs a round when it is told."""

    def __init__(self, bench, name):
        arguments, self.updates, _, _ = JOBS[name]
        peer = os.path.join(bench.pack, "gpu", "peer.py")
        self.log = open(os.path.join(bench.work, f"peer-{name}"), "w+")
        self.p = subprocess.Popen([sys.executable, peer, *arguments, "--steps", str(self.updates)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1, start_new_session=True)
        self.ready = False

    def answer(self, deadline):
        with selectors.DefaultSelector() as s:
            s.register(self.p.stdout, selectors.EVENT_READ)
            if not s.select(max(deadline - time.monotonic(), 0)):
                raise NotHere("PyTorch was not ready in time")
        line = self.p.stdout.readline()
        if not line:
            self.log.seek(0)
            raise NotHere("PyTorch ended: " + (self.log.read().strip().splitlines() or ["without a word"])[-1])
        return json.loads(line)

    def round(self, deadline):
        if not self.ready:
            self.answer(deadline)
            self.ready = True
        self.p.stdin.write("go\n")
        return self.answer(deadline)

    def end(self):
        self.p.kill()
        self.p.wait()
        self.log.close()


peers = {}


def begin(bench):
    """What takes PyTorch long to compile."""
    if bench.machine.torch:
        for name in "gpt2_b32", "gpt2_b4":
            if name in bench.programs:
                peers[name] = Peer(bench, name)


def end():
    while peers:
        peers.popitem()[1].end()


class Memory:
    """The most of the GPU's memory that was taken while this is open, above what was taken before. MiB."""

    def __enter__(self):
        ask = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        self.p, self.most, self.before = None, None, None
        try:
            said = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=20).stdout
            self.before = int(said.split()[0])
            self.p = subprocess.Popen([*ask, "-lms", "50"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
            pass
        return self

    def __exit__(self, *_):
        if self.p:
            self.p.terminate()
            seen = [int(line) for line in self.p.communicate()[0].split() if line.isdigit()]
            if seen:
                self.most = max(seen) - self.before


def ours(b, name, k):
    """(milliseconds of an update, MiB)"""
    out = os.path.join(b.work, f"speed-{name}-{k}")
    with Memory() as memory:
        b.call([b.need(name), "--output_dir", out, "--max_steps", str(JOBS[name][1]), "--logging_steps", "1000000",
                "--eval_strategy", "no", "--save_strategy", "no", "--warmup_steps", "0", *PROGRAMS[name].run])
    last = [r for r in read_log(out) if "step_ms_median" in r]
    if not last:
        raise Wrong(f"{name}: no time in the log")
    return last[-1]["step_ms_median"], memory.most


def compared(b, name):
    """Rounds of both: {"ddpc": [ms], "torch": [ms], memory of both, why: without PyTorch}"""
    found = {"ddpc": [], "torch": [], "ddpc MiB": None, "torch MiB": None, "why": None}
    if not b.machine.torch:
        found["why"] = "PyTorch is not installed, or sees no GPU"
    for k in range(ROUNDS):
        ms, memory = ours(b, name, k)
        found["ddpc"].append(ms)
        found["ddpc MiB"] = max(filter(None, (memory, found["ddpc MiB"])), default=None)
        if found["why"]:
            continue
        try:
            if name not in peers:
                peers[name] = Peer(b, name)
            r = peers[name].round(b.deadline - 10)
            found["torch"].append(r["ms"])
            found["torch MiB"] = r["MiB"]
        except (NotHere, OSError) as e:
            found["why"] = str(e)
    if name in peers:
        peers.pop(name).end()
    return found


def row(name, f):
    _, _, goal, share = JOBS[name]
    mine = statistics.median(f["ddpc"])
    text = f"| {name} | {mine:.3f} | "
    if not f["torch"]:
        return text + f"not run: {f['why']} | | {goal} x | {f['ddpc MiB'] or ''} | |"
    theirs = statistics.median(f["torch"])
    text += f"{theirs:.3f} | {theirs / mine:.2f} x | {goal} x | {f['ddpc MiB'] or ''} | {f['torch MiB']}"
    if share and f["ddpc MiB"] and f["torch MiB"]:
        text += f" ({f['ddpc MiB'] / f['torch MiB']:.0%}, goal {share:.0%})"
    return text + (f", {len(f['torch'])} rounds: {f['why']}" if f["why"] else "") + " |"


def speed(b):
    if b.machine.emulated:
        raise NotHere("the emulator says nothing about speed")
    lines, there = ["| job | ddpc, ms | PyTorch, ms | ratio | goal | ddpc, MiB | PyTorch, MiB |", "|---|---|---|---|---|---|---|"], 0
    for name in JOBS:
        if name not in b.programs:
            continue
        try:
            b.figures[name] = compared(b, name)
            lines.append(row(name, b.figures[name]))
            there += 1
        except Wrong as e:
            lines += [f"| {name} | WRONG | | | | | |", *str(e).splitlines()]
            b.figures[name] = {"why": str(e)}
    if not there:
        raise Wrong("\n".join(lines)) if len(lines) > 2 else NotHere("no program for it is in the pack")
    if any("WRONG" in line for line in lines):
        raise Wrong("\n".join(lines))
    return lines
