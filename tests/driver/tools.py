"""What the tests of ddpc's tools share: a folder of its own with a small job, and running ddpc in it."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

DDPC, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
WORK = pathlib.Path(tempfile.mkdtemp())
failures = []

JOB = """edition 1

param hidden: int = 8

dataset data {
  let rows = csv("rows.csv")

  field x: float[4]
  field y: uint8 in 0..3

  split train = rows[:60]
  split validation = rows[60:]
}

module Net(H: int) {
  fc1 = Linear(4, H)
  fc2 = Linear(H, 3)

  forward(x: [B, 4]) -> [B, 3] {
    return fc2(relu(fc1(x)))
  }
}

model net = Net(hidden)

objective {
  logits = net(data.x)
  loss = cross_entropy(logits, data.y)
  metric accuracy = accuracy(logits, data.y)
}

train {
  output_dir = "out"
  learning_rate = 0.1
  per_device_train_batch_size = 8
  num_train_epochs = 2
  optim = sgd
  save_strategy = no
}
"""


def write(name, text):
    (WORK / name).write_text(text)
    return name


def ddpc(*arguments, status=0):
    """stdout, stderr; the exit status must be the given one."""
    done = subprocess.run([DDPC, *arguments], cwd=WORK, capture_output=True, text=True)
    if done.returncode != status:
        failures.append(f"ddpc {' '.join(arguments)}: status {done.returncode}, not {status}\n"
                        f"{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def as_json(*arguments, status=0):
    out, _ = ddpc(*arguments, status=status)
    try:
        return json.loads(out)
    except ValueError as error:
        failures.append(f"ddpc {' '.join(arguments)}: no JSON: {error}\n{out}")
        return {}


def same(what, found, expected):
    if found != expected:
        failures.append(f"{what}: {found!r}, not {expected!r}")


def says(what, text, *parts):
    for part in parts:
        if part not in text:
            failures.append(f"{what} does not say {part!r}:\n{text}")


def finish():
    shutil.rmtree(WORK)
    for f in failures:
        print(f, file=sys.stderr)
    sys.exit(1 if failures else 0)


write("rows.csv", "".join(f"{i % 7},{i % 5}.5,{i % 3},1,{i % 3}\n" for i in range(80)))
write("job.ddp", JOB)
