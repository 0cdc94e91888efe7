#!/usr/bin/env python3
"""Losses of a 2-rank run against PyTorch DDP's: relative 1e-5 over the first 10 updates, 1e-3 in the mean
of the last 10; initial weights bit for bit.

    losses.py JOB ACCUMULATE           against tests/parity/fixtures
    losses.py JOB ACCUMULATE --live    against PyTorch as installed in this Python, run now
"""
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import Failure, Folder, expect, losses, must  # noqa: E402


def tensors(path):
    """Bytes of every tensor of a safetensors file."""
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(n))
        data = f.read()
    header.pop("__metadata__", None)
    return {k: data[slice(*v["data_offsets"])] for k, v in header.items()}


def expected(job, accumulate, live):
    if not live:
        with open(os.path.join(HERE, "fixtures", f"{job}_accumulate{accumulate}.json")) as f:
            return json.load(f)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "torch.json")
        subprocess.run([sys.executable, os.path.join(HERE, "torch_ddp.py"), job, "--accumulate", str(accumulate),
                        "--out", out], check=True, timeout=300)
        with open(out) as f:
            return json.load(f)


def check(job, accumulate, live):
    want = expected(job, accumulate, live)
    with Folder() as f:
        binary = f.compile(f"examples/{job}/job.ddp", job)
        must([binary, "--init-only", "--output_dir", f.file("initial")])
        weights = tensors(f.file("initial/model.safetensors"))
        for name, digest in want["initial_sha256"].items():
            expect(name in weights, f"initial weights lack {name}")
            expect(hashlib.sha256(weights[name]).hexdigest() == digest, f"initial {name} differs from PyTorch's bits")
        expect(set(weights) == set(want["initial_sha256"]), "other tensors in the initial weights")
        _, log = f.train(binary, "run", 2, ["--max_steps", str(want["steps"]), "--logging_steps", "1", "--eval_strategy",
                                            "no", "--gradient_accumulation_steps", str(accumulate)], limit=120)
        got = losses(log)
    theirs = want["losses"]
    expect(len(got) == len(theirs), f"{len(got)} losses instead of {len(theirs)}")
    first = max(abs(a - b) / abs(b) for a, b in zip(got[:10], theirs[:10]))
    last = abs(sum(got[-10:]) - sum(theirs[-10:])) / abs(sum(theirs[-10:]))
    print(f"{job}, accumulation {accumulate}: first 10 updates {first:.2e}, mean of the last 10 {last:.2e}")
    expect(first <= 1e-5, f"first 10 updates differ by {first:.3g}")
    expect(last <= 1e-3, f"mean of the last 10 updates differs by {last:.3g}")


if __name__ == "__main__":
    try:
        check(sys.argv[1], int(sys.argv[2]), "--live" in sys.argv[3:])
    except Failure as e:
        sys.exit(f"FAIL {e}")
