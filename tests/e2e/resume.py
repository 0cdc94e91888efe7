#!/usr/bin/env python3
"""Going on from a checkpoint: an interrupted run writes the bytes that a straight one writes, from any save and
with any number of ranks; what is damaged or does not fit is named, with the way out."""
import filecmp
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ddptest import Folder, expect, main, read_log, run  # noqa: E402

STATE = ("model.safetensors", "optimizer.safetensors", "scheduler.safetensors")
TIMES = ("runtime", "per_second", "_ms", "communication_wait")


def equal(one, two, files=STATE):
    for name in files:
        a, b = os.path.join(one, name), os.path.join(two, name)
        expect(filecmp.cmp(a, b, shallow=False), f"{a} and {b} differ")


def numbers(folder, after):
    """The log behind an update, without what was measured with a clock."""
    return [{k: v for k, v in r.items() if not any(t in k for t in TIMES)}
            for r in read_log(folder) if r.get("step", 0) > after and "train_runtime" not in r]


def start(binary, out, flags, ranks=1):
    return run([binary, "--output_dir", out] + flags + (["--nproc-per-node", str(ranks)] if ranks > 1 else []))


def copied(f, straight, update, name):
    """An output folder that holds nothing but one checkpoint."""
    out = f.file(name)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(os.path.join(straight, f"checkpoint-{update}"), os.path.join(out, f"checkpoint-{update}"))
    return out


def same_from(f, binary, straight, flags, update, last, ranks=1):
    """Goes on from `update` and compares everything with the straight run."""
    out = copied(f, straight, update, "resumed")
    r = start(binary, out, flags + ["--resume_from_checkpoint", "true"], ranks)
    expect(r.code == 0 and f"checkpoint-{update}: update {update} of {last}" in r.out, r.out)
    equal(os.path.join(straight, f"checkpoint-{last}"), os.path.join(out, f"checkpoint-{last}"),
          STATE + ("manifest.json",))
    equal(straight, out, STATE[:1])
    expect(numbers(straight, update) == numbers(out, update), f"from update {update}: other lines in the log")


def digits():
    """Inside an epoch, at its end (before and after what happens there), and from the last save."""
    flags = ["--max_steps", "60", "--save_strategy", "steps", "--save_steps", "15", "--logging_steps", "4"]
    with Folder() as f:
        binary = f.compile("examples/digits/job.ddp", "train")
        straight = f.file("straight")
        expect(start(binary, straight, flags, 2).code == 0, "the straight run failed")
        for update in (15, 45, 60):
            same_from(f, binary, straight, flags, update, 60, 2)


def damaged():
    """Every kind of damage is named; `true` takes the next complete one and says what it passed over."""
    flags = ["--max_steps", "6", "--warmup_steps", "0", "--save_strategy", "steps", "--save_steps", "2"]

    def cut(path):
        os.truncate(path, os.path.getsize(path) - 2)

    def flip(path):
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))

    def change(path):
        with open(path) as file:
            manifest = json.load(file)
        manifest["update"] = 5
        with open(path, "w") as file:
            json.dump(manifest, file)

    with Folder() as f:
        binary = f.compile("examples/digits/job.ddp", "train")
        straight = f.file("straight")
        expect(start(binary, straight, flags).code == 0, "the straight run failed")
        faults = [(cut, "model.safetensors", "bytes, "), (flip, "optimizer.safetensors", "checksum"),
                  (os.remove, "scheduler.safetensors", "is missing"), (cut, "manifest.json", "damaged"),
                  (change, "manifest.json", "its checksum"), (os.remove, "manifest.json", "not written to its end")]
        for damage, name, text in faults:
            out = f.file("damaged")
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(straight, out)
            damage(os.path.join(out, "checkpoint-6", name))
            r = start(binary, out, flags + ["--resume_from_checkpoint", os.path.join(out, "checkpoint-6")])
            expect(r.code == 3 and text in r.out and "checkpoint-6" in r.out and name in r.out and
                   "--resume_from_checkpoint true" in r.out, r.out)
            r = start(binary, out, flags + ["--resume_from_checkpoint", "true"])
            expect(r.code == 0 and f"not used:\n  checkpoint-6: " in r.out and text in r.out and
                   "resumed from" in r.out and "checkpoint-4" in r.out, r.out)
            equal(os.path.join(straight, "checkpoint-6"), os.path.join(out, "checkpoint-6"))
        r = start(binary, f.file("nothing"), flags + ["--resume_from_checkpoint", "true"])
        expect(r.code == 0 and "no complete checkpoint" in r.out, r.out)


if __name__ == "__main__":
    main({"digits": digits, "damaged": damaged})
