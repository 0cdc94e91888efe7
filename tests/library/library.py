"""Every definition of the library that is visible in a job, forward and backward, in training and in evaluation, with its
buffers afterwards: the program that ddpc makes against PyTorch, against the interpreter, and the interpreter's gradients
against central differences (harness.py). table.py has the rows; a definition without one fails.

  library.py [NAME...]        all, or only these definitions
Needs torch. DDP_BUILD names the build folder."""

import os
import pathlib
import subprocess
import sys
import tempfile

import torch

torch.manual_seed(3)
torch.set_num_threads(1)

import table  # noqa: E402
from complete import defined  # noqa: E402
from harness import Failures, check  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("DDP_BUILD", ROOT / "build"))
IR_EVAL = BUILD / "ir_eval"
CHUNK = 60  # cases of one program


def complete():
    names, rows = set(defined()), {c.name for c in table.CASES} | set(table.ELSEWHERE)
    missing, surplus = sorted(names - rows), sorted(rows - names)
    if missing:
        sys.exit(f"no row in table.py for {', '.join(missing)}")
    if surplus:
        sys.exit(f"table.py has rows for {', '.join(surplus)}, which the library does not define")


def initial(folder, failures):
    """The draws of torch.nn.init with one seed."""
    shapes = {"orthogonal": "gain = 1.5", "bernoulli": "0.3", "randint": "-2, 5", "kaiming_uniform": "a = 0.3", "kaiming_normal": 'mode = "fan_out", nonlinearity = "relu"',
              "xavier_uniform": "gain = 1.5", "xavier_normal": ""}
    lines = ["edition 1", "", "module Net() {"]
    lines += [f"  {n}: param [17, 9, 2] = {n}({a})" for n, a in shapes.items()]
    total = " + ".join(f"sum({n})" for n in shapes)
    lines += ["  forward(x: [B]) -> [B] {", f"    return x * ({total})", "  }", "}", "", "dataset d {", "  field x: float",
              '  split train = csv("d.csv")', "}", "", "model net = Net()", "", "objective {", "  loss = mean(net(d.x))", "}",
              "", "train {", '  output_dir = "init"', "  seed = 11", "}", ""]
    (folder / "job.ddp").write_text("\n".join(lines))
    (folder / "d.csv").write_text("1\n")
    for command in ([BUILD / "ddpc", "job.ddp", "-o", "train"], ["./train", "--init_only"]):
        done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True, timeout=100)
        if done.returncode:
            sys.exit(f"{command}: {done.stdout}{done.stderr}")
    from safetensors.torch import load_file
    got = load_file(folder / "init/model.safetensors")
    torch.manual_seed(11)
    # Other libraries decompose in float32, and the smallest of 17 vectors is 0.1 of the largest.
    failures.compare("orthogonal: initial values", got["orthogonal"],
                     torch.nn.init.orthogonal_(torch.empty(17, 9, 2), gain=1.5), 2e-6)
    failures.compare("bernoulli: initial values", got["bernoulli"], torch.empty(17, 9, 2).bernoulli_(0.3), 0)
    failures.compare("randint: initial values", got["randint"], torch.randint(-2, 5, (17, 9, 2)), 0)
    how = {"kaiming_uniform": {"a": 0.3}, "kaiming_normal": {"mode": "fan_out", "nonlinearity": "relu"},
           "xavier_uniform": {"gain": 1.5}, "xavier_normal": {}}
    for name, options in how.items():
        want = getattr(torch.nn.init, name + "_")(torch.empty(17, 9, 2), **options)
        failures.compare(f"{name}: initial values", got[name], want, 0)


def main():
    complete()
    only = set(sys.argv[1:])
    cases = [c for c in table.CASES if not only or c.name in only]
    failures = Failures()
    with tempfile.TemporaryDirectory() as folder:
        for k in range(0, len(cases), CHUNK):
            check(cases[k:k + CHUNK], BUILD, IR_EVAL, folder, failures)
            if os.environ.get("VERBOSE"):
                print(k, "\n".join(failures), flush=True)
        if not only:
            initial(pathlib.Path(folder), failures)
    if failures:
        sys.exit("\n".join(failures) + f"\n{len(failures)} differences")
    print(f"{len(cases)} cases of {len({c.name for c in cases})} definitions agree with PyTorch {torch.__version__}, the "
          f"interpreter and differences")


main()
