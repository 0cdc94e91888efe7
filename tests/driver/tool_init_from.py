"""The hash in the program, its log and its weights; weights are compared with the job before it starts."""
import struct

from tools import *

plan = as_json("plan", "job.ddp", "--json")
ddpc("job.ddp", "-o", "train")
ddpc("job.ddp", "-o", "wide", "-D", "hidden=16")
write("deeper.ddp", JOB.replace("  fc2 = Linear(H, 3)", "  mid = Linear(H, H, bias = false)\n  fc2 = Linear(H, 3)").replace(
    "fc2(relu(fc1(x)))", "fc2(relu(mid(fc1(x))))"))
ddpc("deeper.ddp", "-o", "deeper")


def run(program, *arguments, status=0):
    done = subprocess.run([WORK / program, *arguments], cwd=WORK, capture_output=True, text=True)
    if done.returncode != status:
        failures.append(f"{program} {arguments}: status {done.returncode}, not {status}\n{done.stderr}")
    return done.stdout + done.stderr


def metadata(path):
    with open(WORK / path, "rb") as f:
        return json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]


hash_ = plan["spec_hash"]
says("--version", run("train", "--version"), hash_)
says("--spec", run("train", "--spec"), f"spec hash {hash_}")
run("train", "--save_strategy", "epoch")
same("the log's first line", json.loads((WORK / "out/log.jsonl").read_text().split("\n")[0])["spec_hash"], hash_)
for path in ("out/model.safetensors", "out/checkpoint-8/model.safetensors"):
    same(path, metadata(path), {"format": "pt", "ddp_spec_hash": hash_})

run("train", "--init-from", "out/model.safetensors", "--init-only")
text = run("wide", "--init-from", "out/model.safetensors", "--output_dir", "none", status=3)
says("a table", text, "does not fit the model of job.ddp: 3 tensors", "in the spec", "in the file",
     f"was written by a job with the hash {hash_}")
rows = [line.split() for line in text.split("\n") if line.startswith("  fc")]
same("rows", rows, [["fc1.weight", "F32", "[16,", "4]", "F32", "[8,", "4]"],
                    ["fc1.bias", "F32", "[16]", "F32", "[8]"],
                    ["fc2.weight", "F32", "[3,", "16]", "F32", "[3,", "8]"]])
if (WORK / "none").exists():
    failures.append("something was started before the weights were looked at")
(WORK / "rows.csv").rename(WORK / "away.csv")  # nor are data read
text = run("deeper", "--init-from", "out/model.safetensors", status=3)
same("one that is missing", [line.split() for line in text.split("\n") if line.startswith("  mid")],
     [["mid.weight", "F32", "[8,", "8]", "-"]])
(WORK / "away.csv").rename(WORK / "rows.csv")
run("deeper", "--output_dir", "deep")
text = run("train", "--init-from", "deep/model.safetensors", "--nproc-per-node", "2", status=3)
says("one too many", text, "mid.weight", "-", "F32 [8, 8]", "1 tensor\n")
if text.count("mid.weight") != 1:
    failures.append(f"not said once:\n{text}")
finish()
