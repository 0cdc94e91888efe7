#!/usr/bin/env python3
"""The example jobs and the models of model_twins.py in PyTorch DistributedDataParallel (gloo), items counted
globally.

What comes out is what ddpc's binaries are compared with: the loss of every update, and the initial
weights. Run with the pinned release in requirements.txt:

    python tests/parity/torch_ddp.py --write-fixtures     makes the examples' tests/parity/fixtures/*.json
    python tests/parity/torch_ddp.py JOB --accumulate 4 --world 2 --steps 200 --out FILE [--weights FILE]
"""
import argparse
import csv
import gzip
import hashlib
import json
import math
import os
import re
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DistributedSampler

from model_twins import MODELS

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SEED = 42


def rows(path, skip=0):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(os.path.join(ROOT, "examples", path), "rt") as f:
        lines = list(csv.reader(f))[skip:]
    return torch.tensor([[float(v) for v in line] for line in lines])


def shuffled(table, seed):
    g = torch.Generator()
    g.manual_seed(seed)
    return table[torch.randperm(len(table), generator=g)]


def cross_entropy(out, y):
    return F.cross_entropy(out, y, reduction="sum")


def samples(x, y, loss, **how):
    """A job whose loss counts samples."""
    return dict(how, count=len(y), items=lambda rows: float(len(rows)),
                loss=lambda model, rows: loss(model(x[rows]), y[rows]))


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Nuclei(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.norm1 = nn.Linear(30, 32), nn.LayerNorm(32)
        self.fc2, self.head = nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.head(F.gelu(self.fc2(F.gelu(self.norm1(self.fc1(x))))))[:, 0]


class Mnist(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [784, 512, 512, 10]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


def digits():
    t = shuffled(rows("digits/digits.csv.gz"), 7)
    t = t[: len(t) * 80 // 100]
    return samples(t[:, :64] / 16, t[:, 64].long(), cross_entropy, net=Digits, batch=16, clip=1.0,
                   optimizer=lambda g, lr: torch.optim.SGD(g, lr, momentum=0.9), lr=0.1, decay=0.0,
                   schedule="linear", warmup=20)


def breast_cancer():
    t = shuffled(rows("breast_cancer/breast_cancer.csv", skip=1), 1)
    t = t[: len(t) * 80 // 100]

    def loss(out, y):
        return F.binary_cross_entropy_with_logits(out, y, reduction="sum")

    return samples(torch.log1p(t[:, :30]), t[:, 30], loss, net=Nuclei, batch=8, clip=1.0,
                   optimizer=lambda g, lr: torch.optim.AdamW(g, lr, fused=True), lr=3e-3, decay=0.01,
                   schedule="cosine", warmup=0.1)


def mnist():
    t = shuffled(rows("mnist/mnist_5k.csv.gz"), 3)[:4500]
    return samples((t[:, :784] / 255 - 0.1307) / 0.3081, t[:, 784].long(), cross_entropy, net=Mnist, batch=64,
                   clip=0.0, optimizer=lambda g, lr: torch.optim.SGD(g, lr, momentum=0.9), lr=0.01, decay=0.0,
                   schedule="constant", warmup=10)


JOBS = dict(digits=digits, breast_cancer=breast_cancer, mnist=mnist)


def job_named(name, data):
    """`data`: the folder with the files of model_data.py, for the models."""
    return MODELS[name](data) if name in MODELS else JOBS[name]()


# The Trainer's schedules: factor on the base rate after s updates, w of warm-up, n in all.
def linear(s, w, n):
    return s / max(1, w) if s < w else max(0.0, (n - s) / max(1, n - w))


def cosine(s, w, n):
    return s / max(1, w) if s < w else max(0.0, 0.5 * (1 + math.cos(math.pi * (s - w) / max(1, n - w))))


def constant(s, w, n):
    return s / max(1, w) if s < w else 1.0


SCHEDULES = dict(linear=linear, cosine=cosine, constant=constant)
NO_DECAY = re.compile(r"bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)")


def groups(net, decay):
    """The Trainer's rule: biases and norms do not decay."""
    norm = {id(p) for m in net.modules() if isinstance(m, nn.LayerNorm) for p in m.parameters()}
    skip = [p for n, p in net.named_parameters() if id(p) in norm or NO_DECAY.search(n.lower())]
    ids = {id(p) for p in skip}
    keep = [p for p in net.parameters() if id(p) not in ids]
    return [dict(params=keep, weight_decay=decay), dict(params=skip, weight_decay=0.0)]


def windows(job, sampler, accumulate):
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        idx = list(sampler)
        micro = [idx[i:i + job["batch"]] for i in range(0, len(idx), job["batch"])]
        for i in range(0, len(micro), accumulate):
            yield micro[i:i + accumulate]
        epoch += 1


def start(net, folder):
    """Starts from a model.safetensors as ddpc writes it: everything in it has a place, and nothing is missing."""
    from safetensors.torch import load_file
    if hasattr(net, "save_pretrained"):
        with tempfile.TemporaryDirectory() as own:  # the ranks of a run would write their settings over each other's
            os.symlink(os.path.abspath(os.path.join(folder, "model.safetensors")), os.path.join(own, "model.safetensors"))
            net.config.save_pretrained(own)
            net, info = type(net).from_pretrained(own, output_loading_info=True)
        left = {k: v for k, v in info.items() if v}
        if left:
            raise RuntimeError(f"from_pretrained is left with {left}")
        return net.train()
    net.load_state_dict(load_file(os.path.join(folder, "model.safetensors")), strict=True)
    return net


def save(net, folder):
    """model.safetensors as the model's own library writes it."""
    from safetensors.torch import save_file
    if hasattr(net, "save_pretrained"):
        return net.save_pretrained(folder)
    os.makedirs(folder, exist_ok=True)
    save_file(net.state_dict(), os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def own_net(job):
    torch.manual_seed(SEED)
    return job["net"]()


def train(rank, world, name, accumulate, steps, how, store, out):
    torch.set_num_threads(how["threads"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    job = job_named(name, how["data"])
    net = own_net(job)
    if how["start"]:
        net = start(net, how["start"])
    initial = {k: v.clone() for k, v in net.state_dict().items()}
    model = DDP(net)
    optimizer = job["optimizer"](groups(net, job["decay"]), job["lr"])
    schedule_of = SCHEDULES[job["schedule"]]
    warmup = job["warmup"] if job["warmup"] >= 1 else math.ceil(steps * job["warmup"])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: schedule_of(s, warmup, steps))
    sampler = DistributedSampler(range(job["count"]), world, rank, shuffle=True, seed=SEED)
    losses, norms = [], []
    for window, _ in zip(windows(job, sampler, accumulate), range(steps)):
        items = torch.tensor(float(sum(job["items"](m) for m in window)))
        dist.all_reduce(items)
        part = torch.zeros(())
        for k, micro in enumerate(window):
            with model.no_sync() if k + 1 < len(window) else torch.enable_grad():
                loss = job["loss"](model, micro) / items
                (loss * world).backward()
            part += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), job["clip"] or math.inf)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        dist.all_reduce(part)
        losses.append(part.item())
        norms.append(norm.item())
        if len(losses) <= 10:
            buffers = {k: v.clone() for k, v in net.named_buffers()}
    if rank == 0:
        torch.save(dict(losses=losses, norms=norms, initial=initial, buffers=buffers, final=net.state_dict()), out)
    sys.stdout.flush()
    dist.barrier()
    os._exit(0)  # everything is written; taking the group apart can abort on a busy machine


def run(name, accumulate, world, steps, data=None, start=None, threads=1):
    """`start`: a folder with the model.safetensors that training starts from; without, from the model's own
    initial values."""
    how = dict(data=data, start=start, threads=threads)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.pt")
        mp.spawn(train, (world, name, accumulate, steps, how, os.path.join(folder, "store"), out), world)
        return torch.load(out)


def digest(state):
    return {k: hashlib.sha256(v.contiguous().numpy().tobytes()).hexdigest() for k, v in state.items()}


def write(path, name, accumulate, world, steps, result):
    with open(path, "w") as f:
        json.dump(dict(job=name, torch=torch.__version__.split("+")[0], world=world, accumulate=accumulate,
                       steps=steps, losses=result["losses"], grad_norms=result["norms"],
                       initial_sha256=digest(result["initial"])), f, indent=1)
        f.write("\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("job", nargs="?", choices=sorted(JOBS))
    ap.add_argument("--accumulate", type=int, default=1)
    ap.add_argument("--world", type=int, default=2)
    ap.add_argument("--steps", type=int, default=200)
    ap.add_argument("--out")
    ap.add_argument("--weights", help="also write the initial weights here (safetensors)")
    ap.add_argument("--write-fixtures", action="store_true")
    a = ap.parse_args()
    if a.write_fixtures:
        for name in sorted(JOBS):
            for accumulate in (1, 4):
                path = os.path.join(HERE, "fixtures", f"{name}_accumulate{accumulate}.json")
                write(path, name, accumulate, 2, 200, run(name, accumulate, 2, 200))
                print(path)
        return
    if not a.job or not a.out:
        ap.error("JOB and --out, or --write-fixtures")
    result = run(a.job, a.accumulate, a.world, a.steps)
    write(a.out, a.job, a.accumulate, a.world, a.steps, result)
    if a.weights:
        from safetensors.torch import save_file
        save_file(result["initial"], a.weights, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
