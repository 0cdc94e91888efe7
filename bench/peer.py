#!/usr/bin/env python3
"""Peer of bench/compare: a benchmark job in PyTorch DistributedDataParallel (gloo), 2 ranks, one thread each.

Prints one line of JSON: median and minimum milliseconds per update with a full batch, and the losses. Batches are cut before
the clock starts, which is in PyTorch's favour."""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DistributedSampler

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jobs import JOBS  # noqa: E402
from torch_ddp import SEED, windows  # noqa: E402


def train(rank, world, name, data, steps, compiled, bf16, store, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    job = JOBS[name][2](data)
    torch.manual_seed(SEED)
    net = job["net"]()
    model = DDP(net)
    if compiled:
        model = torch.compile(model)
    optimizer = job["optimizer"](net.parameters(), job["lr"])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: job["schedule"](s, job["warmup"], steps))
    sampler = DistributedSampler(range(len(job["x"])), world, rank, shuffle=True, seed=SEED)
    batches = [(job["x"][w[0]], job["y"][w[0]]) for w, _ in zip(windows(job, sampler, 1), range(steps))]
    full = max(len(x) for x, _ in batches)
    losses, times = [], []
    dist.barrier()
    for x, y in batches:
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = job["loss"](model, x, y)
        loss.backward()
        if "clip" in job:
            torch.nn.utils.clip_grad_norm_(net.parameters(), job["clip"])
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if len(x) == full:
            times.append(time.perf_counter() - start)
        losses.append(loss.detach())
    all_losses = torch.stack(losses)
    dist.all_reduce(all_losses)
    if rank == 0:
        tail = times[len(times) // 4:]
        with open(out, "w") as f:
            json.dump(dict(median_ms=statistics.median(tail) * 1e3, min_ms=min(tail) * 1e3,
                           losses=(all_losses / world).tolist()), f)
    sys.stdout.flush()
    dist.barrier()
    os._exit(0)  # everything is written; taking the group apart can abort on a busy machine


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("job", choices=sorted(JOBS))
    ap.add_argument("--data", help="folder with the data of the job, for those that have generated data")
    ap.add_argument("--steps", type=int, default=200)
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--bf16", action="store_true", help="torch.autocast")
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "out.json")
        mp.spawn(train, (2, a.job, a.data, a.steps, a.compile, a.bf16, os.path.join(folder, "store"), result), 2)
        print(open(result).read())
