#!/usr/bin/env python3
"""Jobs with the kernels of `@kernel` train as with the bodies they stand for: the same masks of dropout, zeros for
queries that see nothing, any number of ranks. What a kernel does not cover is the body, and `ddpc plan` says so."""
import os
import random
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import DDPC, Folder, expect, losses, main, must, same  # noqa: E402


def place(f):
    job = f.file("kernels.ddp")
    shutil.copy(os.path.join(HERE, "kernels.ddp"), job)
    rng = random.Random(5)
    with open(f.file("words.csv"), "w") as out:
        for k in range(48):  # a length of 0 masks every key
            out.write(",".join(str(rng.randrange(13)) for _ in range(7)) + f",{k % 8}\n")
    return job


def text(job, variant, *flags):
    return must([DDPC, job, "-D", f'variant="{variant}"', "--emit=c", "-o", "-", *flags]).out


def compare(variant):
    with Folder() as f:
        job = place(f)
        expect("ddp_attention_grad(" in text(job, variant), "no kernel in the program")
        expect("ddp_attention" not in text(job, variant, "--no-kernels"), "a kernel in spite of --no-kernels")
        runs = []
        for name, flags in (("kernel", []), ("body", ["--no-kernels"])):
            binary = f.compile(job, name, [f'variant="{variant}"'], flags)
            for ranks in (1, 2):
                steps = ["--gradient_accumulation_steps", str(2 // ranks)]
                runs.append(losses(f.train(binary, f"{name}{ranks}", ranks, steps)[1]))
        for other in runs[1:]:
            same(runs[0], other, 2e-6, variant)
        expect(runs[0][-1] < runs[0][0], "it does not train")


def repeat():
    """Same run, same bits."""
    with Folder() as f:
        binary = f.compile(place(f), "both", ['variant="both"'])
        a, b = (losses(f.train(binary, name, 2)[1]) for name in ("a", "b"))
        expect(a == b, "two runs differ")


def body_of_learned():
    with Folder() as f:
        job = place(f)
        expect("ddp_attention" not in text(job, "learned"), "a kernel where the mask has a gradient")
        plan = must([DDPC, "plan", job, "-D", 'variant="learned"']).out
        expect("its mask has a gradient" in plan and "E0907" in plan, f"the plan does not say why:\n{plan}")
        expect("E0907" not in must([DDPC, "plan", job]).out, "a remark where the kernel is used")


VARIANTS = ["causal", "seen", "far", "dropout", "both", "none"]
main({**{v: (lambda v=v: compare(v)) for v in VARIANTS}, "repeat": repeat, "learned": body_of_learned})
