"""Every schedule of transformers, as doubles: the emitted function of each variant against the rates that transformers'
scheduler gives, bit for bit, from the first update to the last; and runs whose rates come from measured values
(reduce_lr_on_plateau, greedy) against torch's and transformers' classes, fed with the logged metric.

Needs torch and transformers. DDP_BUILD names the build folder."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
from transformers.optimization import GreedyLR, SchedulerType, get_scheduler

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("DDP_BUILD", ROOT / "build"))
DDPC = BUILD / "ddpc"
RATE = 3e-4
VARIANTS = [
    ("linear", {}), ("cosine", {}), ("cosine", {"num_cycles": 2}), ("cosine", {"num_cycles": 0.3}),
    ("cosine_with_restarts", {}), ("cosine_with_restarts", {"num_cycles": 3}),
    ("polynomial", {}), ("polynomial", {"power": 2.0, "lr_end": 1e-5}), ("polynomial", {"power": 0.5}),
    ("constant", {}), ("constant_with_warmup", {}), ("inverse_sqrt", {}), ("inverse_sqrt", {"timescale": 50}),
    ("cosine_with_min_lr", {"min_lr": 1e-5}), ("cosine_with_min_lr", {"min_lr_rate": 0.1, "num_cycles": 1.5}),
    ("cosine_warmup_with_min_lr", {"min_lr": 1e-5}),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1, "warmup_lr_rate": 0.02, "num_cycles": 0.7}),
    ("warmup_stable_decay", {"num_decay_steps": 7}),
    ("warmup_stable_decay", {"num_decay_steps": 7, "warmup_type": "cosine", "decay_type": "linear", "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", {"num_decay_steps": 5, "warmup_type": "1-sqrt", "decay_type": "1-sqrt"}),
    ("warmup_stable_decay", {"num_decay_steps": 6, "num_stable_steps": 9, "num_cycles": 1.2, "min_lr_ratio": 0.05}),
]
# updates of warm-up and in all: none, odd, one, as many as there are updates, one update (row 55 of the bug reports)
LENGTHS = [(0, 20), (3, 20), (1, 7), (10, 37), (7, 7), (0, 1), (1, 1), (2, 6)]
MEASURED = [
    ("reduce_lr_on_plateau", {"patience": 0, "factor": 0.5, "threshold": 0.2}),
    ("reduce_lr_on_plateau", {"patience": 1, "cooldown": 2, "threshold_mode": "abs", "threshold": 0.05, "min_lr": 1e-3}),
    ("reduce_lr_on_plateau", {"patience": 0, "mode": "max", "factor": 0.9}),
    ("greedy", {"patience": 1, "min_lr": 1e-4, "max_lr": 0.5, "factor": 0.8}),
    ("greedy", {"patience": 0, "smooth": True, "window_size": 3, "threshold": 0.02, "min_lr": 0.05, "reset_start": 2,
                "warmup": 2, "cooldown": 1, "threshold_mode": "rel"}),
]

JOB = """edition 1

dataset d {{
  let rows = csv("data.csv")

  field x: float[2]
  field y: float

  split train = rows
  split validation = rows
}}

model net = Linear(2, 1)

objective {{
  loss = mse_loss(squeeze(net(d.x), 1), d.y)
  metric off = mean(abs(squeeze(net(d.x), 1) - d.y))
}}

train {{
  output_dir = "out"
  max_steps = {steps}
  per_device_train_batch_size = 4
  optim = sgd
  learning_rate = {rate}
  lr_scheduler_type = {name}
  {kwargs}
  logging_steps = 1
  eval_strategy = steps
  eval_steps = 1
  save_strategy = no
}}
"""


def text(value):
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)


def write(folder, name, kwargs, steps=40, rate=RATE, extra=""):
    line = "lr_scheduler_kwargs = { " + ", ".join(f"{k} = {text(v)}" for k, v in kwargs.items()) + " }" if kwargs else ""
    (folder / "job.ddp").write_text(JOB.format(name=name, kwargs=line + extra, steps=steps, rate=rate))
    rows = [f"{(7 * i) % 5 / 3:.4f},{(3 * i) % 4 / 2:.4f},{(5 * i) % 7 / 4:.4f}" for i in range(16)]
    (folder / "data.csv").write_text("\n".join(rows) + "\n")


def call(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def emitted(folder):
    """factors[variant][length]: what the emitted functions give, compiled with the flags of a job."""
    code = ['#include "ddp/job.h"', '#include "kernels/cpu/math.h"', "#include <stdio.h>"]
    for i, (name, kwargs) in enumerate(VARIANTS):
        write(folder, name, kwargs)
        call(DDPC, "job.ddp", "--emit=c", "-o", "train.c", cwd=folder)
        train = (folder / "train.c").read_text()
        helpers = re.findall(r"^static inline double \w+\(.*?^}$", train, re.M | re.S)
        body = re.search(r"^static double schedule\(.*?^}$", train, re.M | re.S).group()
        code += [helper for helper in helpers if helper not in code]
        code.append(body.replace("schedule(", f"schedule_{i}(", 1))
    code.append("int main(void) {")
    for i in range(len(VARIANTS)):
        for warmup, total in LENGTHS:
            code.append(f"  for (int k = 0; k < {total}; k++) "
                        f'printf("%.17g\\n", schedule_{i}(k, {warmup}, {total}, {RATE!r}));')
    (folder / "all.c").write_text("\n".join(code + ["  return 0;", "}", ""]))
    include = next(p for p in (BUILD / "include/ddpc", ROOT / "runtime/include") if p.exists())
    call("cc", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-march=native", f"-I{include}",
         f"-I{ROOT}/runtime", f"-I{ROOT}/runtime/include", f"-I{ROOT}/tables", "all.c", "-lm", "-o", "all", cwd=folder)
    numbers = iter(map(float, call("./all", cwd=folder).split()))
    return [[[next(numbers) for _ in range(total)] for _, total in LENGTHS] for _ in VARIANTS]


def theirs(name, kwargs, warmup, total):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    scheduler = get_scheduler(name, optimizer, warmup, total, kwargs)
    rates = []
    for _ in range(total):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return rates


def functions(folder):
    wrong, n = 0, 0
    for (name, kwargs), ours in zip(VARIANTS, emitted(folder)):
        for (warmup, total), factors in zip(LENGTHS, ours):
            try:
                want = theirs(name, kwargs, warmup, total)
            except ZeroDivisionError:
                if any(f != f for f in factors):
                    sys.exit(f"{name} {kwargs} {warmup} of {total}: {factors}")
                continue  # polynomial, warm-up to the end: theirs fails, ours has a rate
            rates = [RATE * f for f in factors]
            n += total
            if rates != want:
                wrong += 1
                k = [a == b for a, b in zip(rates, want)].index(False)
                print(f"{name} {kwargs}, warm-up {warmup} of {total}, update {k}: {rates[k]!r} is not {want[k]!r}")
    if wrong:
        sys.exit(f"{wrong} schedules differ")
    return n


def measured(folder):
    for name, kwargs in MEASURED:
        on = "off" if kwargs.get("mode") == "max" else "loss"
        extra = "\n  metric_for_best_model = off" if on == "off" else ""
        write(folder, name, kwargs, 40, 0.1, extra)
        call(DDPC, "job.ddp", "-o", "train", cwd=folder)
        call("./train", "--nproc-per-node", "2", "--threads", "1", cwd=folder)
        log = [json.loads(line) for line in (folder / "out/log.jsonl").read_text().splitlines()]
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        kind = GreedyLR if name == "greedy" else torch.optim.lr_scheduler.ReduceLROnPlateau
        scheduler = kind(optimizer, **kwargs)
        seen = set()
        for line in log:
            if "learning_rate" in line:
                rate = optimizer.param_groups[0]["lr"]
                seen.add(rate)
                if line["learning_rate"] != rate:
                    sys.exit(f"{name} {kwargs}: {line} where {rate!r} was to be")
            elif "eval_loss" in line:
                scheduler.step(line[f"eval_{on}"])
        if len(seen) < 3:
            sys.exit(f"{name} {kwargs}: the rate took {sorted(seen)} only")


def main():
    missing = {t.value for t in SchedulerType} - {v[0] for v in VARIANTS} - {m[0] for m in MEASURED}
    if missing:
        sys.exit(f"no variant of {missing}")
    with tempfile.TemporaryDirectory() as folder:
        n = functions(pathlib.Path(folder))
        measured(pathlib.Path(folder))
    print(f"{n} rates of {len(VARIANTS)} schedules are transformers' bits; {len(MEASURED)} runs follow measured values")


main()
