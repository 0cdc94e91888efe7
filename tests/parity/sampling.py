#!/usr/bin/env python3
"""The order of samples against accelerate's own BatchSamplerShard and SeedableRandomSampler and torch's
DistributedSampler, live, over many numbers of samples, ranks and batches: every index."""
import itertools
import os
import random
import subprocess
import sys

import torch
from accelerate.data_loader import BatchSamplerShard, SeedableRandomSampler
from torch.utils.data import BatchSampler, DistributedSampler, SequentialSampler

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import BUILD, Failure, expect  # noqa: E402

CASES = 6000


def of_accelerate(n, world, batch, drop, shuffle, seed, epoch):
    order = SequentialSampler(range(n))
    if shuffle:
        order = SeedableRandomSampler(range(n), generator=torch.Generator(), data_seed=seed)
        order.set_epoch(epoch)
    batches = BatchSampler(order, batch, drop)
    if world == 1:  # accelerate leaves a single process its own sampler
        return [i for b in batches for i in b]
    # The list of batches once for all ranks: they see the same one.
    batches = [list(b) for b in batches]
    out = []
    for rank in range(world):
        fixed = BatchSampler([], batch, drop)
        fixed.__class__ = type("Fixed", (BatchSampler,), {"__iter__": lambda s: iter([list(b) for b in batches]),
                                                          "__len__": lambda s: len(batches)})
        shard = [list(b) for b in BatchSamplerShard(fixed, num_processes=world, process_index=rank)]
        expect(all(len(b) == batch for b in shard), "accelerate made a short batch")
        out += [i for b in shard for i in b]
    return out


def of_torch(n, world, drop, shuffle, seed, epoch):
    out = []
    for rank in range(world):
        s = DistributedSampler(range(n), world, rank, shuffle=shuffle, seed=seed, drop_last=drop)
        s.set_epoch(epoch)
        out += list(s)
    return out


def cases():
    small = itertools.product(range(1, 18), range(1, 6), range(1, 5), (False, True), (False, True))
    for n, world, batch, drop, batches in small:
        yield n, world, batch, drop, batches, (n + batch) % 3 > 0, 5, n % 2
    draw = random.Random(1)
    while True:
        batch, world = draw.randint(1, 20), draw.randint(1, 9)
        n = draw.choice([draw.randint(1, 400), batch * world * draw.randint(1, 4) + draw.randint(-1, 1)])
        yield (max(1, n), world, batch, draw.random() < 0.5, draw.random() < 0.7, draw.random() < 0.8,
               draw.randint(0, 2**31), draw.randint(0, 9))


def check():
    chosen = [c for c in itertools.islice(cases(), CASES)
              if not (c[3] and not c[4] and c[0] < c[1])]  # torch has no meaning for fewer samples than ranks there
    text = "\n".join(" ".join(str(int(v)) for v in c) for c in chosen)
    out = subprocess.run([os.path.join(BUILD, "sampler_print")], input=text, text=True,
                         capture_output=True, timeout=120, check=True).stdout
    lines = out.split("\n")[:-1]
    expect(len(lines) == len(chosen), f"{len(lines)} lines for {len(chosen)} cases")
    for (n, world, batch, drop, batches, shuffle, seed, epoch), line in zip(chosen, lines):
        if batches:
            want = of_accelerate(n, world, batch, drop, shuffle, seed, epoch)
        else:
            want = of_torch(n, world, drop, shuffle, seed, epoch)
        got = [int(v) for v in line.split()]
        expect(got == want, f"{n} samples, {world} ranks of {batch}, drop_last {drop}, accelerate {batches}, shuffle "
                            f"{shuffle}, seed {seed}, epoch {epoch}:\n{got}\n{want}")
    print(f"{sum(c[4] for c in chosen)} cases of accelerate, {sum(not c[4] for c in chosen)} of DistributedSampler: "
          "every index equal")


if __name__ == "__main__":
    try:
        check()
    except Failure as e:
        sys.exit(f"FAIL {e}")
