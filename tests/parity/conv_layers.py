#!/usr/bin/env python3
"""conv_layers.ddp against the same net in PyTorch: initial draws, losses of 10 updates (relative 1e-5), buffers.

All samples are in each batch, so that their order does not matter. $DDP_BUILD holds ddpc."""
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
DDPC = os.path.join(os.environ["DDP_BUILD"], "ddpc")
ROWS = 12


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(4, 6, 3, padding=1, groups=2)
        self.at = nn.ConvTranspose1d(6, 4, 3, 2, 1, 1)
        self.n1 = nn.BatchNorm1d(4, track_running_stats=False)
        self.p = nn.Conv3d(2, 4, 3, padding=1)
        self.pt = nn.ConvTranspose3d(4, 2, 2, 2)
        self.n3 = nn.BatchNorm3d(4, momentum=0.2)
        self.i = nn.InstanceNorm3d(2, affine=True, track_running_stats=True)
        self.i1 = nn.InstanceNorm1d(4)
        self.m3 = nn.MaxPool3d(2)
        self.a3 = nn.AvgPool3d(3, 2, 1, count_include_pad=False, ceil_mode=True)
        self.ad = nn.AdaptiveAvgPool3d([2, 3, 2])
        self.am = nn.AdaptiveMaxPool1d(3)
        self.ma = nn.MaxPool1d(3, 2, 1, ceil_mode=True)
        self.av = nn.AvgPool1d(3, 2, 1)
        self.up = nn.Upsample(scale_factor=2)
        self.c = nn.Conv2d(4, 8, 3, padding=1)
        self.m = nn.MaxPool2d(3, 2, 1, dilation=1, ceil_mode=True)
        self.aa = nn.AdaptiveAvgPool2d([3, 3])
        self.mm = nn.AdaptiveMaxPool2d(2)
        self.gn = nn.GroupNorm(2, 8)
        self.fc = nn.Linear(8 * 4, 10)

    def forward(self, x):
        s = self.at(self.a(x.view(-1, 4, 16)))
        s = self.am(self.av(self.up(self.ma(self.i1(self.n1(s))))))
        v = self.m3(self.n3(self.p(x.view(-1, 2, 4, 4, 2))))
        v = self.ad(self.a3(self.up(self.i(self.pt(v)))))
        y = self.mm(self.aa(self.m(self.gn(self.c(x.view(-1, 4, 4, 4))))))
        return self.fc(y.flatten(1)) + s.mean() + v.mean()


def close(what, got, want, tolerance=1e-5):
    got, want = torch.as_tensor(got).double(), torch.as_tensor(want).double()
    if got.shape != want.shape or not ((got - want).abs() <= tolerance * (1e-3 + want.abs())).all():
        sys.exit(f"{what}:\n{got}\nis not PyTorch's\n{want}")


def main():
    r = random.Random(3)
    rows = [[round(r.gauss(0, 1), 4) for _ in range(64)] + [r.randrange(10)] for _ in range(ROWS)]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "rows.csv"), "w") as f:
            f.writelines(",".join(map(str, row)) + "\n" for row in rows)
        with open(os.path.join(HERE, "conv_layers.ddp")) as f, open(os.path.join(folder, "job.ddp"), "w") as g:
            g.write(f.read())
        binary, out = os.path.join(folder, "train"), os.path.join(folder, "out")
        subprocess.run([DDPC, os.path.join(folder, "job.ddp"), "-o", binary], check=True)
        subprocess.run([binary, "--nproc-per-node", "1", "--output_dir", out], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "log.jsonl")) as f:
            losses = [row["loss"] for row in map(json.loads, f) if "loss" in row]
        weights = load_file(os.path.join(out, "model.safetensors"))
    torch.manual_seed(42)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.02)
    x = torch.tensor([row[:64] for row in rows])
    y = torch.tensor([row[64] for row in rows])
    want = []
    for _ in range(10):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        want.append(loss.item())
    close("losses", losses, want)
    state = net.state_dict()
    if sorted(state) != sorted(weights):
        sys.exit(f"names: {sorted(set(state) ^ set(weights))}")
    for name, value in state.items():
        close(name, weights[name].reshape(value.shape), value, 1e-4)
    print(f"{len(losses)} losses and {len(state)} tensors agree with PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
