#!/usr/bin/env python3
"""The job of a speed comparison in PyTorch on one GPU, as well as PyTorch does it: fused optimizer, the best attention, on
request torch.compile; float32 without TF32, as ddpc's. Says "ready" once it is warm; then a round of --steps updates for
each line of its input: {"ms": milliseconds of an update, "MiB": what the allocator held at most}."""
import argparse
import contextlib
import json
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sources", "bench"))
from jobs import gpt_net, resnet18_net  # noqa: E402

CONTEXT, VOCABULARY = 1024, 50257


def gpt2(batch, device):
    net = gpt_net(VOCABULARY, CONTEXT, 12, 768, 12)().to(device)
    tokens = torch.randint(0, VOCABULARY, (8, batch, CONTEXT + 1), device=device)
    groups = [dict(params=[p for p in net.parameters() if p.dim() > 1], weight_decay=0.1),
              dict(params=[p for p in net.parameters() if p.dim() < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, 6e-4, betas=(0.9, 0.95), fused=True)

    def loss(net, k):
        t = tokens[k % 8]
        return F.cross_entropy(net(t[:, :-1]).view(-1, VOCABULARY), t[:, 1:].reshape(-1))
    return net, optimizer, loss, 1.0


def images(net, shape, lr, batch, device):
    net = net.to(device)
    x, y = torch.rand(8, batch, *shape, device=device), torch.randint(0, 10, (8, batch), device=device)
    optimizer = torch.optim.SGD(net.parameters(), lr, momentum=0.9, fused=True)
    return net, optimizer, lambda net, k: F.cross_entropy(net(x[k % 8]), y[k % 8]), None


def mlp(batch, device):
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return images(net, (784,), 0.01, batch, device)


def resnet18(batch, device):
    return images(resnet18_net(), (3, 32, 32), 1e-4, batch, device)


JOBS = dict(gpt2=gpt2, mlp=mlp, resnet18=resnet18)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("job", choices=sorted(JOBS))
    ap.add_argument("--batch", type=int, required=True)
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--bf16", action="store_true")
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--device", default="cuda")
    a = ap.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    cuda = a.device == "cuda"
    wait = torch.cuda.synchronize if cuda else lambda: None
    plain, optimizer, loss, clip = JOBS[a.job](a.batch, a.device)
    net = torch.compile(plain) if a.compile else plain

    def update(k):
        with torch.autocast(a.device, torch.bfloat16) if a.bf16 else contextlib.nullcontext():
            value = loss(net, k)
        value.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(plain.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def steps(n):
        start = time.perf_counter()
        for k in range(n):
            update(k)
        wait()
        return (time.perf_counter() - start) / n * 1e3

    steps(min(a.steps, 10))
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        ms = steps(a.steps)
        print(json.dumps({"ms": ms, "MiB": torch.cuda.max_memory_reserved() >> 20 if cuda else 0}), flush=True)


if __name__ == "__main__":
    main()
