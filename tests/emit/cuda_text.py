#!/usr/bin/env python3
"""What the .cu of a job says, as a text.

    cuda_text.py DDPC ROOT"""
import os
import re
import subprocess
import sys

KERNEL = re.compile(r"^static __global__ void __launch_bounds__\((\d+)\)(.*?)^}\n", re.S | re.M)


def emit(job, *flags):
    r = subprocess.run([DDPC, os.path.join(ROOT, job), "--target", "cuda:sm_90", "--emit=cu", *flags],
                       capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"FAIL {job}: {r.stderr}")
    return r.stdout


def expect(good, message):
    if not good:
        sys.exit(f"FAIL {message}")


def powers_once():
    """What only the step decides, one thread of a block computes: each thread has called pow() in double."""
    kernels, seen = KERNEL.findall(emit("tests/e2e/optimizers.ddp")), 0
    expect(kernels, "no kernels")
    for threads, text in kernels:
        for line in text.splitlines():
            if " pow(" not in line or int(threads) <= 32:
                continue
            seen += 1
            expect(line.startswith("    "), f"not by one thread alone:\n{text}")
    expect(seen >= 4, "no powers of the step in the optimizers")


if __name__ == "__main__":
    DDPC, ROOT = sys.argv[1:]
    powers_once()
