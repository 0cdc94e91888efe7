"""Time and memory of the compiler as jobs grow. Standard library only.
  measure.py DDPC [--runs 5] [--stage check|emit|program]
Families: `layers`, a GPT-2 of N blocks made by a loop; `written`, N layers and N lines of forward, each
written out; `functions`, N small functions that call one another; `terms`, an objective of N terms. Each is
measured at sizes up to 32 times the first. Printed: the best time of the runs, the largest memory, and both
per unit. The last column is the time per unit compared with the smallest size, start-up taken away: 1.0 is
linear. No verdict here; structure is tested by tests/speed."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HEAD = """edition 1

{imports}dataset words {{
  let rows = csv("tokens.csv")

  {field}
  field label: int64 in 0..10

  split train = rows[:-100]
  split validation = rows[-100:]
}}
"""
TAIL = """
train {
  output_dir = "runs/speed"
  per_device_train_batch_size = 4
  learning_rate = 1e-3
}
"""


def layers(n):
    return HEAD.format(imports='import "std/models/gpt2.ddp" as gpt2\n\n',
                       field="field ids: int64[1024] in 0..50257").replace(
        "  field label: int64 in 0..10\n", "") + f"""
model net = gpt2.GPT2LMHead(vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = {n}, n_head = 12)

objective {{
  loss = causal_lm_loss(net(words.ids), words.ids)
}}
""" + TAIL


def written(n):
    members = "\n".join(f"  fc_{i} = Linear(64, 64)" for i in range(n))
    lines = "\n".join(f"    x = x + relu(fc_{i}(x))" for i in range(n))
    return HEAD.format(imports="", field="field ids: float[64]") + f"""
module Net() {{
{members}
  head = Linear(64, 10)

  forward(x: [B, 64]) -> [B, 10] {{
{lines}
    return head(x)
  }}
}}

model net = Net()

objective {{
  loss = cross_entropy(net(words.ids), words.label)
}}
""" + TAIL


def functions(n):
    defs = "\n".join(f"def f_{i}(x: [...]) -> [...] = " + (f"f_{i - 1}(x) * 0.5" if i % 20 else "x + 1.0")
                     for i in range(n))
    calls = "\n".join(f"  y = y + f_{i}(x)" for i in range(19, n, 20))
    return HEAD.format(imports="", field="field ids: float[64]") + f"""
{defs}

model net = Sequential(Linear(64, 10))

objective {{
  x = words.ids
  y = x
{calls}
  loss = cross_entropy(net(y), words.label)
}}
""" + TAIL


def terms(n):
    lines = "\n".join(f"  loss = loss + 0.01 * mean(logits ** {i + 2})" for i in range(n))
    return HEAD.format(imports="", field="field ids: float[64]") + f"""
model net = Sequential(Linear(64, 10))

objective {{
  logits = net(words.ids)
  loss = cross_entropy(logits, words.label)
{lines}
}}
""" + TAIL


# name: how to write one, the size that is taken away as start-up, sizes
FAMILIES = {"layers": (layers, 1, (6, 12, 48, 200)), "written": (written, 1, (50, 200, 800, 1600)),
            "functions": (functions, 20, (100, 400, 1600, 3200)), "terms": (terms, 1, (10, 40, 160, 320))}


def run(command):
    """CPU seconds, seconds and MiB of one process."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}:\n{said.decode()}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - started, used.ru_maxrss / 1024


def measure(ddpc, job, stage, runs):
    command = [ddpc, "check", job]
    if stage == "emit":
        command = [ddpc, job, "--emit=c", "-o", job + ".c"]
    elif stage == "program":
        command = [ddpc, job, "-o", job + ".out"]
    results = [run(command) for _ in range(runs)]
    return min(r[0] for r in results), max(r[2] for r in results)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ddpc")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--stage", choices=("check", "emit", "program"), default="check",
                        help="how far: the front end; to C; to a program, with the C compiler's time")
    options = parser.parse_args()
    ddpc = os.path.realpath(options.ddpc)
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "tokens.csv").touch()
        print("family        size  lines    CPU ms      MiB   ms/unit  growth")
        for name, (make, least, sizes) in FAMILIES.items():
            if options.family and name != options.family:
                continue
            base, unit = None, None
            empty = pathlib.Path(folder, "empty.ddp")
            empty.write_text(make(least))
            start, _ = measure(ddpc, str(empty), options.stage, options.runs)
            for size in sizes:
                job = pathlib.Path(folder, f"{name}_{size}.ddp")
                job.write_text(make(size))
                seconds, memory = measure(ddpc, str(job), options.stage, options.runs)
                unit = (seconds - start) / (size - least)
                base = base or unit
                lines = make(size).count("\n")
                print(f"{name:<12} {size:5} {lines:6} {seconds * 1e3:9.1f} {memory:8.1f} "
                      f"{unit * 1e3:9.4f} {unit / base:7.2f}")


main()
