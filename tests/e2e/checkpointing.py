"""Gradient checkpointing: the same bits with and without it, on one and two ranks, with and without
accumulation, dropout and batch norm in the model; less memory, as planned and as the runtime counts it."""
from ddptest import DDPC, ROOT, Folder, expect, losses, main, must, same
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


def equal(kind, *more, bits_equal=True, some_less=True):
    """All combinations with accumulation, and a budget between nothing and all."""
    plain = [f"kind={kind}", *more]
    ways = {"plain": plain, "again": [*plain, ON],
            "some": [*plain, ON, "train.gradient_checkpointing_kwargs={memory_budget=0.6}"]}
    with Folder() as f:
        binaries = {way: f.compile(JOB, way, defines) for way, defines in ways.items()}
        bytes_of = {way: planned(defines)["memory"]["train_activations"] for way, defines in ways.items()}
        expect(bytes_of["again"] < bytes_of["plain"] and bytes_of["some"] < bytes_of["plain"], f"{kind}: {bytes_of}")
        expect(bytes_of["again"] < bytes_of["some"] or not some_less, f"{kind}: a budget keeps nothing: {bytes_of}")
        for ranks in (1, 2):
            for accumulate in (1, 2):
                runs = {}
                for way, binary in binaries.items():
                    out = f"{way}-{ranks}-{accumulate}"
                    _, log = f.train(binary, out, ranks, ["--gradient_accumulation_steps", str(accumulate)])
                    counted = log[0]["memory_bytes"]["activations"]
                    expect(counted == bytes_of[way], f"{kind}, {way}: {counted} bytes counted, {bytes_of[way]} planned")
                    runs[way] = losses(log), bits(f, out)
                for way in ("again", "some"):
                    what = f"{kind}, {way}, {ranks} ranks, {accumulate} micro-batches"
                    if bits_equal:
                        expect(runs[way] == runs["plain"], f"{what}: other losses, weights or buffers")
                    else:
                        same(runs[way][0], runs["plain"][0], 2 ** -8, what)


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
    equal("normalised")


def transformer():
    equal("transformer")


def recurrent():
    """Loops of the program; its layers are few, so that a budget of 0.6 keeps nothing more."""
    equal("recurrent", some_less=False)


def bf16():
    """Fused kernels keep 16-bit values in float32 until they are stored, and other values are stored: equal
    to the precision of bfloat16."""
    equal("transformer", "train.bf16=true", bits_equal=False)


main({"half": half, "normalised": normalised, "transformer": transformer, "recurrent": recurrent, "bf16": bf16})
