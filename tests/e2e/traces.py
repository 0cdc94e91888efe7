"""--profile: one Chrome trace of all ranks, whose spans nest, with every kernel of every update, and buckets that travel
while backward runs."""
import json
import os

from ddptest import BUILD, DDPC, ROOT, Folder, expect, main, must, run

JOB = "tests/e2e/invariance.ddp"
UPDATES, ACCUMULATE = 12, 2
FLAGS = ["--max_steps", str(UPDATES), "--gradient_accumulation_steps", str(ACCUMULATE), "--max_grad_norm", "0"]


def weights(folder, name):
    with open(folder.file(f"{name}/model.safetensors"), "rb") as f:
        return f.read()


def read(path):
    """Complete events by rank; each has whole numbers of everything, and names of lines come first."""
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    ranks, names = {}, {}
    for e in events:
        if e["ph"] == "M":
            names.setdefault(e["pid"], {})[e["name"], e["tid"]] = e["args"]
            continue
        expect(e["ph"] == "X" and e["dur"] >= 0 and e["ts"] >= 0, f"an event: {e}")
        expect(("thread_name", e["tid"]) in names[e["pid"]], f"line {e['tid']} of rank {e['pid']} has no name yet")
        e["end"] = e["ts"] + e["dur"]
        ranks.setdefault(e["pid"], []).append(e)
    for r in ranks:
        expect(names[r]["process_name", 0]["name"] == f"rank {r}", f"the name of rank {r}")
    return ranks


def nested(events, rank):
    """On one line each span lies in what began before it, or begins behind it. Times have three digits."""
    for line in {e["tid"] for e in events}:
        stack = []
        for e in sorted((e for e in events if e["tid"] == line), key=lambda e: (e["ts"], -e["end"])):
            while stack and stack[-1]["end"] <= e["ts"] + 0.002:
                stack.pop()
            expect(not stack or e["end"] <= stack[-1]["end"] + 0.002,
                   f"rank {rank}: {e['name']} outlasts {stack[-1]['name'] if stack else ''} on line {line}")
            stack.append(e)


def kernels_of(job, *options):
    r = must([DDPC, "plan", "--json", f"{ROOT}/{job}", *options])
    return json.loads(r.out)["train_kernels"]


def named(events, category, name=""):
    return [e for e in events if e["cat"] == category and e["name"].startswith(name)]


def check(f, binary, name, ranks, kernels, flags=()):
    path = f.file(f"{name}.json")
    r, log = f.train(binary, name, ranks, FLAGS + list(flags) + ["--profile", path])
    expect(path in r.out, "the trace is not announced")
    by_rank = read(path)
    expect(sorted(by_rank) == list(range(ranks)), f"ranks {sorted(by_rank)}")
    for rank, events in by_rank.items():
        nested(events, rank)
        updates = named(events, "part", "update")
        expect([e["args"]["update"] for e in updates] == list(range(1, UPDATES + 1)), f"rank {rank}: {len(updates)} updates")
        for u in updates:
            inside = [e for e in named(events, "kernel") if e["args"]["update"] == u["args"]["update"]]
            expect([e["name"].split(" (")[0] for e in inside] == [k["name"] for k in kernels] * ACCUMULATE,
                   f"rank {rank}, update {u['args']['update']}: {len(inside)} kernels")
            passes = [e for e in named(events, "part", "forward_backward") if u["ts"] - 0.002 <= e["ts"] <= u["end"]]
            expect(len(passes) == ACCUMULATE, f"{len(passes)} passes")
            expect(all(any(p["ts"] - 0.002 <= k["ts"] and k["end"] <= p["end"] + 0.002 for p in passes) for k in inside),
                   "a kernel outside of its pass")
    return by_rank, log


def buckets(by_rank, log, overlap):
    """Every bucket of every update under one number on all ranks; some begin before backward is over. When their sums are
    there is the scheduler's choice; that they need nobody to wait for them is shown by test_hidden of
    tests/dist/group_test.c."""
    seen = {}
    hidden = 0
    for rank, events in by_rank.items():
        found = [e for e in named(events, "collective", "bucket ")]
        expect(len(found) == UPDATES * log[0]["buckets"], f"rank {rank}: {len(found)} buckets travelled")
        for e in found:
            seen.setdefault((e["args"]["update"], e["name"], e["args"]["bytes"]), set()).add(e["args"]["sequence"])
            last = max(k["end"] for k in named(events, "kernel") if k["args"]["update"] == e["args"]["update"])
            hidden += e["ts"] < last
            expect(e["name"] != "bucket 0" or e["ts"] < last, "bucket 0 begins after backward")
    expect(all(len(n) == 1 for n in seen.values()), "one bucket, several numbers")
    expect(hidden >= overlap * UPDATES * len(by_rank), f"{hidden} buckets began while backward ran")


def time_line():
    with Folder() as f:
        cap = ["train.ddp_bucket_cap_mb=1"]
        mnist = f.compile("examples/mnist/job.ddp", "job-mnist", cap)
        kernels = kernels_of("examples/mnist/job.ddp")
        flags = ["--eval_strategy", "no", "--log_format", "plain"]
        by_rank, log = check(f, mnist, "mnist", 2, kernels, flags)
        expect(log[0]["buckets"] == 2, f"{log[0]['buckets']} buckets")
        buckets(by_rank, log, 1)
        f.train(mnist, "plain", 2, FLAGS + flags)
        expect(weights(f, "plain") == weights(f, "mnist"), "a trace changes bits")
        events = by_rank[0]
        steps = named(events, "part", "optimizer")
        expect(len(steps) >= 2 * UPDATES, f"{len(steps)} spans of optimizer steps: not one for each bucket")
        begin = [min(e["ts"] for e in events if e["cat"] == "part") for events in by_rank.values()]
        first = [named(events, "collective", "bucket 0")[0] for events in by_rank.values()]
        expect(max(e["ts"] for e in first) <= min(e["end"] for e in first), "a sum ends on one rank before it began on another")
        expect(min(begin) >= 0, "times before the beginning")


def gloo():
    with Folder() as f:
        mnist = f.compile("examples/mnist/job.ddp", "job-mnist", ["train.ddp_bucket_cap_mb=1"])
        by_rank, log = check(f, mnist, "mnist", 2, kernels_of("examples/mnist/job.ddp"),
                             ["--eval_strategy", "no", "--intra_node", "backend"])
        buckets(by_rank, log, 1)


def one_rank():
    with Folder() as f:
        binary = f.compile(JOB, "job", ["train.per_device_train_batch_size=16"])
        kernels = kernels_of(JOB, "-D", "train.per_device_train_batch_size=16")
        by_rank, _ = check(f, binary, "alone", 1, kernels,
                           ["--eval_strategy", "steps", "--eval_steps", "6", "--save_strategy", "steps", "--save_steps", "6"])
        events = by_rank[0]
        expect(len(named(events, "part", "evaluation")) == 2 and len(named(events, "part", "checkpoint")) == 2,
               "evaluations and checkpoints")
        expect(not named(events, "collective"), "one rank has nothing to say to others")


def ends():
    """Also when all ranks stop together; a file that cannot be made is an error before anything is trained."""
    with Folder() as f:
        binary = f.compile(JOB, "job", ["train.per_device_train_batch_size=16"])
        path = f.file("stopped.json")
        base = [binary, "--output_dir", f.file("o"), "--eval_strategy", "no", "--max_steps", "9"]
        r = run(base + ["--nproc-per-node", "2", "--profile", path, "--stop_at_update", "4"])
        expect(r.code == 9, f"exit {r.code}:\n{r.out}")
        expect(len(named(read(path)[1], "part", "update")) == 4, "updates of a run that was stopped")
        r = run(base + ["--nproc-per-node", "2", "--profile", f.file("no/such/folder/t.json")])
        expect(r.code == 6 and "no/such/folder" in r.out and "step " not in r.out, f"exit {r.code}:\n{r.out}")
        r = run(base + ["--init-only", "--profile", path])
        expect(r.code == 2 and "--profile has no effect" in r.out, f"exit {r.code}:\n{r.out}")
        expect(not [x for x in os.listdir(f.path) if "tmp" in x or "partial" in x], f"left over: {os.listdir(f.path)}")


def full():
    """What comes when the trace is full is counted, and costs no memory."""
    with Folder() as f:
        with open(f.file("rows.csv"), "w") as out:
            out.write("1,2\n" * 4)
        with open(f.file("job.ddp"), "w") as out:
            out.write(TINY)
        must([DDPC, f.file("job.ddp"), "-o", f.file("train")])
        kernels = len(json.loads(must([DDPC, "plan", "--json", f.file("job.ddp")]).out)["train_kernels"])
        most, updates = 400000, 400000 // kernels + 1000
        must([f.file("train"), "--output_dir", f.file("o"), "--profile", f.file("t.json"), "--max_steps", str(updates)])
        with open(f.file("t.json")) as file:
            events = json.load(file)["traceEvents"]
        kept = sum(e["ph"] == "X" for e in events)
        label = next(e["args"]["labels"] for e in events if e["name"] == "process_labels")
        lost = int(label.split()[0])
        # of an update at least its kernels and itself; parts that took no time are left out
        expect(kept == most and lost >= updates * (kernels + 1) - most, f"{kept} events, {label}")


TINY = """edition 1
dataset d {
  let rows = csv("rows.csv")
  field x: float
  field y: float
  split train = rows
}
model net = Sequential(Linear(1, 4), Tanh(), Linear(4, 4), Tanh(), Linear(4, 4), Tanh(), Linear(4, 1))
objective {
  loss = mse_loss(flatten(net(unsqueeze(d.x, 1)), 0), d.y)
}
train {
  output_dir = "out"
  per_device_train_batch_size = 1
  optim = sgd
  learning_rate = 0.0
  lr_scheduler_type = constant
  max_grad_norm = 0
  save_strategy = no
  logging_strategy = no
}
"""


assert os.path.isdir(BUILD)
main(dict(time_line=time_line, gloo=gloo, one_rank=one_rank, ends=ends, full=full))
