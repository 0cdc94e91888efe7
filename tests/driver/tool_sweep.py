"""ddpc sweep: runs, shared programs, commands that run."""
from tools import *

write("job.ddp", JOB + "\nsweep {\n  hidden in [4, 8]\n  learning_rate in [0.1, 1e-3]\n  optim in [sgd, adamw]\n}\n")
found = as_json("sweep", "job.ddp", "--json")
same("runs", len(found["runs"]), 8)
same("the last axis is fastest", [tuple(r["values"].values()) for r in found["runs"]][:3],
     [("4", "0.1", "sgd"), ("4", "0.1", "adamw"), ("4", "0.001", "sgd")])
same("programs", [p["path"] for p in found["programs"]], [f"./train-{i}" for i in (1, 2, 3, 4)])
same("runs share them", [r["program"] for r in found["runs"]],
     [f"./train-{i}" for i in (1, 2, 1, 2, 3, 4, 3, 4)])
same("how one is compiled", found["programs"][1]["command"],
     ["ddpc", "job.ddp", "-D", "hidden=4", "-D", "train.optim=adamw", "-o", "./train-2"])
same("how one is run", found["runs"][3]["command"],
     ["./train-2", "--learning_rate", "0.001", "--output_dir", "out/hidden=4,learning_rate=0.001,optim=adamw"])
out, _ = ddpc("sweep", "job.ddp", "-D", "train.seed=3")
lines = out.split("\n")
same("the text", (lines[0], len(lines)), ("# 8 runs, 4 programs", 1 + 4 + 8 + 1))
says("-D is kept", lines[1], "ddpc job.ddp -D train.seed=3 -D hidden=4 -D train.optim=sgd -o ./train-1")

write("rates.ddp", JOB + "\nsweep {\n  learning_rate in [0.1, 0.2]\n}\n")
same("the sweep says nothing about what is trained", as_json("plan", "rates.ddp", "--json")["spec_hash"],
     (write("plain.ddp", JOB), as_json("plan", "plain.ddp", "--json")["spec_hash"])[1])
out, _ = ddpc("sweep", "rates.ddp", "-o", "bin")
same("one program", sorted(p.name for p in (WORK / "bin").iterdir()), ["train"])
same("its commands", out.split("\n")[:2], ["# 2 runs, 1 programs",
     "bin/train --learning_rate 0.1 --output_dir out/learning_rate=0.1"])
done = subprocess.run(["sh", "-e"], input=out, cwd=WORK, capture_output=True, text=True)
same("they run", (done.returncode, (WORK / "out/learning_rate=0.2/log.jsonl").exists()), (0, True))
_, err = ddpc("sweep", "plain.ddp", status=1)
says("no sweep", err, "has no `sweep`")
finish()
