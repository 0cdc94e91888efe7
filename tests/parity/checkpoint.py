#!/usr/bin/env python3
"""A checkpoint holds all that PyTorch needs to go on: its files become a model's and an optimizer's state_dict, and
20 more updates in PyTorch come to what 20 more updates of the program come to, from the middle of an epoch.

Needs torch and safetensors. Weights and states may differ by TOLERANCE of the largest number of their tensor, which is
what losses may differ by over so many updates (docs/training.md)."""
import itertools
import math
import os
import sys

import torch
from safetensors.torch import load_file
from torch.utils.data import DistributedSampler

import torch_ddp

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import Folder, expect, main, must  # noqa: E402

TOLERANCE = 1e-5
RANKS, FROM, TO = 2, 30, 50


def states(folder, names):
    """{parameter: {state: tensor}} of optimizer.safetensors."""
    out = {name: {} for name in names}
    for key, value in load_file(os.path.join(folder, "optimizer.safetensors")).items():
        state, name = key.split(".", 1)
        out[name][state] = value
    return out


def optimizer_of(job, net, folder, update):
    """The job's optimizer with the checkpoint's state, through load_state_dict."""
    optimizer = job["optimizer"](torch_ddp.groups(net, job["decay"]), job["lr"])
    names = {id(p): n for n, p in net.named_parameters()}
    kept = states(folder, names.values())
    flat = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
    state = {i: dict(kept[name]) for i, name in enumerate(flat)}
    if "exp_avg" in kept[flat[0]]:
        for entry in state.values():
            entry["step"] = torch.tensor(float(update))
    optimizer.load_state_dict(dict(optimizer.state_dict(), state=state))
    return optimizer, names


def go_on(job, folder):
    """From update FROM to update TO, in one process with the batches of all ranks."""
    net = torch_ddp.start(job["net"](), folder)
    optimizer, names = optimizer_of(job, net, folder, FROM)
    warmup = job["warmup"] if job["warmup"] >= 1 else math.ceil(TO * job["warmup"])
    samplers = [DistributedSampler(range(job["count"]), RANKS, r, shuffle=True, seed=torch_ddp.SEED) for r in range(RANKS)]
    windows = zip(*(torch_ddp.windows(job, s, 1) for s in samplers))
    for step, window in zip(range(FROM, TO), itertools.islice(windows, FROM, None)):
        rows = [row for micro_batches in window for row in micro_batches[0]]
        for group in optimizer.param_groups:
            group["lr"] = job["lr"] * torch_ddp.SCHEDULES[job["schedule"]](step, warmup, TO)
        optimizer.zero_grad()
        (job["loss"](net, rows) / job["items"](rows)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), job["clip"] or math.inf)
        optimizer.step()
    return net.state_dict(), {names[id(p)]: s for p, s in optimizer.state.items()}


def near(name, ours, theirs):
    worst = (ours - theirs).abs().max() / theirs.abs().max()
    expect(worst <= TOLERANCE, f"{name}: {worst:.2g} of the largest number")
    return float(worst)


def same(name):
    def test():
        with Folder() as f:
            binary, out = f.compile(f"examples/{name}/job.ddp", "train"), f.file("out")
            must([binary, "--output_dir", out, "--nproc-per-node", str(RANKS), "--max_steps", str(TO),
                  "--save_strategy", "steps", "--save_steps", str(FROM)])
            begin, end = (os.path.join(out, f"checkpoint-{n}") for n in (FROM, TO))
            weights, state = go_on(torch_ddp.JOBS[name](), begin)
            ours = load_file(os.path.join(end, "model.safetensors"))
            expect(ours.keys() == weights.keys(), f"{ours.keys()}")
            worst = max(near(n, ours[n], weights[n]) for n in weights)
            for parameter, entries in states(end, state).items():
                expect(set(entries) == set(state[parameter]) - {"step"}, f"{parameter}: {set(entries)}")
                worst = max([worst] + [near(f"{s}.{parameter}", v, state[parameter][s]) for s, v in entries.items()])
            print(f"{name}: {worst:.2g}")
    return test


main({name: same(name) for name in ("digits", "breast_cancer", "mnist")})
