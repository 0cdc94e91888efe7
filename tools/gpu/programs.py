"""The programs of tools/gpu-check: one row each.

    job       file of the repository; those of examples/ are packed with the folder, others alone with what `data` makes
    flags     of ddpc
    updates   that are compared with the CPU's losses, to `later` from the second on; 0: the CPU is not asked
    run       flags of the program
"""
import os
import random
import struct

START, LATER, BF16 = 1e-5, 1e-3, 1e-2  # relative; bf16 has 8 bits


class Program:
    def __init__(self, job, flags=(), updates=0, later=LATER, run=(), data=None, start=START):
        self.job, self.flags, self.updates, self.later = job, list(flags), updates, later
        self.run, self.data, self.start = list(run), data, start


def example(name, updates=55, **how):
    return Program(f"examples/{name}/job.ddp", updates=updates, **how)


def tokens(folder):
    """Token files as llm.c writes them, by chance: 256 samples of 1024."""
    os.makedirs(os.path.join(folder, "data"))
    draw = random.Random(1)
    for name, n in ("fineweb_train_0.bin", 256 * 1024 + 1), ("fineweb_val_0.bin", 2049):
        with open(os.path.join(folder, "data", name), "wb") as f:
            f.write(struct.pack("<256i", 20240520, 1, n, *([0] * 253)))
            f.write(struct.pack(f"<{n}H", *[draw.randrange(50257) for _ in range(n)]))


def images(folder):
    """idx files as bench/jobs.py writes them."""
    draw = random.Random(2)
    with open(os.path.join(folder, "resnet18.images"), "wb") as f:
        f.write(bytes([0, 0, 8, 4]) + struct.pack(">4I", 512, 3, 32, 32) + draw.randbytes(512 * 3 * 32 * 32))
    with open(os.path.join(folder, "resnet18.labels"), "wb") as f:
        f.write(bytes([0, 0, 8, 1]) + struct.pack(">I", 512) + bytes(b % 10 for b in draw.randbytes(512)))


LARGE = 2_200_000_000  # elements of the buffer of large.ddp


def rows(folder):
    with open(os.path.join(folder, "train.csv"), "w") as f:
        f.write("0\n" * 4)


def gpt2(batch):
    flags = ["train.report_to=none", "train.gradient_accumulation_steps=1", "train.save_strategy=no",
             f"train.per_device_train_batch_size={batch}", "train.per_device_eval_batch_size=1"]
    return Program("tests/language/examples/gpt2_124m.ddp", flags, data=tokens)


def attention(batch):
    return Program("tools/gpu/attention.ddp", [f"train.per_device_train_batch_size={batch}"])


PROGRAMS = {
    "digits": example("digits"),
    "breast_cancer": example("breast_cancer"),
    "mnist": example("mnist"),
    "mnist_cnn": example("mnist_cnn"),
    "char_gpt": example("char_gpt"),
    "text_classifier": example("text_classifier"),
    "custom_op": example("custom_op"),
    "cifar_resnet": example("cifar_resnet", 12),
    "digits_bf16": example("digits", flags=["train.bf16=true"], later=BF16, start=BF16),
    "char_gpt_bf16": example("char_gpt", flags=["train.bf16=true"], later=BF16, start=BF16),
    "large": Program("tests/reports/large.ddp", data=rows),
    "gpt2_b32": gpt2(32),
    "gpt2_b4": gpt2(4),
    "mlp": Program("bench/jobs/mlp.ddp"),
    "resnet18": Program("bench/jobs/resnet18.ddp", data=images),
    "attention_b4": attention(4),
    "attention_b32": attention(32),
}
FLAGS = ["--logging_steps", "1", "--eval_strategy", "no", "--warmup_steps", "0"]
