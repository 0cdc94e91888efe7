#!/usr/bin/env python3
"""The examples as they stand in the repository: compiled, trained a few updates on two ranks, and the loss
falls below a bound that chance does not reach.

    examples.py NAME...        all when none is named
    examples.py --whole NAME   the whole run, with the result that the example's README promises"""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import ROOT, Folder, expect, losses, main, must  # noqa: E402



class Example:
    """A short run and its bound; of the whole run the metric and what it must reach; -D and a script that makes data."""

    def __init__(self, flags, below, whole=None, defines=(), make=None):
        self.flags = flags + ["--eval_strategy", "no", "--logging_steps", "10"]
        self.below, self.whole, self.defines, self.make = below, whole, list(defines), make


# Chance: log(65) = 4.17 for characters, log(10) = 2.30 for digits and shapes, log(2) = 0.69 for questions.
EXAMPLES = {
    "char_gpt": Example(["--max_steps", "60", "--warmup_steps", "10"], 3.0, ("eval_loss", "at most", 1.92)),
    "mnist_cnn": Example(["--max_steps", "60"], 1.8, ("eval_accuracy", "at least", 0.97)),
    "cifar_resnet": Example(["--max_steps", "40", "--learning_rate", "0.05", "--warmup_steps", "5"], 2.2,
                            ("eval_accuracy", "at least", 0.3), make="make_data.py",
                            defines=["width=16", "train.per_device_train_batch_size=32"]),
    "text_classifier": Example(["--max_steps", "90", "--warmup_steps", "5"], 0.62, ("eval_accuracy", "at least", 0.84)),
}


def prepared(f, name):
    """The program, of a copy of examples/ where a script can write."""
    example = EXAMPLES[name]
    shutil.copytree(os.path.join(ROOT, "examples"), f.file("examples"),
                    ignore=shutil.ignore_patterns("cifar-10-batches-bin", "runs"))
    folder = f.file(f"examples/{name}")
    if example.make:
        must([sys.executable, os.path.join(folder, example.make)], limit=120)
    return f.compile(os.path.join(folder, "job.ddp"), name, defines=example.defines)


def sample(f, binary, ranks=1):
    """Text that the trained model writes."""
    return must([binary, "--output_dir", f.file("out"), "--generate", "300", "--prompt", "\n", "--nproc-per-node",
                 str(ranks)]).out


def check_sample(f, name, binary, log):
    if name != "char_gpt":
        return
    text = sample(f, binary)
    expect(len(text) == 302 and text == sample(f, binary, 2), f"no 300 characters, or others on 2 ranks: {text!r}")
    expect(len(log[-1]["sample"]) == 300, f"the run ended without a sample: {log[-1]}")
    # In the text every sixth character is a space and every ninth an e; by chance both are one in 65.
    expect(text.count(" ") > 20 and text.count("e") > 12, f"not like English: {text!r}")
    print(text)


def short(name):
    example = EXAMPLES[name]
    with Folder() as f:
        binary = prepared(f, name)
        _, log = f.train(binary, "out", ranks=2, flags=example.flags, limit=240)
        check_sample(f, name, binary, log)
    seen = losses(log)
    expect(seen and seen[-1] < example.below, f"loss {seen} stays over {example.below}")
    print(f"loss {seen[0]:.3f} to {seen[-1]:.3f}")


def whole(name):
    metric, way, bound = EXAMPLES[name].whole
    with Folder() as f:
        binary = prepared(f, name)
        r, log = f.train(binary, "out", ranks=2, limit=3600)
        check_sample(f, name, binary, log)
    value = [x[metric] for x in log if metric in x][-1]
    expect(value <= bound if way == "at most" else value >= bound, f"{metric} is {value}, not {way} {bound}")
    print(f"{metric} {value:.4f} after {r.seconds:.0f} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--whole"]:
        del sys.argv[1]
        main({name: lambda name=name: whole(name) for name in EXAMPLES})
    main({name: lambda name=name: short(name) for name in EXAMPLES})
