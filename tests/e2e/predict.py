"""--predict: every sample of the split once, in its order, whatever the number of ranks; outputs as the objective
says; weights of the run's folder."""
import csv
import gzip
import os
import struct
import sys

from ddptest import Folder, ROOT, expect, main, must, run

sys.path.insert(0, os.path.join(ROOT, "tests", "parity"))
from losses import tensors  # noqa: E402

JOB = '''edition 1

dataset digits {
  let rows = csv("%s")
  field pixels: float[64] in 0..16
  field digit: uint8 in 0..10
  split train = rows[:300]
  split validation = rows[300:423]
  split test = rows[423:433]
}

model net = Sequential(Linear(64, 16), Dropout(0.5), Linear(16, 10))

objective {
  logits = net(digits.pixels)
  loss = cross_entropy(logits, digits.digit)
  metric accuracy = accuracy(logits, digits.digit)
  output logits = logits
  output again = logits
  output guess = argmax(logits, -1)
  output digit = digits.digit
  output halves = reshape(digits.pixels / 2, [size(logits, 0), 8, 8])
}

train {
  output_dir = "runs"
  max_steps = 20
  per_device_eval_batch_size = 7
  learning_rate = 0.01
}
'''


def rows(first, last):
    with gzip.open(os.path.join(ROOT, "examples/digits/digits.csv.gz"), "rt") as f:
        return [[float(v) for v in line] for line in csv.reader(f)][first:last]


def job(f):
    with open(f.file("job.ddp"), "w") as out:
        out.write(JOB % os.path.join(ROOT, "examples/digits/digits.csv.gz"))
    return f.compile(f.file("job.ddp"), "job")


def outputs():
    with Folder() as f:
        binary = job(f)
        r = run([binary, "--predict", f.file("p"), "--output_dir", f.file("run")])
        expect(r.code == 2 and "--init_from" in r.out, f"without weights: {r.out}")
        _, log = f.train(binary, "run", 1, ["--eval_strategy", "steps", "--eval_steps", "20"])
        seen = {}
        for ranks in (1, 2, 3):
            for split in ("validation", "test"):
                path = f.file(f"{split}{ranks}")
                must([binary, "--predict", path, "--predict_split", split, "--output_dir", f.file("run"),
                      "--nproc-per-node", str(ranks)])
                with open(path, "rb") as file:
                    data = file.read()
                expect(seen.setdefault(split, data) == data, f"{ranks} ranks: other bytes for {split}")
        for split, first, last in (("validation", 300, 423), ("test", 423, 433)):
            n, t, want = last - first, tensors(f.file(split + "1")), rows(first, last)
            expect(set(t) == {"logits", "again", "guess", "digit", "halves"}, f"other outputs: {sorted(t)}")
            expect(list(t["digit"]) == [int(row[64]) for row in want], "other samples, or in another order")
            halves = struct.unpack(f"<{64 * n}f", t["halves"])
            expect(list(halves) == [v / 2 for row in want for v in row[:64]], "halves are other numbers")
            expect(t["logits"] == t["again"], "one value under two names")
            logits = struct.unpack(f"<{10 * n}f", t["logits"])
            guess = struct.unpack(f"<{n}q", t["guess"])
            for i in range(n):
                row = logits[10 * i:10 * i + 10]
                expect(row.index(max(row)) == guess[i], f"guess {i} is none of its logits")
            if split == "validation":
                right = sum(g == int(row[64]) for g, row in zip(guess, want)) / n
                logged = [r["eval_accuracy"] for r in log if "eval_accuracy" in r][-1]
                expect(abs(right - logged) < 1e-6, f"accuracy {right}, logged {logged}")
        r = run([binary, "--predict", f.file("p"), "--predict_split", "tset", "--output_dir", f.file("run")])
        expect(r.code == 2 and "tset" in r.out, f"another split: {r.out}")


if __name__ == "__main__":
    main(dict(outputs=outputs))
