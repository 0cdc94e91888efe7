"""A job over two files: -D of params and settings that the other file declares, `train extends` with
`final`, and a pattern of data files. In: ddpc. Out: exit 0, or what differed."""
import os
import subprocess
import sys
import tempfile

DDPC = os.path.realpath(sys.argv[1])
BASE = """edition 1

param hidden: int = 8

def net() = Sequential(Linear(4, hidden), ReLU(), Linear(hidden, 3))

train {
  output_dir = "out"
  max_steps = 2
  final seed = 7
}
"""
JOB = """edition 1

import "base.ddp" as base

dataset flowers {
  field x: float[4]
  field y: uint8 in 0..3

  split train = csv("part-*.csv")
}

model net = base.net()

objective {
  loss = cross_entropy(net(flowers.x), flowers.y)
}

train extends base.train {
  learning_rate = 0.1
}
"""


def run(*args):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120)


def expect(status, text, *args):
    said = run(*args)
    if said.returncode != status or text not in said.stdout:
        sys.exit("%s: status %d (should be %d), should say: %s\n%s" %
                 (" ".join(args), said.returncode, status, text, said.stdout))
    return said.stdout


def main():
    os.chdir(tempfile.mkdtemp())
    open("base.ddp", "w").write(BASE)
    open("job.ddp", "w").write(JOB)
    expect(1, "no file fits `part-*.csv`", DDPC, "plan", "job.ddp")
    expect(0, "", DDPC, "check", "job.ddp")
    for i in range(10):  # more than one node of the tree of sources holds
        open("part-%d.csv" % i, "w").write("1,2,3,4,0\n%d,3,2,1,2\n" % i)
    plain = expect(0, "[8,4]", DDPC, "job.ddp", "--dump=job")
    wide = expect(0, "[16,4]", DDPC, "job.ddp", "-D", "base.hidden=16", "--dump=job")
    if plain == wide:
        sys.exit("-D base.hidden changes nothing")
    expect(1, "E0713", DDPC, "plan", "job.ddp", "-D", "base.hiden=16")
    expect(1, "E0713", DDPC, "plan", "job.ddp", "-D", "base.hidden=wide")
    hashes = set()
    for define in ([], ["-D", "base.hidden=16"]):
        expect(0, "", DDPC, "job.ddp", "-o", "train", *define)
        spec = expect(0, "spec hash", "./train", "--spec")
        hashes.add(next(w for w in spec.split() if len(w) == 16))
    if len(hashes) != 2:
        sys.exit("-D base.hidden is not in the hash: %s" % hashes)
    expect(0, "20 samples", "./train")
    expect(2, "is fixed at 7", "./train", "--seed", "3")
    expect(0, "", DDPC, "job.ddp", "-o", "train", "-D", "train.max_steps=3")
    expect(0, ", 3 in all", "./train")
    print("files: params, settings and patterns")


main()
