"""Which parameters share a bucket, against PyTorch's own _compute_bucket_assignment_by_size: the buckets of `ddpc plan` for
jobs of the examples, library and tests, by default (1 MiB, then 25) and with ddp_bucket_cap_mb; and how many the program
really makes. PyTorch's order is that in which gradients became ready in its first backward, so the order of the plan is
given to it. Needs torch. DDP_BUILD names the build folder."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("DDP_BUILD", ROOT / "build"))
JOBS = ["examples/mnist/job.ddp", "examples/char_gpt/job.ddp", "examples/digits/job.ddp", "tests/e2e/invariance.ddp",
        "tests/e2e/checkpointing.ddp"]
MIB = 1 << 20


def plan(job, cap):
    args = [BUILD / "ddpc", "plan", "--json", ROOT / job] + (["-D", f"train.ddp_bucket_cap_mb={cap}"] if cap else [])
    return json.loads(subprocess.run(args, check=True, capture_output=True, text=True).stdout)


def torchs(names, sizes, cap):
    """Buckets as sets of names; the tensors have no memory."""
    tensors = [torch.empty(sizes[n], device="meta") for n in names]
    limits = [cap * MIB] if cap else [dist._DEFAULT_FIRST_BUCKET_BYTES, 25 * MIB]
    found, _ = dist._compute_bucket_assignment_by_size(tensors, limits, [False] * len(tensors))
    return [[names[i] for i in b] for b in sorted(found)]


def main():
    failures, several = [], 0
    for job in JOBS:
        for cap in (None, 1, 2, 3, 25, 100):
            p = plan(job, cap)
            sizes = {leaf["name"]: leaf["elements"] for leaf in p["leaves"]}
            ours = [b["parameters"] for b in p["buckets"]]
            theirs = torchs([n for b in ours for n in b], sizes, cap)
            several += len(ours) > 1
            if ours != theirs:
                failures.append(f"{job}, cap {cap}: {[len(b) for b in ours]} parameters, PyTorch {[len(b) for b in theirs]}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BUILD / "ddpc", ROOT / JOBS[0], "-o", f"{folder}/train"], check=True)
        for cap in (None, 1, 2, 3):
            flags = ["--ddp_bucket_cap_mb", str(cap)] if cap else []
            subprocess.run([f"{folder}/train", "--nproc-per-node", "2", "--output_dir", f"{folder}/o", "--max_steps", "12",
                            "--eval_strategy", "no", *flags], check=True, capture_output=True, timeout=60)
            with open(f"{folder}/o/log.jsonl") as f:
                made = json.loads(f.readline())["buckets"]
            if made != len(plan(JOBS[0], cap)["buckets"]):
                failures.append(f"cap {cap}: the program makes {made} buckets")
    if failures:
        sys.exit("\n".join(failures))
    if several < len(JOBS):
        sys.exit(f"only {several} plans have several buckets")
    print(f"{len(JOBS)} jobs with 6 limits: buckets as PyTorch {torch.__version__} makes them")


main()
