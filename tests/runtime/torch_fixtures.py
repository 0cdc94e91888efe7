#!/usr/bin/env python3
"""Writes torch_fixtures.h: what torch 2.15 draws, and how it and accelerate 1.15 order samples, as checksums of bytes.

    python tests/runtime/torch_fixtures.py > tests/runtime/torch_fixtures.h
"""
import zlib

import numpy as np
import torch
from accelerate.data_loader import BatchSamplerShard, SeedableRandomSampler
from torch.utils.data import BatchSampler, DistributedSampler, SequentialSampler

torch.set_num_threads(1)
SEEDS = (0, 42, 2**32 + 5, -1)


def crc(tensors):
    value = 0
    for t in tensors:
        value = zlib.crc32(np.ascontiguousarray(t).tobytes(), value)
    return value


def rng():
    """One sequence per seed: every kind of draw, each of which moves the stream."""
    print("/* Written by torch_fixtures.py with torch " + torch.__version__.split("+")[0] + ". */\n/* clang-format off */")
    print("static const struct { int64_t seed; uint32_t uniform, normal, small, cached, randperm, randint; } "
          "rng_fixtures[] = {")
    for seed in SEEDS:
        torch.manual_seed(seed)
        uniform = crc([torch.empty(n).uniform_(-0.0360844, 0.0360844) for n in (1, 3, 1000, 100003)])
        normal = crc([torch.empty(n).normal_(m, s) for n in (16, 17, 31, 32, 33, 1000, 1 << 18)
                      for m, s in ((0.0, 1.0), (0.5, 0.02))])
        small = crc([torch.empty(n).normal_(0.25, 2.0) for n in range(1, 16)])
        cached = [torch.empty(1).normal_(), torch.empty(3).uniform_(), torch.empty(16).normal_(),
                  torch.empty(1).normal_()]
        perm = crc([torch.randperm(n) for n in (0, 1, 2, 10, 1000, 100003)])
        ints = crc([torch.randint(lo, hi, (100,)) for lo, hi in ((0, 10), (-5, 2**28 - 6), (-5, 2**28 - 5), (0, 2**40))])
        print(f"    {{{seed}, {uniform:#x}u, {normal:#x}u, {small:#x}u, {crc(cached):#x}u, {perm:#x}u, {ints:#x}u}},")
    print("};")


def dealt(n, world, rank, shuffle, drop, epoch):
    s = DistributedSampler(range(n), world, rank, shuffle=bool(shuffle), seed=5, drop_last=bool(drop))
    s.set_epoch(epoch)
    return list(s)


def shards(n, batch, world, rank, shuffle, drop, epoch):
    """As Accelerate prepares the Trainer's loader."""
    order = SequentialSampler(range(n))
    if shuffle:
        order = SeedableRandomSampler(range(n), generator=torch.Generator(), data_seed=5)
        order.set_epoch(epoch)
    batches = BatchSampler(order, batch, bool(drop))
    if world > 1:
        batches = BatchSamplerShard(batches, num_processes=world, process_index=rank)
    return [i for b in batches for i in b]


def sampler():
    """All ranks of a case in one checksum; the number of indices of rank 0 beside it. Batch 0: DistributedSampler."""
    print("static const struct { int16_t samples; int8_t batch, world, shuffle, drop_last, epoch; int16_t count; "
          "uint32_t crc; } sampler_fixtures[] = {")
    cases = 0

    def row(n, batch, world, shuffle, drop, epoch):
        how = (world, shuffle, drop, epoch)
        orders = [torch.tensor(shards(n, batch, world, rank, *how[1:]) if batch else dealt(n, world, rank, *how[1:]),
                               dtype=torch.int64) for rank in range(world)]
        if len({len(o) for o in orders}) != 1:
            raise RuntimeError(f"uneven: {n} {batch} {how}")
        print(f"    {{{n}, {batch}, {world}, {shuffle}, {drop}, {epoch}, {len(orders[0])}, {crc(orders):#x}u}},")
        return world

    for n in list(range(1, 14)) + [97, 100, 101]:
        for world in (1, 2, 3, 4, 7):
            for shuffle in (1, 0):
                for drop in (0, 1):
                    for epoch in (0, 3):
                        if drop and n < world:
                            continue
                        cases += row(n, 0, world, shuffle, drop, epoch)
    for n in list(range(1, 14)) + [97]:
        for batch in (1, 3, 8):
            for world in (1, 2, 3, 4):
                for drop in (0, 1):
                    shuffle, epoch = int(n % 2 == 1), 3 * (n % 3 == 0)
                    cases += row(n, batch, world, shuffle, drop, epoch)
    print("};")
    print(f"enum {{ SAMPLER_CASES = {cases} }};")


def norm():
    """Norm and clipping coefficient of gradients of several sizes."""
    print("static const struct { int32_t n; float norm, max_norm, coefficient; } norm_fixtures[] = {")
    torch.manual_seed(1)
    for n in list(range(1, 34)) + [1000, 1023, 4097, 100003]:
        x = torch.empty(n).uniform_(-1, 1)
        p = torch.nn.Parameter(torch.zeros(n))
        p.grad = x.clone()
        most = float(torch.empty(1).uniform_(0, 1))
        total = torch.nn.utils.clip_grad_norm_([p], most)
        # The coefficient is read off a gradient of one.
        q = torch.nn.Parameter(torch.zeros(n))
        q.grad = torch.ones(n)
        torch.nn.utils.clip_grads_with_norm_([q], most, total)
        print(f"    {{{n}, {float(total).hex()}f, {most.hex()}f, {float(q.grad[0]).hex()}f}},")
    print("};")


rng()
sampler()
norm()
