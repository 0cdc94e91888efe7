"""The loss in chunks of samples (`loss_chunk` of `runtime`) against the loss of the whole micro-batch: the same losses and
weights up to rounding, since only sums over samples are added in another order; the same draws; the same bits each time.
Without chunks there is nothing to compare: the plan must say that there are some."""
import os
import re
import struct
import sys

from ddptest import DDPC, ROOT, Folder, expect, losses, main, must, same

sys.path.insert(0, os.path.join(ROOT, "tests", "parity"))
from losses import tensors  # noqa: E402

JOB, LANGUAGE = "tests/e2e/chunks.ddp", "examples/char_gpt/job.ddp"
SMALL = ["n_layer=1", "n_head=2", "n_embd=16", "n_ctx=16"]
# Sums of floats in another order: some units of the last place, 6e-8, which 24 updates of plain descent do not magnify.
ROUNDING = 1e-5


def planned(job, defines, flags=()):
    """What the plan says: chunks of the training step, and bytes of its activations."""
    args = [DDPC, "plan", os.path.join(ROOT, job)] + list(flags)
    for d in defines:
        args += ["-D", d]
    text = must(args).out
    found = re.search(r"loss in (\d+) chunks of (\d+) samples?, training: ", text)
    memory = re.search(r"activations, training .*?\)\s+([\d,]+)", text)
    return (int(found[1]), int(found[2])) if found else None, int(memory[1].replace(",", ""))


def weights(f, name):
    return tensors(f.file(f"{name}/model.safetensors"))


def near(f, a, b, bound=ROUNDING):
    """The same weights, within `bound` of the largest of a tensor."""
    mine, theirs = weights(f, a), weights(f, b)
    expect(mine.keys() == theirs.keys() and mine, f"{mine.keys()} and {theirs.keys()}")
    for name in mine:
        x, y = (struct.unpack(f"<{len(t) // 4}f", t) for t in (mine[name], theirs[name]))
        worst = max(abs(p - q) for p, q in zip(x, y)) / max(map(abs, y))
        expect(worst <= bound, f"{name} of {a} and {b}: a difference of {worst:.3g}")


def compare(f, ways, job, defines=(), flags=(), bound=ROUNDING, target=()):
    """Trains in chunks of each size and as a whole, in each of some ways: name -> (ranks, flags)."""
    binaries = {n: f.compile(job, f"c{n}", [f"runtime.loss_chunk={n}", *defines], target) for n in (0, *compare.sizes)}
    for name, (ranks, more) in ways.items():
        logs = {n: f.train(b, f"{name}{n}", ranks, [*flags, *more])[1] for n, b in binaries.items()}
        for n in compare.sizes:
            for key in ("loss", "eval_loss", "eval_accuracy"):
                pair = [[r[key] for r in logs[at] if key in r] for at in (0, n)]
                if pair[0] or key == "loss":
                    same(*pair, bound, f"{name}, chunks of {n}: {key}")
            near(f, f"{name}{n}", f"{name}0", bound)
        f.train(binaries[n], "again", ranks, [*flags, *more])
        expect(weights(f, "again") == weights(f, f"{name}{n}"), f"{name}, chunks of {n}: other bits")


WAYS = {"one": (1, []), "micro": (1, ["--gradient_accumulation_steps", "3"]), "ranks": (2, [])}


def training():
    """Chunks that divide no batch, of one sample, and one that is nearly all of it; gradients and sums that chunks add to."""
    compare.sizes = (1, 5, 12)
    for n, chunks in ((0, None), (1, (13, 1)), (5, (3, 5)), (12, (2, 12)), (13, None), (20, None)):
        got = planned(JOB, [f"runtime.loss_chunk={n}"])[0]
        expect(got == chunks, f"chunks of {n}: {got}")
    with Folder() as f:
        compare(f, WAYS, JOB)


def language():
    """A head that shares its weight: its gradient waits in memory for that of the embedding. Less memory than the whole; with
    gradient checkpointing the same bits as without."""
    compare.sizes = (4,)
    flags = ["--max_steps", "8", "--warmup_steps", "0", "--logging_steps", "1", "--eval_strategy", "no"]
    with Folder() as f:
        compare(f, {"one": (1, []), "ranks": (2, ["--gradient_accumulation_steps", "2"])}, LANGUAGE,
                [*SMALL, "train.optim=sgd", "train.learning_rate=0.1"], flags)
        chunked = [*SMALL, "runtime.loss_chunk=2"]
        expect(planned(LANGUAGE, chunked)[1] < planned(LANGUAGE, [*SMALL, "runtime.loss_chunk=0"])[1], "no memory is saved")
        again = ["train.gradient_checkpointing=true"]
        expect(planned(LANGUAGE, chunked + again)[0] == (3, 2), "no chunks with gradient checkpointing")
        for name, defines in (("kept", chunked), ("made", chunked + again)):
            f.train(f.compile(LANGUAGE, "b" + name, defines), name, 1, flags)
        expect(weights(f, "kept") == weights(f, "made"), "gradient checkpointing changes bits")


def emulated():
    """On a GPU in the emulator: captured and replayed, in every order of streams and blocks."""
    compare.sizes = (5,)
    with Folder() as f:
        ways = {"one": (1, []), "ranks": (2, ["--gradient_accumulation_steps", "2"])}
        compare(f, ways, JOB, target=["--target", "cuda:sim"])
        cpu = f.train(f.compile(JOB, "host", ["runtime.loss_chunk=5"]), "cpu")[1]
        gpu = f.train(f.file("c5"), "gpu")[1]
        same(losses(cpu), losses(gpu), 1e-4, "the CPU and the emulator")
        for way in (dict(CUDASIM_STREAMS="urgent"), dict(CUDASIM_ORDER="reverse"), dict(DDP_CUDA_GRAPHS="0")):
            f.train(f.file("c5"), "other", env=way)
            expect(weights(f, "other") == weights(f, "gpu"), f"{way}: other bits")


def half():
    """bf16 in the emulator: logits in float32, their gradient and operands in 16 bits, sums of products in float32 on both sides. A rounding
    to 16 bits that falls the other way is 2^-9 of a number."""
    compare.sizes = (4,)
    flags = ["--max_steps", "3", "--warmup_steps", "0", "--logging_steps", "1", "--eval_strategy", "no"]
    with Folder() as f:
        compare(f, {"one": (1, [])}, LANGUAGE, [*SMALL, "train.bf16=true", "train.optim=sgd"], flags, 2e-3,
                ["--target", "cuda:sim"])


main(dict(training=training, language=language, emulated=emulated, half=half))
