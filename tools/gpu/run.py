"""`gpu-check run`: builds, then one part after the other, each within its time and all within the whole."""
import json
import os
import shutil
import sys
import tempfile
import time
import traceback

import checks
import speed
from build import Broken, Builder
from machine import Machine
from report import FAILED, NOT_RUN, PASSED, Report

# (name, most seconds, what is called); what matters most comes first
PARTS = [("ops", 60, checks.ops), ("losses", 120, checks.losses), ("bf16", 60, checks.bf16), ("twice", 60, checks.twice),
         ("graphs", 60, checks.graphs), ("attention", 60, checks.attention), ("nccl", 40, checks.nccl),
         ("large", 40, checks.large),
         ("speed", 240, speed.speed), ("sanitizer", 100, checks.sanitizer)]


def timed(report, name, most, look):
    """One part with whatever happens in it; returns whether it is right."""
    start = time.monotonic()
    figures = {}
    try:
        lines, state = look(start + most, figures), PASSED
    except checks.NotHere as e:
        lines, state = [f"not run: {e}"], NOT_RUN
    except (checks.Wrong, Broken) as e:
        lines, state = str(e).splitlines(), FAILED
    except Exception:  # a fault of ours: the other parts still count
        lines, state = traceback.format_exc().splitlines(), FAILED
    report.add(name, state, lines, time.monotonic() - start, figures)
    return state == PASSED


def part(look, bench, end):
    def run(limit, figures):
        if end - time.monotonic() < 5:
            raise checks.NotHere("no time was left")
        if bench.machine.why:
            raise checks.NotHere(bench.machine.why)
        bench.deadline, bench.figures = min(limit, end), figures
        return look(bench)
    return run


def build(builder, only):
    def run(limit, figures):
        made = builder.everything(only)
        figures.update({f"{name} {('device', 'host', 'link')[k]}": round(s, 1) for (name, k), s in builder.seconds.items()})
        bad = {name: why for name, why in made.items() if why}
        if bad:
            raise checks.Wrong("\n".join(f"{name}: {why}" for name, why in bad.items()))
        slow = max(builder.seconds, key=builder.seconds.get, default=None)
        return [f"{len(made)} programs" + (f"; {slow[0]} took longest, {builder.seconds[slow]:.1f} s" if slow else "")]
    return run


def device(machine):
    def run(limit, figures):
        if machine.why:
            raise checks.Wrong(machine.why)
        return [machine.facts["GPU"]]
    return run


def main(a):
    start = time.monotonic()
    only = [name for name in a.only.split(",") if name]
    pack = os.path.abspath(a.folder)
    try:
        with open(os.path.join(pack, "pack.json")) as f:
            description = json.load(f)
        if not description.get("version"):
            raise ValueError("it is not complete")
        unknown = [name for name in only if name not in [p[0] for p in PARTS]]
        if unknown:
            raise ValueError(f"no part {unknown[0]}; there are {', '.join(p[0] for p in PARTS)}")
    except (OSError, ValueError) as e:
        print(f"gpu-check: {pack}: {e}", file=sys.stderr)
        return 2
    report = Report(os.path.abspath(a.output), description["version"])
    machine = Machine(description["target"])
    report.machine(machine.facts)
    end = start + a.seconds
    builder = Builder(pack, machine, description, a.jobs, end, a.libraries)
    work = tempfile.mkdtemp(prefix="gpu-check-")
    bench = checks.Bench(pack, machine, description, builder, work)
    try:
        timed(report, "device", 60, device(machine))
        if not machine.why and (not only or "speed" in only):
            speed.begin(bench)  # PyTorch compiles while programs are built and checked
        timed(report, "build", a.seconds, build(builder, set(description["programs"]) | {"ops"}))
        for name, most, look in PARTS:
            if not only or name in only:
                timed(report, name, most, part(look, bench, end))
    finally:
        speed.end()
        shutil.rmtree(work, ignore_errors=True)
    report.end()
    print(f"report: {report.path}")
    return 1 if report.failed() else 0
