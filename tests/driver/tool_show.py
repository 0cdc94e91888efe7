"""ddpc show, ddpc graph, ddpc explain."""
from tools import *

line = JOB.split("\n").index("  learning_rate = 0.1") + 1
out, _ = ddpc("show", "--resolved", "job.ddp", "-D", "train.seed=7", "-D", "hidden=4")
says("show", out, "param hidden = 4  # -D", f"train.learning_rate = 0.1  # job.ddp:{line}\n", "train.seed = 7  # -D\n",
     "train.weight_decay = 0.0  # default\n", "runtime.")
write("base.ddp", "edition 1\n\ntrain {\n  learning_rate = 0.5\n  final seed = 3\n  output_dir = \"x\"\n}\n")
write("derived.ddp", JOB.replace("edition 1\n", 'edition 1\n\nimport "base.ddp" as base\n').replace(
    "train {", "train extends base.train {"))
rows = {row["key"]: row for row in as_json("show", "derived.ddp", "--json")["settings"]}
same("a line that replaces another", rows["learning_rate"]["from"], f"derived.ddp:{line + 2}, over base.ddp:4")
same("a line of the other file", rows["seed"]["from"], "base.ddp:5; final")
same("may change", (rows["learning_rate"]["run_time"], rows["seed"]["run_time"], rows["optim"]["run_time"]), (True, False, False))
leaves = as_json("show", "--leaves", "job.ddp", "--json")
same("leaves", [(leaf["name"], leaf["type"], leaf["group"]) for leaf in leaves],
     [("fc1.weight", "f32[8,4]", "decay"), ("fc1.bias", "f32[8]", "no_decay"),
      ("fc2.weight", "f32[3,8]", "decay"), ("fc2.bias", "f32[3]", "no_decay")])
same("initial values", leaves[0]["initial"], "uniform(-0.5, 0.5)")
out, _ = ddpc("show", "--leaves", "job.ddp")
says("leaves", out, "fc1.weight ", "uniform(-0.5, 0.5)")

for stage, expected in {"forward": ["loss"], "eval": ["loss", "metric accuracy"],
                        "train": ["gradient of fc1.weight", "loss"]}.items():
    out, _ = ddpc("graph", "job.ddp", "--stage", stage)
    says(stage, out, "digraph train {" if stage != "eval" else "digraph eval {", 'label="fc1"', "fc1.weight\\nf32[8,4]",
         "subgraph cluster_", *expected)
    same(f"braces of {stage}", out.count("{"), out.count("}"))
    edges = [e.split(" -> ") for e in out.replace(";", "").split("\n") if " -> " in e]
    nodes = {n.split(" [")[0].strip() for n in out.split("\n") if " [label=" in n}
    same(f"ends of edges of {stage}", {a.strip() for e in edges for a in e} - nodes, set())
ddpc("graph", "job.ddp", "-o", "job.dot")
says("-o", (WORK / "job.dot").read_text(), "digraph")
_, err = ddpc("graph", "job.ddp", "--stage", "nope", status=2)
says("graph", err, "there is no stage `nope`")

out, _ = ddpc("explain", "warmup_steps", "e0405", "warmup_ratio", "per_device_train_batch_size", "fsdp")
says("explain", out, "train.warmup_steps: float, default 0", "E0405: ", "now called warmup_steps", "example: train {",
     "./train --warmup_steps 0", "ddpc -D train.per_device_train_batch_size=8", "refused")
finish()
