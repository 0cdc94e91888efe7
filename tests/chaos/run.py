#!/usr/bin/env python3
"""The chaos tests for as long as one likes: the soak takes the given time, the others run in their long form: 200 kills
while saving, 30 breaks for each job of restarts.py, 500 damaged checkpoints. Everything is drawn from the seed, which
is printed; timing is the machine's.

    tests/chaos/run.py --minutes 15 [--seed N] [--build FOLDER] [--only soak]"""
import argparse
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = [("folders", []), ("saves", []), ("damage", []), ("restarts", []), ("soak", ["steady"]), ("soak", ["soak"])]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--minutes", type=float, default=15, help="of the soak (default: 15)")
    p.add_argument("--seed", default=None, help="default: another one each time")
    p.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"), help="build folder (default: build)")
    p.add_argument("--only", default="", help="one of folders, saves, damage, restarts, steady, soak")
    return p.parse_args()


def main():
    a = arguments()
    seed = a.seed or str(random.randrange(1 << 31))
    env = dict(os.environ, DDP_BUILD=os.path.abspath(a.build), DDP_CHAOS_SEED=seed, DDP_CHAOS_KILLS="200",
               DDP_CHAOS_BREAKS="30", DDP_CHAOS_INPUTS="500")
    print(f"seed {seed}", flush=True)
    failed = 0
    for script, tests in PARTS:
        name = tests[0] if tests else script
        if a.only and a.only != name:
            continue
        start = time.monotonic()
        env["DDP_CHAOS_SECONDS"] = str(60 * a.minutes) if name == "soak" else "60"
        code = subprocess.run([sys.executable, os.path.join(HERE, script + ".py"), *tests], env=env).returncode
        failed += code not in (0, 77)
        how = {0: "passed", 77: "skipped"}.get(code, "failed")
        print(f"{name}: {how} in {time.monotonic() - start:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


main()
