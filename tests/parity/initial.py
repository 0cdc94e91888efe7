#!/usr/bin/env python3
"""Initial weights against PyTorch's, bit for bit, for the same seed (initial.ddp).

    initial.py                  against fixtures/initial.json
    initial.py --live           against PyTorch, run now
    initial.py --write          writes the fixture"""
import hashlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import Failure, Folder, expect, must  # noqa: E402

FIXTURE = os.path.join(HERE, "fixtures", "initial.json")


def torch_digests():
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.marker, self.norm = nn.Embedding(17, 9), nn.Embedding(3, 4), nn.LayerNorm(9)
            self.wide = nn.Linear(576, 33)
            self.padded = nn.Embedding(17, 5, padding_idx=2)
            self.square = nn.Parameter(nn.init.eye_(torch.empty(6, 5)))
            self.cut = nn.Parameter(nn.init.trunc_normal_(torch.empty(30, 20), std=1.5, a=-1.0))
            self.coins = nn.Parameter(torch.empty(7, 3).bernoulli_(0.3))
            self.register_buffer("dice", torch.randint(1, 7, (12,)))
            self.head = nn.Linear(33, 10, bias=False)
            nn.init.normal_(self.head.weight, std=0.02)

    torch.manual_seed(1234)
    return {k: hashlib.sha256(v.numpy().tobytes()).hexdigest() for k, v in Net().state_dict().items()}


def check(want):
    from losses import tensors
    with Folder() as f:
        must([f.compile("tests/parity/initial.ddp", "initial"), "--init-only", "--output_dir", f.file("out")])
        got = {k: hashlib.sha256(v).hexdigest() for k, v in tensors(f.file("out/model.safetensors")).items()}
    expect(set(got) == set(want), f"other tensors: {sorted(got)} and {sorted(want)}")
    wrong = [k for k in want if got[k] != want[k]]
    expect(not wrong, f"other bits than PyTorch's in {', '.join(wrong)}")
    print(f"{len(want)} tensors, the same bits")


if __name__ == "__main__":
    try:
        if "--write" in sys.argv:
            with open(FIXTURE, "w") as f:
                json.dump(torch_digests(), f, indent=1)
                f.write("\n")
        else:
            check(torch_digests() if "--live" in sys.argv else json.load(open(FIXTURE)))
    except Failure as e:
        sys.exit(f"FAIL {e}")
