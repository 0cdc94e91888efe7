#!/usr/bin/env python3
"""A model of the library in a job of its own compiles, trains ten updates on the digits and learns: the
loss is a number and every trained tensor has changed.

    models.py NAME             NAME.ddp beside this file
    models.py NAME KEY...      with these settings true (bf16 ...): the loss is float32's within NEAR

NEAR is relative: ten updates in 16 bits, most with batch norm, came to 0.002."""
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "parity"))
from ddptest import Failure, Folder, expect, must  # noqa: E402
from losses import tensors  # noqa: E402


NEAR = 0.01


def trained(f, name, keys):
    """The program, what it said, and the losses of its evaluations."""
    program = f.compile(f"tests/models/{name}.ddp", "-".join([name, *keys]), [f"train.{k}=true" for k in keys])
    out = must([program, "--output_dir", f.file("last"), "--eval_strategy", "steps", "--eval_steps", "10"]).out
    return program, out, [float(line.split("eval_loss")[1].split()[0]) for line in out.splitlines() if "eval_loss" in line]


def check(name, keys):
    with Folder() as f:
        exact = trained(f, name, [])[2] if keys else None
        program, out, losses = trained(f, name, keys)
        must([program, "--init-only", "--output_dir", f.file("first")])
        before = tensors(f.file("first/model.safetensors"))
        after = tensors(f.file("last/model.safetensors"))
    expect(losses and all(math.isfinite(x) for x in losses), f"no finite loss:\n{out}")
    expect(not exact or abs(losses[-1] / exact[-1] - 1) < NEAR, f"a loss of {losses}, in float32 {exact}")
    expect(set(before) == set(after), "other tensors after training")
    same = [k for k in before if before[k] == after[k]]
    expect(len(same) < len(before) / 4, f"not trained: {', '.join(same)}")
    print(f"{len(before)} tensors, {len(same)} of them as before; loss {losses[-1]}")


if __name__ == "__main__":
    try:
        check(sys.argv[1], sys.argv[2:])
    except Failure as e:
        sys.exit(f"FAIL {e}")
