#!/usr/bin/env python3
"""LSTM, GRU and RNN and their cells against torch.nn over random shapes: names and initial weights bit for bit, the loss of
each update to 1e-5, and the weights after three steps of SGD, whose changes are the gradients, to 1e-4 of
the largest change (sums in float32 of another order). Needs PyTorch; recurrent.py [SEED] [COUNT]"""
import random
import sys
import os

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import Failure, Folder, expect, losses, must  # noqa: E402
from losses import tensors  # noqa: E402

JOB = """edition 1

dataset d {{
  let rows = csv("rows.csv", skip = 1)
  field x: float32[{T}, {D}]
{fields}  field y: float32[{T}, {O}]
  split train = rows
}}

model net = {kind}({arguments})

objective {{
  y, {states} = net({steps}{first})
  loss = mse_loss({out}, d.y){penalty}
}}

train {{
  max_steps = 3
  per_device_train_batch_size = {B}
  optim = sgd
  learning_rate = 1.0
  lr_scheduler_type = constant
  max_grad_norm = 0.0
  logging_steps = 1
  save_strategy = no
}}
"""


def draw(rng):
    c = dict(kind=rng.choice(["LSTM", "GRU", "RNN"]), D=rng.randint(1, 7), H=rng.randint(1, 9), layers=rng.randint(1, 3),
             T=rng.choice([3, 9, 10, 17]), B=rng.randint(1, 6), bias=rng.random() < 0.7,
             batch_first=rng.random() < 0.5, both=rng.random() < 0.5, start=rng.random() < 0.5)
    c["relu"] = c["kind"] == "RNN" and rng.random() < 0.5
    c["cell"] = rng.random() < 0.25
    if c["cell"]:
        c.update(layers=1, T=1, both=False, batch_first=True)
    return c


def text(c):
    ways = 2 if c["both"] else 1
    word = {True: "true", False: "false"}
    more = ', nonlinearity = "relu"' if c["relu"] else ""
    if c["cell"]:
        return cell_text(c, more, word[c["bias"]])
    arguments = (f"{c['D']}, {c['H']}, num_layers = {c['layers']}, bias = {word[c['bias']]}, batch_first = "
                 f"{word[c['batch_first']]}, bidirectional = {word[c['both']]}{more}")
    lstm = c["kind"] == "LSTM"
    first = (", transpose(d.h, 0, 1)" + (", transpose(d.c, 0, 1)" if lstm else "")) if c["start"] else ""
    field = "  field {}: float32[" + f"{ways * c['layers']}, {c['H']}]\n"
    fields = (field.format("h") + (field.format("c") if lstm else "")) if c["start"] else ""
    return JOB.format(kind=c["kind"], arguments=arguments, T=c["T"], D=c["D"], B=c["B"], O=ways * c["H"],
                      fields=fields, states="h, c" if lstm else "h", first=first,
                      steps="d.x" if c["batch_first"] else "transpose(d.x, 0, 1)",
                      out="y" if c["batch_first"] else "transpose(y, 0, 1)",
                      penalty=" + mean(h ** 2)" + (" + mean(c ** 2)" if lstm else ""))


def cell_text(c, more, bias):
    """One step; the state is what comes out."""
    lstm = c["kind"] == "LSTM"
    field = "  field {}: float32[" + f"1, {c['H']}]\n"
    return JOB.format(kind=c["kind"] + "Cell", arguments=f"{c['D']}, {c['H']}, bias = {bias}{more}", T=1, D=c["D"],
                      B=c["B"], O=c["H"], fields=(field.format("h") + (field.format("c") if lstm else "")) * c["start"],
                      states="c" if lstm else "h", steps="d.x[:, 0]",
                      first=(", d.h[:, 0]" + ", d.c[:, 0]" * lstm) * c["start"],
                      out="unsqueeze(y, 1)", penalty=" + mean(c ** 2)" if lstm else "").replace(
                          "y, h = net", "y = net")


def theirs(c, seed):
    torch.manual_seed(seed)
    more = {"nonlinearity": "relu"} if c["relu"] else {}
    if c["cell"]:
        return getattr(nn, c["kind"] + "Cell")(c["D"], c["H"], bias=c["bias"], **more)
    return getattr(nn, c["kind"])(c["D"], c["H"], c["layers"], bias=c["bias"], batch_first=c["batch_first"],
                                  bidirectional=c["both"], **more)


def train(net, c, x, h0, c0, target):
    start = None
    if c["start"]:
        h, m = h0.transpose(0, 1).contiguous(), c0.transpose(0, 1).contiguous()
        start = (h, m) if c["kind"] == "LSTM" else h
    optimizer, out = torch.optim.SGD(net.parameters(), 1.0), []
    for _ in range(3):
        optimizer.zero_grad()
        if c["cell"]:
            state = net(x[:, 0], None if start is None else tuple(v[0] for v in start) if len(start) == 2 and
                        c["kind"] == "LSTM" else start[0])
            y, last = (state[0], state[1:]) if c["kind"] == "LSTM" else (state, ())
            loss = nn.functional.mse_loss(y[:, None], target) + sum((v ** 2).mean() for v in last)
            loss.backward()
            optimizer.step()
            out.append(loss.item())
            continue
        y, last = net(x if c["batch_first"] else x.transpose(0, 1), start)
        y = y if c["batch_first"] else y.transpose(0, 1)
        loss = nn.functional.mse_loss(y, target) + sum((v ** 2).mean() for v in
                                                       (last if c["kind"] == "LSTM" else (last,)))
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out


def check(c, seed):
    ways = 2 if c["both"] else 1
    g = np.random.default_rng(seed)
    states = (ways * c["layers"], c["H"])
    sizes = [(c["T"], c["D"]), states, states, (c["T"], ways * c["H"])]
    data = [g.normal(size=(c["B"], *s)).astype(np.float32) for s in sizes]
    with Folder() as f:
        used = [True, c["start"], c["start"] and c["kind"] == "LSTM", True]
        rows = np.concatenate([d.reshape(c["B"], -1) for d, yes in zip(data, used) if yes], 1)
        with open(f.file("rows.csv"), "w") as out:
            out.write(",".join(f"f{i}" for i in range(rows.shape[1])) + "\n")
            out.writelines(",".join(repr(float(v)) for v in r) + "\n" for r in rows)
        with open(f.file("job.ddp"), "w") as out:
            out.write(text(c))
        binary = f.compile(f.file("job.ddp"), "job", [f"train.seed={seed}"])
        must([binary, "--init-only", "--output_dir", f.file("start")])
        before = tensors(f.file("start/model.safetensors"))
        _, log = f.train(binary, "run")
        after = tensors(f.file("run/model.safetensors"))
        got = losses(log)
    net = theirs(c, seed)
    names = {k: v.clone().numpy() for k, v in net.state_dict().items()}
    expect(set(names) == set(before), f"other names: {sorted(names)} and {sorted(before)}")
    for k, v in names.items():
        expect(v.tobytes() == before[k], f"initial {k} has other bits than PyTorch's")
    want = train(net, c, *(torch.from_numpy(d) for d in data))
    worst = max(abs(a - b) / abs(b) for a, b in zip(got, want))
    expect(len(got) == 3 and worst <= 1e-5, f"losses {got}, PyTorch's {want}")
    for k, v in net.state_dict().items():
        mine = np.frombuffer(after[k], np.float32).reshape(v.shape)
        change = np.abs(v.numpy() - names[k]).max()
        off = np.abs(mine - v.numpy()).max()
        expect(off <= 1e-4 * change + 1e-7, f"{k} is off by {off:.3g} after changes of {change:.3g}")
    return worst


def main():
    seed, count = (int(a) for a in (sys.argv[1:] + ["7", "12"][len(sys.argv) - 1:])[:2])
    rng = random.Random(seed)
    worst = 0.0
    for n in range(count):
        c = draw(rng)
        try:
            worst = max(worst, check(c, seed + n))
        except Failure as e:
            raise Failure(f"{c}: {e}")
    print(f"{count} layers: names, initial bits, losses (worst {worst:.1e}), gradients")


if __name__ == "__main__":
    try:
        main()
    except Failure as e:
        sys.exit(f"FAIL {e}")
