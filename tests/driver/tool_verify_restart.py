"""ddpc verify-restart: a plain job is proved; an operator that remembers something between updates is found out."""
import tempfile

from tools import *

LONG = JOB.replace("num_train_epochs = 2", "num_train_epochs = 8\n  optim_args = \"momentum=0.9\"")
write("job.ddp", LONG)
out, _ = ddpc("verify-restart", "job.ddp", "--breaks", "4", "--seed", "3", "-o", "plain")
lines = out.split("\n")
says("the straight run", lines[0], "straight on: 32 updates on 2 ranks in ")
same("a line for each break", [line.split()[0] for line in lines[1:5]], ["1", "2", "3", "4"])
says("the verdict", out, "the same: ", "of 32 updates on 2 ranks, broken off 4 times in all")
same("what -o keeps", sorted(p.name for p in (WORK / "plain").iterdir())[:2], ["broken-1", "console.txt"])
_, err = ddpc("verify-restart", "job.ddp", "-o", "plain", status=2)
says("a folder that is there", err, "cannot make the folder plain")

before = set(pathlib.Path(tempfile.gettempdir()).glob("ddpc-verify-*"))
found = as_json("verify-restart", "job.ddp", "--breaks", "2", "--ranks", "1", "--updates", "25", "--json")
same("as JSON", (found["same"], found["ranks"], found["updates"], found["differences"]), (True, 1, 25, []))
same("breaks as JSON", [sorted(b) for b in found["breaks"]], [["checkpoint", "exit", "what"]] * 2)
same("nothing is left", set(pathlib.Path(tempfile.gettempdir()).glob("ddpc-verify-*")) - before, set())

out, _ = ddpc("verify-restart", "job.ddp", "--breaks", "2", "-D", "train.save_only_model=true")
says("a job that saves weights alone", out, "the same: ")

for option, text in (("--breaks=0", "--breaks=0: must be a whole number from 1 on"), ("--ranks=x", "--ranks=x: must be")):
    says(option, ddpc("verify-restart", "job.ddp", option, status=2)[1], text)
write("bad.ddp", LONG.replace("relu", "relux"))
says("a job with mistakes", ddpc("verify-restart", "bad.ddp", status=1)[1], "relux")

# What a run knows and no checkpoint holds: the number of calls, in a static variable.
write("count.h", """#ifndef COUNT_H
#define COUNT_H
#include <ddp/op.h>
DDP_OP(grow(x: [..., N]) -> [..., N])
DDP_BODY(x)
DDP_GRAD(x = g)
void grow_f32(DDP_OUT float *y, const float *x, DDP_SIZE(numel(x)) int64_t count);
#endif
""")
write("count.c", """#include "count.h"
void grow_f32(float *y, const float *x, int64_t count) {
  static long calls;
  calls++;
  for (int64_t i = 0; i < count; i++) y[i] = x[i] * (1 + 1e-3f * (float)(calls % 7));
}
""")
write("forgets.ddp", LONG.replace("edition 1", 'edition 1\n\nimport c "count.h" as ops')
      .replace("fc2(relu(fc1(x)))", "fc2(ops.grow(relu(fc1(x))))"))
if subprocess.run([DDPC, "check", "forgets.ddp"], cwd=WORK, capture_output=True).returncode == 0:  # built with libclang
    out, _ = ddpc("verify-restart", "forgets.ddp", "--breaks", "6", "-o", "forgets", status=1)
    says("the verdict", out, "wrong: model.safetensors: ", "4 of 4 tensors differ, fc1.",
         "wrong: checkpoint-32/optimizer.safetensors: ", "not the same; all runs and what they said are in ")
finish()
