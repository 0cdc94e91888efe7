#!/usr/bin/env python3
"""tools/gpu-check with the emulator in the place of a GPU: a pack of two programs and some ops is built and passes; a number of
the CPU that is changed, a bit of an op's result, a program that does not compile make it fail, with the report that says
where; without a driver it says so and does not hang."""
import json
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import BUILD, ROOT, Folder, expect, main, must, run  # noqa: E402

TOOL = os.path.join(ROOT, "tools", "gpu-check")


def parts_of(f, *args, code, limit=200):
    """{part: its entry in the report} of a run of the pack."""
    r = run([f.file("pack/gpu-check"), "run", "-o", f.file("report.md"), "--jobs", "2", *args], limit=limit)
    expect(r.code == code, f"exit {r.code}, not {code}:\n{r.out}")
    with open(f.file("report.md")) as report:
        text = report.read()
    with open(f.file("report.json")) as report:
        data = json.load(report)
    expect(data["complete"] and "Not complete" not in text, text)
    for p in data["parts"]:
        expect(f"| {p['name']} | {p['state']} |" in text, text)
    return {p["name"]: p for p in data["parts"]}


def states(parts):
    return {name: p["state"] for name, p in parts.items()}


def emulated():
    with Folder() as f:
        must([TOOL, "pack", f.file("pack"), "--target", "cuda:sim", "--only", "digits,digits_bf16,ops/9", "--build", BUILD])
        here = ["--libraries", BUILD]
        found = parts_of(f, *here, code=0)
        right = ["device", "build", "ops", "losses", "bf16", "twice", "graphs", "nccl"]
        expect(states(found) == dict.fromkeys(right, "passed") | dict.fromkeys(("attention", "large", "speed", "sanitizer"), "not run"),
               f"{states(found)}")
        expect("no cuDNN" in found["attention"]["lines"][0], f"{found['attention']}")
        spoil(f, here)


def first_number(data):
    """Where in a file of cases (recorded.h) the first number stands that must come out."""
    at = 64 + 2 * 4 + 2 * 8  # name, graph, dtype, batch, elements
    fields = struct.unpack_from("<64q", data, at + 3 * 8)
    at += 3 * 8 + 3 * 64 * 8 + 21 * 8 + sum(fields)
    for _ in range(2):
        while struct.unpack_from("<q", data, at)[0] >= 0:
            at += 8 + 256
        at += 8 + 256
    return at


def spoil(f, here):
    """Numbers that are not what the CPU computed, and a text that does not compile."""
    with open(f.file("pack/pack.json")) as file:
        description = json.load(file)
    losses = description["programs"]["digits"]["losses"]
    losses[30] *= 1.01
    losses[0] *= 1 + 1e-4  # may differ by 1e-3 later, and by 1e-5 at the start
    with open(f.file("pack/pack.json"), "w") as file:
        json.dump(description, file)
    with open(f.file("pack/ops/cases.bin"), "r+b") as file:
        at = first_number(file.read())
        file.seek(at)
        file.write(struct.pack("<d", 1e6))
    found = parts_of(f, *here, "--only", "losses,ops", code=1)
    expect(states(found)["losses"] == "FAILED" and "update 1:" in "".join(found["losses"]["lines"]), f"{found['losses']}")
    lines = found["ops"]["lines"]
    expect(states(found)["ops"] == "FAILED" and ", 1 wrong" in lines[-1] and "1000000 is right" in lines[0], f"{lines}")
    with open(f.file("pack/programs/digits_bf16.cu"), "a") as file:
        file.write("this is no C++\n")
    found = parts_of(f, *here, "--only", "bf16", code=1)
    expect(states(found)["build"] == "FAILED" and "this is no C++" in "\n".join(found["build"]["lines"]), f"{found['build']}")
    expect(states(found)["bf16"] == "FAILED", f"{found['bf16']}")


if __name__ == "__main__":
    main({"emulated": emulated})
