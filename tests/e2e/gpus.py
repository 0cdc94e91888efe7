#!/usr/bin/env python3
"""Whole programs for GPUs, in the emulator: what is missing is said in one line within two seconds, before data are looked
for; replayed passes and measured products leave the bits that they should. Where nvcc is installed, also a program that is
linked with CUDA's own runtime, on a machine without a driver."""
import filecmp
import json
import os

from ddptest import BUILD, ROOT, SLOW, Folder, Skip, expect, main, run

JOB = "examples/digits/job.ddp"
TRAIN = ["--max_steps", "24", "--gradient_accumulation_steps", "2", "--eval_strategy", "steps", "--eval_steps", "12"]


def refuses(binary, flags, env, code, text):
    r = run([binary, "--data_root", "/nowhere", *flags], env=env)
    errors = [line for line in r.out.splitlines() if "error: " in line and "other ranks were ended" not in line]
    expect(r.code == code, f"{flags} {env}: exit {r.code}\n{r.out}")
    expect(len(errors) == 1 and text in errors[0] and "/nowhere" not in r.out, f"{flags} {env}: {r.out}")
    expect(r.seconds < 2 * SLOW, f"{flags} {env}: after {r.seconds:.1f} s")


def missing():
    with Folder() as f:
        train = f.compile(JOB, "train", flags=["--target", "cuda:sim"])
        refuses(train, [], {"CUDASIM_DRIVER": "0"}, 1, "this machine has no NVIDIA driver")
        refuses(train, [], {"CUDASIM_DRIVER": "12040"}, 1, "is for CUDA 12.4 and this program needs")
        refuses(train, [], {"CUDASIM_DEVICES": "0"}, 1, "shows this program no GPU")
        refuses(train, ["--nproc-per-node", "4"], {"CUDASIM_DEVICES": "2"}, 2, "4 ranks on this host and 2 GPUs visible")
        refuses(train, ["--nproc-per-node", "2"], {"CUDASIM_DEVICES": "1"}, 2, "another rank has already taken")
        refuses(train, ["--nproc-per-node", "auto"], {"CUDASIM_DEVICES": "0"}, 1, "shows this program no GPU")
        refuses(train, ["--nproc-per-node", "gpu"], {"CUDASIM_DRIVER": "0"}, 1, "this machine has no NVIDIA driver")
        r = run([train, "--max_steps", "30", "--output_dir", f.file("out")],
                env={"DDP_CUBLASLT_LIBRARY": "/nowhere/libcublasLt.so"})
        expect(r.code == 1 and "cuBLASLt is needed and cannot be opened: /nowhere/libcublasLt.so" in r.out, r.out)


def without_driver():
    if os.path.exists("/dev/nvidiactl"):
        raise Skip("this machine has a driver")
    with Folder() as f:
        train = f.compile(JOB, "train", flags=["--target", "cuda:sm_90"])
        refuses(train, [], {}, 1, "this machine has no NVIDIA driver (libcuda.so.1)")
        refuses(train, ["--nproc-per-node", "auto"], {}, 1, "this machine has no NVIDIA driver")
        r = run([train, "--help"])
        expect(r.code == 0, r.out)


def names():
    """The stand-in of cuBLASLt has the names that programs of CUDA 12 and 13 open; with another one they would find NVIDIA's,
    or nothing."""
    for major in 12, 13:
        path = os.path.join(BUILD, "lib", "cudasim", f"libcublasLt.so.{major}")
        expect(os.path.realpath(path).endswith("/libcublasltsim.so") and os.path.exists(path), f"{path} is not the stand-in")


def same_weights(f, a, b):
    expect(filecmp.cmp(f.file(f"{a}/model.safetensors"), f.file(f"{b}/model.safetensors"), shallow=False),
           f"{a} and {b} have other weights")


def products(f, name):
    with open(f.file(name)) as log:
        return [json.loads(line) for line in log]


def replay():
    """The same bits with and without graphs, in every schedule of streams; and that there are graphs."""
    with Folder() as f:
        train = f.compile(JOB, "train", flags=["--target", "cuda:sim"])
        f.train(train, "plain", 1, TRAIN, env={"DDP_CUDA_GRAPHS": "0", "CUBLASLTSIM_LOG": f.file("plain.jsonl")})
        expect(not any(p["captured"] for p in products(f, "plain.jsonl")), "captured without graphs")
        for schedule in ("eager", "lazy", "urgent", "random:1"):
            name = schedule.replace(":", "-")
            env = {"CUDASIM_STREAMS": schedule, "CUDASIM_PROTECT": "1", "CUBLASLTSIM_LOG": f.file(name + ".jsonl")}
            f.train(train, name, 1, TRAIN, env=env)
            same_weights(f, "plain", name)
            enqueued = products(f, name + ".jsonl")
            expect(any(p["captured"] for p in enqueued), f"{schedule}: nothing was captured")
            expect(len(enqueued) < len(products(f, "plain.jsonl")) / 4, f"{schedule}: {len(enqueued)} calls")


def measured():
    """The first run measures, the others take what it found: nothing is added, and the bits are the same."""
    with Folder() as f:
        train = f.compile(JOB, "train", flags=["--target", "cuda:sim"])
        env = {"DDP_CUDA_TUNE": f.file("tuned")}
        f.train(train, "first", 1, TRAIN, env=env)
        with open(f.file("tuned")) as found:
            text = found.read()
        expect(len(text.splitlines()) >= 8, text)  # three layers, there and back
        f.train(train, "second", 1, TRAIN, env=env)
        with open(f.file("tuned")) as found:
            expect(found.read() == text, "the second run has added to the file")
        same_weights(f, "first", "second")


main({"missing": missing, "names": names, "without_driver": without_driver, "replay": replay, "measured": measured})
