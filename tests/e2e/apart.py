#!/usr/bin/env python3
"""The training loop on a device with memory of its own (apart.c), against the same program on the CPU: the same bits in
the log, in weights and checkpoints, whatever the order of its streams; and a checkpoint of the one goes on on the
other."""
import filecmp
import json
import os
import re

from ddptest import ROOT, Failure, Folder, expect, main, must, read_log, run
from resume import GROUPS, JOB

HERE = os.path.join(ROOT, "tests", "e2e")
FOLDERS = ("runtime/device", "runtime/core", "runtime/include", "tables")
ORDERS = ("eager", "lazy", "urgent")
# What a run says about itself and the clock.
OWN = ("runtime", "per_second", "memory_bytes", "device", "output_dir", "best_model_checkpoint", "_ms", "timing", "mem_cpu", "exposed",
       "communication_wait")


def compile_both(f, job, defines=()):
    cpu = f.compile(job, "cpu", defines)
    os.environ["DDPC_CC"] = " ".join(["cc -Wl,--wrap=ddp_main"] + [f"-I{os.path.join(ROOT, d)}" for d in FOLDERS] +
                                     [os.path.join(HERE, "apart.c")])
    try:
        return cpu, f.compile(job, "apart", defines)
    finally:
        del os.environ["DDPC_CC"]


def numbers(folder):
    """The log without what differs between two runs of one program."""
    return [{k: v for k, v in r.items() if not any(w in k for w in OWN)} for r in read_log(folder)]


def same_files(a, b, names):
    for name in names:
        expect(filecmp.cmp(os.path.join(a, name), os.path.join(b, name), shallow=False), f"{a}/{name} and {b}/{name} differ")


def same_runs(f, binaries, flags, orders=ORDERS, names=("model.safetensors",)):
    """Returns the log of the CPU."""
    cpu, apart = binaries
    _, log = f.train(cpu, "out-cpu", 1, flags)
    for order in orders:
        f.train(apart, f"out-{order}", 1, flags, env={"APART_STREAMS": order})
        mine, theirs = numbers(f.file(f"out-{order}")), numbers(f.file("out-cpu"))
        for a, b in zip(mine, theirs):
            expect(a == b, f"{order}:\n{a}\non the CPU:\n{b}")
        expect(len(mine) == len(theirs), f"{order}: {len(mine)} lines, {len(theirs)} on the CPU")
        same_files(f.file(f"out-{order}"), f.file("out-cpu"), names)
    return log


def job_with(f, net):
    """resume.ddp with another model."""
    with open(JOB) as source:
        text = source.read().replace("../../examples", os.path.join(ROOT, "examples"))
    expect("model net = Normalised(24)\n" in text, "the job has another model now")
    path = f.file("job.ddp")
    with open(path, "w") as out:
        out.write(text.replace("model net = Normalised(24)\n", net))
    return path


SHORT = ["--max_steps", "40", "--warmup_steps", "3", "--logging_steps", "1", "--eval_strategy", "steps", "--eval_steps", "9"]


def training():
    """Batch norm, dropout, counted buffers; several micro-batches, short ones, several epochs; clipping; what changes
    from step to step."""
    with Folder() as f:
        both = compile_both(f, JOB)
        same_runs(f, both, SHORT)
        same_runs(f, both, SHORT + ["--gradient_accumulation_steps", "3", "--max_grad_norm", "0.5"], ["urgent"])
        same_runs(f, both, SHORT[2:] + ["--max_steps", "9", "--gradient_accumulation_steps", "50", "--debug",
                                        "underflow_overflow"], ["lazy", "urgent"])


def optimizers():
    """Steps over ranges of several tensors, with groups of their own, and over whole tensors."""
    with Folder() as f:
        both = compile_both(f, job_with(f, GROUPS))
        same_runs(f, both, SHORT, ["lazy", "urgent"])


def average():
    with Folder() as f:
        both = compile_both(f, JOB, ["runtime.ema_decay=0.9"])
        same_runs(f, both, SHORT + ["--metric_for_best_model", "loss", "--load_best_model_at_end", "true",
                                    "--save_strategy", "best"])


def half():
    """A scaled loss: the first updates are skipped, and buffers go back."""
    with Folder() as f:
        both = compile_both(f, JOB, ["train.fp16=true", "scale=100"])
        same_runs(f, both, SHORT, ["urgent"])


def checkpoints():
    """A checkpoint of the one goes on on the other, and leaves what a straight run leaves."""
    names = ("model.safetensors", "checkpoint-39/optimizer.safetensors", "checkpoint-39/scheduler.safetensors")
    with Folder() as f:
        both = compile_both(f, JOB, ["runtime.ema_decay=0.9"])
        same_runs(f, both, SHORT, ["urgent"], names + ("checkpoint-39/ema.safetensors",))
        straight = f.file("out-cpu")
        for name, first, second in (("there", *both), ("back", both[1], both[0])):
            out = f.file(name)
            flags = ["--output_dir", out] + SHORT
            env = {"APART_STREAMS": "urgent"}
            r = run([first] + flags + ["--stop_at_update", "20"], env=env)
            expect(r.code != 0 and "stopped" in r.out, r.out)
            must([second] + flags + ["--resume_from_checkpoint", "true"], env=env)
            same_files(out, straight, names)


def faults():
    """A loss that is not finite is told as on the CPU: the same row, the same words."""
    with Folder() as f:
        both = compile_both(f, JOB)
        for flags in (["--learning_rate", "1e30"], ["--learning_rate", "1e30", "--max_grad_norm", "1"],
                      ["--learning_rate", "1e30", "--debug", "underflow_overflow"]):
            said = []
            for binary in both:
                r = run([binary, "--output_dir", f.file("out")] + SHORT + flags, env={"APART_STREAMS": "lazy"})
                expect(r.code != 0, f"{flags}: no error\n{r.out}")
                said.append(re.sub(r" on memory apart", "", r.out))
            ends = [s[s.rindex("update"):] for s in said]
            expect(ends[0] == ends[1], f"on the CPU:\n{said[0]}\non the device:\n{said[1]}")


def outputs():
    """Predictions and drawn characters."""
    with Folder() as f:
        both = compile_both(f, "examples/char_gpt/job.ddp")
        flags = ["--max_steps", "2", "--warmup_steps", "0", "--logging_steps", "1", "--eval_strategy", "no"]
        same_runs(f, both, flags, ["urgent"])
        texts = [must([b, "--output_dir", f.file("out-cpu"), "--generate", "20", "--prompt", "The"]).out for b in both]
        expect(texts[0] == texts[1], f"{texts[0]!r} and {texts[1]!r}")


def memory():
    """What the device has is asked before data are read; what it gave is told at the end."""
    with Folder() as f:
        _, apart = compile_both(f, JOB)
        r = run([apart, "--output_dir", f.file("none")] + SHORT, env={"APART_MIB": "0.1"})
        expect(r.code == 7 and "not enough memory on memory apart: the job takes" in r.out, f"exit {r.code}: {r.out}")
        _, log = f.train(apart, "out", 1, SHORT + ["--skip_memory_metrics", "false"])
        taken = log[-1]["init_mem_gpu_alloc_delta"]
        counted = dict(log[0]["memory_bytes"], data=0)
        both = sum(counted.values())  # of batches also those on the host
        expect(both - counted["batch"] <= taken <= both + 20 * 256, f"{taken} bytes taken, {counted} counted")
        expect(log[-1]["train_mem_gpu_alloc_delta"] < 10000, log[-1])


def time_line():
    """Every kernel of the plan with its time."""
    with Folder() as f:
        cpu, apart = compile_both(f, JOB)
        kernels = []
        for binary in (cpu, apart):
            trace = f.file("trace.json")
            must([binary, "--output_dir", f.file("out"), "--profile", trace] + SHORT, env={"APART_STREAMS": "lazy"})
            with open(trace) as file:
                kernels.append([e["name"] for e in json.load(file)["traceEvents"] if e.get("cat") == "kernel"])
        expect(kernels[0] and kernels[0] == kernels[1], f"{len(kernels[0])} kernels on the CPU, {len(kernels[1])} there")


def access():
    """The device of this test does close its memory: a program whose loop took the CPU for its device would end."""
    with Folder() as f:
        _, apart = compile_both(f, JOB)
        r = run([apart, "--output_dir", f.file("out"), "--max_steps", "1"], env={"APART_TOUCH": "1"})
        if r.code == 0:
            raise Failure("the host read the device's memory, and nothing happened")


if __name__ == "__main__":
    main(dict(training=training, optimizers=optimizers, average=average, half=half, checkpoints=checkpoints,
              faults=faults, outputs=outputs, memory=memory, time_line=time_line, access=access))
