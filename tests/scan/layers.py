#!/usr/bin/env python3
"""Loops in whole jobs: a three-layer LSTM in both directions with dropout between its layers, and a loop of its
own in bf16 with a convolution in its turns. The same bits with gradient checkpointing and without, with one
thread and two; the C of a long sequence is as long as that of a short one; `ddpc plan` shows the turns."""
import os
import random
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import DDPC, Failure, Folder, expect, losses, must  # noqa: E402

REST = """
dataset d {{
  let rows = csv("rows.csv", skip = 1)
  field x: float32[{steps}, 20]
  field y: int32 in 0..3
  split train = rows
}}

model net = Net()

objective {{
  loss = cross_entropy(net(d.x), d.y)
}}

train {{
  max_steps = 8
  per_device_train_batch_size = 4
  logging_steps = 1
  learning_rate = 1e-2
  save_strategy = no
}}
"""
JOBS = {
    "layers": """edition 1

module Net() {{
  rnn = LSTM(20, 16, 3, batch_first = true, bidirectional = true, dropout = 0.3)
  head = Linear(32, 3)

  forward(x: [_, {steps}, 20]) {{
    y, _, _ = rnn(x)
    return sum(head(y), 1)
  }}
}}
""",
    "own": """edition 1

module Net() {{
  w: param [20, 5] = uniform(-1.0, 1.0)
  conv = Conv1d(5, 5, 3, padding = 1)
  norm = LayerNorm(5)
  head = Linear(5, 3)

  forward(x: [_, {steps}, 20]) {{
    h = cast(zeros_like(x[:, 0, :5]), bf16)
    y = for r in cast(transpose(x, 0, 1), bf16) {{
      k = cast(r, float) @ w
      h = cast(tanh(norm(k + cast(h, float))), bf16) * 0.5 + h
      yield conv(cast(stack([h, h, h], 2), float))
    }}
    return sum(head(sum(y, -1)), 0)
  }}
}}
""",
}


def write(f, name, steps, rows=32):
    r = random.Random(steps)
    with open(f.file("rows.csv"), "w") as out:
        out.write(",".join(f"f{i}" for i in range(20 * steps + 1)) + "\n")
        for _ in range(rows):
            out.write(",".join(f"{r.gauss(0, 1):.4f}" for _ in range(20 * steps)) + f",{r.randrange(3)}\n")
    job = f.file(f"{name}.ddp")
    with open(job, "w") as out:
        out.write((JOBS[name] + REST).format(steps=steps))
    return job


def same_bits(name):
    with Folder() as f:
        job = write(f, name, 12)
        plain = f.compile(job, "plain")
        again = f.compile(job, "again", ["train.gradient_checkpointing=true"])
        want = losses(f.train(plain, "one", flags=["--threads", "1"])[1])
        expect(len(want) == 8, f"{len(want)} losses")
        for what, binary, threads in (("two threads", plain, "2"), ("checkpointing", again, "1")):
            got = losses(f.train(binary, what.replace(" ", "_"), flags=["--threads", threads])[1])
            expect(got == want, f"{name}, {what}: {got} instead of {want}")


def length_of_c():
    size = {}
    for steps in (12, 200):
        with Folder() as f:
            out = f.file("out.c")
            must([DDPC, write(f, "layers", steps, 4), "--emit=c", "-o", out])
            size[steps] = os.path.getsize(out)
    expect(size[200] < 1.02 * size[12], f"{size[200]} bytes of C for 200 steps, {size[12]} for 12")


def plan_shows_turns():
    with Folder() as f:
        out = must([DDPC, "plan", write(f, "layers", 12)]).out
    rows = [line for line in out.splitlines() if "loop of 12 turns" in line]
    expect(len(rows) == 12, f"{len(rows)} loops in the plan, not 6 layers and directions there and back")
    expect(re.search(r"^ *\d+\.\d+ +\S+ +matmul \[B, 16\], \[64, 16\] transposed", out, re.M), f"no product of a turn:\n{out}")


if __name__ == "__main__":
    try:
        for name in JOBS:
            same_bits(name)
        length_of_c()
        plan_shows_turns()
    except Failure as e:
        sys.exit(f"FAIL {e}")
