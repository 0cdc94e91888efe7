#!/usr/bin/env python3
"""Writes a small look-alike of CIFAR-10's binary files, so that the job runs without a download:

    make_data.py [FOLDER]      default: cifar-10-batches-bin beside this file

Five files data_batch_1.bin ... of 200 images and test_batch.bin of 200, each record one byte with the class, then
3 x 32 x 32 bytes, red, green, blue. The ten classes are shapes in colours by chance, at places by chance, with
noise; the same files every time. Python's standard library only. Existing files are never overwritten."""
import math
import os
import random
import sys

SIZE = 32
IMAGES = 200


def inside(kind, x, y, r):
    """Is a point in the shape of radius r around 0, 0?"""
    d = math.hypot(x, y)
    stripe = lambda t: math.floor(t / (r / 2.5)) % 2 == 0  # noqa: E731
    box = max(abs(x), abs(y)) < r
    return [d < r,                                         # disc
            r * 0.55 < d < r,                              # ring
            box,                                           # square
            box and (abs(x) < r / 3 or abs(y) < r / 3),    # cross
            y < r * 0.8 and y > -r + 1.8 * abs(x),         # triangle
            abs(x) + abs(y) < r,                           # diamond
            box and stripe(y),                             # bars, lying
            box and stripe(x),                             # bars, standing
            box and stripe(x + y),                         # bars, slanting
            box and stripe(x) == stripe(y)][kind]          # board


def image(rng, kind):
    front, back = [rng.randrange(256) for _ in range(3)], [rng.randrange(256) for _ in range(3)]
    while sum(abs(a - b) for a, b in zip(front, back)) < 200:
        back = [rng.randrange(256) for _ in range(3)]
    r = rng.uniform(8, 13)
    cx, cy = rng.uniform(r, SIZE - r), rng.uniform(r, SIZE - r)
    shape = [inside(kind, x - cx, y - cy, r) for y in range(SIZE) for x in range(SIZE)]
    return bytes(min(255, max(0, round((front if s else back)[c] + rng.gauss(0, 20)))) for c in range(3) for s in shape)


def write(path, rng):
    if os.path.exists(path):
        sys.exit(f"{path} exists and is left as it is")
    with open(path, "wb") as f:
        for k in range(IMAGES):
            f.write(bytes([k % 10]) + image(rng, k % 10))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "cifar-10-batches-bin")
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(10)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        write(os.path.join(folder, name), rng)
    print(f"{folder}: {5 * IMAGES} images to train on, {IMAGES} to test")


main()
