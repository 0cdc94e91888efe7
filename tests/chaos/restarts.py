"""Jobs that remember different things, broken off at random points and resumed: `ddpc verify-restart` on each, with
kill -9 of a rank and of the launcher, signals, and stops at an update."""
import json
import os
import random

from chaos import DDPC, JOB, ROOT, amount, expect, main, run

BREAKS = str(amount("DDP_CHAOS_BREAKS", 8))
SEED = os.environ.get("DDP_CHAOS_SEED", "1")

# What a run has to remember beside its weights: name, ranks, settings.
VARIANTS = [
    ("adamw, dropout, batch norm", 1, []),
    ("the same on two ranks", 2, []),
    ("fp16's scale, momentum, accumulation", 2,
     ["train.fp16=true", "train.optim=sgd", "train.optim_args=\"momentum=0.9\"",
      "train.gradient_accumulation_steps=3"]),
    ("plateau", 1, ["train.lr_scheduler_type=reduce_lr_on_plateau", "train.warmup_steps=0", "train.eval_steps=20",
                    "train.lr_scheduler_kwargs={\"patience\": 1}"]),
    ("epochs, whole batches only", 3,
     ["train.dataloader_drop_last=true", "train.eval_strategy=epoch", "train.optim=rmsprop"]),
    ("Gloo, adafactor", 2, ["runtime.intra_node=backend", "train.optim=adafactor", "train.max_steps=150"]),
    ("training waits for saves, two are kept", 2, ["runtime.async_save=false", "train.save_total_limit=2"]),
]


def restarts(number):
    name, ranks, defines = VARIANTS[number]
    args = [DDPC, "verify-restart", os.path.join(ROOT, JOB), "--ranks", str(ranks), "--breaks", BREAKS, "--seed",
            SEED, "--json"]
    for d in defines:
        args += ["-D", d]
    r = run(args, limit=60 + 4 * int(BREAKS))
    expect(r.out.find("{") >= 0, f"{name}: exit {r.code}\n{r.out}")
    found = json.loads(r.out[r.out.index("{"):])
    expect(r.code == 0 and found["same"] and len(found["breaks"]) >= int(BREAKS), f"{name}: exit {r.code}\n{r.out}")
    print(f"{name}: {len(found['breaks'])} breaks in {found['runs']} runs of {found['updates']} updates")


if SEED == "random":
    SEED = str(random.randrange(1 << 31))
    print(f"seed {SEED}")
main({f"restart{i}": lambda i=i: restarts(i) for i in range(len(VARIANTS))})
