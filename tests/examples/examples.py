#!/usr/bin/env python3
"""The examples as they stand in the repository: compiled, trained a few updates on two ranks, and the loss
falls below a bound that chance does not reach.

    examples.py NAME...        all when none is named
    examples.py --whole NAME   the whole run, with the result that the example's README promises"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import Folder, expect, losses, main  # noqa: E402

# name: flags of the short run, what its last loss must be below, and of the whole run the metric and its bound.
# Chance: log(65) = 4.17 characters.
EXAMPLES = {
    "char_gpt": (["--max_steps", "60", "--eval_strategy", "no", "--logging_steps", "10", "--warmup_steps", "10"], 3.0,
                 ("eval_loss", "at most", 1.92)),
}


def short(name):
    flags, bound, _ = EXAMPLES[name]
    with Folder() as f:
        program = f.compile(f"examples/{name}/job.ddp", name)
        _, log = f.train(program, "out", ranks=2, flags=flags, limit=240)
    seen = losses(log)
    expect(seen and seen[-1] < bound, f"loss {seen} stays over {bound}")
    print(f"loss {seen[0]:.3f} to {seen[-1]:.3f}")


def whole(name):
    _, _, (metric, way, bound) = EXAMPLES[name]
    with Folder() as f:
        program = f.compile(f"examples/{name}/job.ddp", name)
        r, log = f.train(program, "out", ranks=2, limit=3600)
    value = [x[metric] for x in log if metric in x][-1]
    expect(value <= bound if way == "at most" else value >= bound, f"{metric} is {value}, not {way} {bound}")
    print(f"{metric} {value:.4f} after {r.seconds:.0f} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--whole"]:
        del sys.argv[1]
        main({name: lambda name=name: whole(name) for name in EXAMPLES})
    main({name: lambda name=name: short(name) for name in EXAMPLES})
