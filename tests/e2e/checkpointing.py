"""Gradient checkpointing: the same bits with and without it, on one and two ranks, with and without
accumulation, dropout and batch norm in the model; less memory, as planned and as the runtime counts it."""
from ddptest import DDPC, ROOT, Folder, expect, losses, main, must
import json
import os

JOB = "tests/e2e/checkpointing.ddp"
ON = "train.gradient_checkpointing=true"


def bits(folder, name):
    """All tensors; the header before them holds hashes of job and plan, which differ."""
    with open(folder.file(f"{name}/model.safetensors"), "rb") as f:
        header = int.from_bytes(f.read(8), "little")
        f.seek(8 + header)
        return f.read()


def planned(defines, job=os.path.join(ROOT, JOB)):
    args = [DDPC, "plan", "--json", job]
    for d in defines:
        args += ["-D", d]
    return json.loads(must(args).out)


def equal(transformer):
    """All combinations with accumulation, and a budget between nothing and all."""
    kind = f"transformer={transformer}"
    with Folder() as f:
        binaries = {"plain": f.compile(JOB, "plain", [kind]),
                    "again": f.compile(JOB, "again", [kind, ON]),
                    "some": f.compile(JOB, "some", [kind, ON, "train.gradient_checkpointing_kwargs={memory_budget=0.6}"])}
        for ranks in (1, 2):
            for accumulate in (1, 2):
                runs = {}
                for name, binary in binaries.items():
                    out = f"{name}-{ranks}-{accumulate}"
                    _, log = f.train(binary, out, ranks, ["--gradient_accumulation_steps", str(accumulate)])
                    runs[name] = losses(log), bits(f, out), log[0]["memory_bytes"]["activations"]
                what = f"{kind}, {ranks} ranks, {accumulate} micro-batches"
                for name in ("again", "some"):
                    expect(runs[name][0] == runs["plain"][0], f"{what}, {name}: other losses")
                    expect(runs[name][1] == runs["plain"][1], f"{what}, {name}: other weights or buffers")
                memory = [runs[name][2] for name in ("again", "some", "plain")]
                expect(memory[0] < memory[1] < memory[2], f"{what}: activations {memory}")
                for name, defines in (("again", [kind, ON]), ("plain", [kind])):
                    m = planned(defines)["memory"]
                    expect(runs[name][2] == max(m["train_activations"], m.get("eval_activations", 0)),
                           f"{what}, {name}: {runs[name][2]} bytes counted, {m} planned")


GPT2 = """edition 1

import "std/models/gpt2.ddp" as gpt2

dataset words {
  let rows = csv("tokens.csv")

  field ids: int64[1024] in 0..50257

  split train = rows
}

model net = gpt2.GPT2LMHead()

objective {
  loss = causal_lm_loss(net(words.ids), words.ids)
}

train {
  output_dir = "runs/gpt2"
  per_device_train_batch_size = 4
}
"""


def half():
    """GPT-2 as published, 12 layers: at least half of the activations' memory."""
    with Folder() as f:
        with open(f.file("gpt2.ddp"), "w") as out:
            out.write(GPT2)
        open(f.file("tokens.csv"), "w").close()
        plans = [planned(d, f.file("gpt2.ddp")) for d in ([], [ON])]
        bytes_of = [p["memory"]["train_activations"] for p in plans]
        expect(2 * bytes_of[1] <= bytes_of[0], f"{bytes_of[0]} bytes of activations, with checkpointing {bytes_of[1]}")
        # the plan says what is saved and what is added: less than the forward pass once more
        work = [p["work"] for p in plans]
        expect(work[1]["activations_without_checkpointing"] == bytes_of[0], f"{work[1]}: not {bytes_of[0]}")
        expect(work[0]["activations_without_checkpointing"] is None and work[0]["again_flops"] == 0, "nothing is on")
        expect(0 < work[1]["again_flops"] < work[1]["forward_flops"], f"{work[1]['again_flops']} FLOP again")
        for key in ("forward_flops", "backward_flops"):
            expect(abs(work[0][key] - work[1][key]) < 0.01 * work[0][key], f"other {key}")
        expect(work[1]["kept"] < work[0]["kept"] / 2, f"kept: {work[1]['kept']} of {work[0]['kept']}")
        with open(f.file("gpt2.ddp"), "w") as out:
            out.write(GPT2.replace("GPT2LMHead()", "GPT2LMHead(n_layer = 48)"))
        lines = must([DDPC, "plan", f.file("gpt2.ddp"), "-D", ON]).out.count("\n")
        expect(lines < 300, f"the plan of 48 layers has {lines} lines")


def normalised():
    equal("false")


def transformer():
    equal("true")


main({"half": half, "normalised": normalised, "transformer": transformer})
