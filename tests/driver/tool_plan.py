"""ddpc plan: JSON, data, the largest batch."""
from tools import *

plan = as_json("plan", "job.ddp", "--json")
text, _ = ddpc("plan", "job.ddp")
same("names", [leaf["name"] for leaf in plan["leaves"]],
     ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"])
same("a leaf", {k: plan["leaves"][0][k] for k in ("kind", "dtype", "shape", "elements", "trained", "group", "bucket")},
     {"kind": "parameter", "dtype": "f32", "shape": [8, 4], "elements": 32, "trained": True,
      "group": "decay", "bucket": 1})
same("parameters", plan["parameters"], 8 * 4 + 8 + 3 * 8 + 3)
memory = plan["memory"]
same("sum of memory", memory["rank"], sum(a["bytes"] for a in memory["arenas"]) + memory["samples"] +
     max(memory["train_activations"], memory["eval_activations"]))
says("the tables", text, f"{memory['rank']:,}", *[k["computes"] for k in plan["train_kernels"]])
work = plan["work"]
same("work of a step", [sum(layer[k] for layer in work["layers"]) for k in ("forward_flops", "backward_flops", "kept")],
     [work["forward_flops"], work["backward_flops"], work["kept"]])
products = {layer["name"]: layer["forward_flops"] for layer in work["layers"]}
batch = memory["train_batch"]
if not 2 * batch * 32 <= products["net.fc1"] <= 2 * batch * 32 + 10 * batch * 8:  # the product, bias, activation
    failures.append(f"fc1 takes {products['net.fc1']} FLOP")
says("work in the tables", text, "work of a micro-batch", "net.fc1")
same("what is completed", sorted(n for k in plan["train_kernels"] for n in k["completes"]),
     sorted(leaf["name"] for leaf in plan["leaves"]))
same("buckets", sorted(plan["buckets"][0]["parameters"]), sorted(leaf["name"] for leaf in plan["leaves"]))
says("the data", text, "data: train 60 rows, validation 20 rows")
steps = plan["data"]["steps"]
same("updates", [(s["ranks"], s["updates_an_epoch"], s["updates"]) for s in steps],
     [(1, 8, 16), (2, 4, 8), (4, 2, 4), (8, 1, 2), (16, 1, 2)])
drop = as_json("plan", "job.ddp", "--json", "-D", "train.dataloader_drop_last=true")["data"]["steps"]
same("updates with drop_last", [s["updates_an_epoch"] for s in drop], [7, 3, 1, 0, 0])
says("why", drop[3]["why"], "nothing to train on")

# --scan says what a run would
rows = (WORK / "rows.csv").read_text().split("\n")
rows[16] = "1,2,3,4,7"
write("bad.csv", "\n".join(rows))
write("bad.ddp", JOB.replace("rows.csv", "bad.csv"))
_, err = ddpc("plan", "bad.ddp", "--scan", status=1)
says("a label out of range", err, "bad.csv:17", "7")
write("large.csv", "\n".join(rows[:16]) + "\n" + "1,2,3,1,1\n" * 40000)
write("large.ddp", JOB.replace("rows.csv", "large.csv"))
same("large files are not read unasked", as_json("plan", "large.ddp", "--json")["data"], None)
same("but with --scan", as_json("plan", "large.ddp", "--json", "--scan")["data"]["rows"],
     {"train": 60, "validation": 40016 - 60})

# the largest batch: it fits, one more does not
most = as_json("plan", "job.ddp", "--json", "--max-batch", "--memory", "1MiB")["max_batch"]
batch = most["per_device_train_batch_size"]


def bytes_at(n):
    return as_json("plan", "job.ddp", "--json", "-D", f"train.per_device_train_batch_size={n}")["memory"]["rank"]


same("bytes at the largest batch", bytes_at(batch), most["rank"])
if not bytes_at(batch) <= 1 << 20 < bytes_at(batch + 1):
    failures.append(f"{batch} is not the largest batch: {bytes_at(batch)}, {bytes_at(batch + 1)}")
text, _ = ddpc("plan", "job.ddp", "--max-batch", "--memory", "1MiB")
says("text", text, f"per_device_train_batch_size = {batch} takes")
rank = memory["rank"]
text, _ = ddpc("plan", "job.ddp", "--target", "cuda:sm_90", "--memory", "80GiB")
says("room of a GPU", text, "what a rank may use", "85,899,345,920")
same("room, JSON", as_json("plan", "job.ddp", "--json", "--memory", str(rank))["memory"]["target"], rank)
_, said = ddpc("plan", "job.ddp", "--memory", str(rank - 1), status=1)
says("a plan that does not fit", said, "E0905", f"one rank takes {rank} bytes")
write("target.ddp", JOB + '\ntarget small {\n  backend = cpu\n  memory = "1MiB"\n}\n')
same("the target's memory", as_json("plan", "target.ddp", "--json", "--max-batch", "--target", "small")["max_batch"], most)
write("tiny.ddp", JOB + '\ntarget small {\n  backend = cpu\n  memory = 1500\n}\n')
for command in (["plan"], []):
    _, err = ddpc(*command, "tiny.ddp", "--target", "small", status=1)
    says("a target that is too small", err, f"tiny.ddp:{JOB.count(chr(10)) + 2}:", "E0905", f"takes {memory['rank']} bytes", "`small` is 1500")
text, _ = ddpc("plan", "job.ddp", "--max-batch", "--memory", "100B")
says("nothing fits", text, "none fits")
_, err = ddpc("plan", "job.ddp", "--max-batch", "--memory", "much", status=2)
says("a wrong size", err, "--memory much is no size")
finish()
