"""ddpc diff: what differs in meaning, section by section."""
from tools import *


def variant(name, *changes):
    text = JOB
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return write(name, text)


def diff(name, *changes, status=1):
    variant(name, *changes)
    return as_json("diff", "job.ddp", name, "--json", status=status)


SECTIONS = ("settings", "parameters", "optimizer", "data", "objective", "memory")


def sections(d):
    return [s for s in SECTIONS if d[s]]


# the same
out, _ = ddpc("diff", "job.ddp", "job.ddp")
same("a job and itself", out, "the same job\n")
d = diff("same.ddp", ("learning_rate = 0.1", "learning_rate = 1e-1  # comment"), ("optim = sgd", 'optim = "sgd"'), status=0)
same("spelling", (d["same"], sections(d)), (True, []))
d = diff("names.ddp", ("module Net(", "module Model("), ("Net(hidden)", "Model(hidden)"), ("H: int", "W: int"),
         ("(4, H)", "(4, W)"), ("(H, 3)", "(W, 3)"), status=0)
same("names of definitions", sections(d), [])

# settings by class
d = diff("rate.ddp", ("learning_rate = 0.1", "learning_rate = 0.2"))
same("a run-time key", d["settings"], [{"what": "train.learning_rate", "a": "0.1", "b": "0.2",
                                        "note": "same binary: --learning_rate 0.2"}])
same("one program runs both", (d["same_binary"], d["checkpoint_loads"]), (True, True))
d = diff("batch.ddp", ("batch_size = 8", "batch_size = 16"))
same("a compile-time key", [(s["what"], s["note"]) for s in d["settings"]],
     [("train.per_device_train_batch_size", "recompile")])
same("it changes memory too", (sections(d), d["same_binary"], d["checkpoint_loads"]), (["settings", "memory"], False, True))

# parameters and checkpoints
d = diff("wide.ddp", ("int = 8", "int = 16"))
same("reshaped", [(p["what"], p["a"], p["b"]) for p in d["parameters"]],
     [("fc1.weight", "f32[8,4]", "f32[16,4]"), ("fc1.bias", "f32[8]", "f32[16]"),
      ("fc2.weight", "f32[3,8]", "f32[3,16]")])
same("no checkpoint", (d["checkpoint_loads"], len(d["checkpoint"])), (False, 3))
variant("deep.ddp", ("  fc2 = Linear(H, 3)", "  mid = Linear(H, H, bias = false)\n  fc2 = Linear(H, 3)"), ("fc2(relu(fc1(x)))", "fc2(relu(mid(fc1(x))))"))
out, _ = ddpc("diff", "job.ddp", "deep.ddp", status=1)
says("added", out, "  + mid.weight: f32[8,8]", "a checkpoint of job.ddp loads into deep.ddp: no",
     "mid.weight: in the checkpoint -, in the spec f32[8,8]", "recompile")
out, _ = ddpc("diff", "deep.ddp", "job.ddp", status=1)
says("removed", out, "  - mid.weight: f32[8,8]")
d = diff("frozen.ddp", ("model net = Net(hidden)", "model net = Net(hidden) {\n  freeze fc1\n}"))
same("frozen", d["parameters"][0]["b"], "f32[8,4] frozen")
same("a checkpoint still loads", d["checkpoint_loads"], True)

# the rest
d = diff("tanh.ddp", ("relu(", "tanh("))
same("objective", (sections(d)[0], d["objective"][0]["what"]), ("objective", "loss and model in training"))
d = diff("metric.ddp", ("metric accuracy", "metric right"))
same("metric", [(m["a"], m["b"]) for m in d["objective"]], [("accuracy", "right")])
d = diff("split.ddp", ("rows[:60]", "rows[:50]"))
same("split", d["data"], [{"what": "split train", "a": "split train = rows[:60]", "b": "split train = rows[:50]", "note": None}])
d = diff("let.ddp", ('csv("rows.csv")', 'csv(  "rows.csv")  # the same'), status=0)
d = diff("range.ddp", ("x: float[4]", "x: float[4] in 0..9"))
same("a field", d["data"], [{"what": "field x", "a": "f32[4]", "b": "f32[4] in 0..9", "note": None}])
d = diff("optim.ddp", ("optim = sgd", "optim = adamw"))
says("optimizer", json.dumps(d["optimizer"]), "update rule 1", "adamw")
d = diff("init.ddp", ("  forward", "  init fc1.bias = zeros()\n\n  forward"))
same("initial values", [(o["what"], o["note"]) for o in d["objective"]], [("initial values", "drawn otherwise")])
d = diff("schedule.ddp", ("optim = sgd", "optim = sgd\n  lr_scheduler_type = cosine"))
same("schedule", (d["settings"][0]["note"], d["optimizer"][0]["what"]), ("recompile", "schedule"))

# -D reaches both; trouble is 2
same("-D", as_json("diff", "job.ddp", "wide.ddp", "--json", "-D", "hidden=5")["same"], True)
write("wrong.ddp", JOB.replace("relu", "relo"))
_, err = ddpc("diff", "job.ddp", "wrong.ddp", status=2)
says("a wrong job", err, "E0301")
_, err = ddpc("diff", "job.ddp", status=2)
says("one job", err, "diff compares two jobs")
finish()
