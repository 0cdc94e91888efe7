#!/usr/bin/env python3
"""Programs for a GPU in the emulator (--target cuda:sim) against the same job on the CPU: losses equal to 1e-5 at the start
and to 1e-3 after 50 updates; the same bits in every order of streams and blocks, captured or not; checkpoints, outputs and
errors. What is emitted for cuda:sim is what nvcc compiles for a GPU."""
import json
import os
import re
import shutil
import struct
import sys

from apart import JOB, SHORT, job_with, numbers, same_files
from ddptest import DDPC, ROOT, Folder, expect, main, must, read_log, run
from predict import JOB as PREDICTS
from resume import GROUPS

sys.path.insert(0, os.path.join(ROOT, "tests", "parity"))
from losses import tensors  # noqa: E402

START, LATER = 1e-5, 1e-3


def compile_both(f, job, defines=()):
    return f.compile(job, "cpu", defines), f.compile(job, "gpu", defines, ["--target", "cuda:sim"])


def close(a, b, what, start=START, later=LATER):
    """Numbers of two logs, as they were logged."""
    expect(len(a) == len(b) and a, f"{what}: {len(a)} and {len(b)} numbers")
    for i, (x, y) in enumerate(zip(a, b)):
        if x is None or y is None:
            expect(x == y, f"{what} {i}: {x} and {y}")
            continue
        bound = start if i == 0 else later
        expect(abs(x - y) <= bound * max(abs(x), abs(y), 1e-6), f"{what} {i}: {x} in the emulator, {y} on the CPU")


def both(f, binaries, flags, name="out", limit=120, later=LATER, start=START):
    """Trains on both; returns the folders of the emulator and of the CPU."""
    cpu, gpu = binaries
    _, theirs = f.train(cpu, f"{name}-cpu", 1, flags, limit=limit)
    _, mine = f.train(gpu, f"{name}-gpu", 1, flags, limit=limit)
    for key in ("loss", "grad_norm", "eval_loss"):
        a, b = ([r[key] for r in log if key in r] for log in (mine, theirs))
        if a or b:
            close(a, b, key, start if key == "loss" else later, later)
    return f.file(f"{name}-gpu"), f.file(f"{name}-cpu")


def training():
    """Batch norm, dropout, counts, clipping, several micro-batches."""
    with Folder() as f:
        binaries = compile_both(f, JOB)
        both(f, binaries, SHORT)
        both(f, binaries, SHORT + ["--gradient_accumulation_steps", "3", "--max_grad_norm", "0.5"], "micro")


def orders():
    """Streams that run ahead or lag behind, blocks the other way round, launches in place of graphs, memory that the host
    must not touch: the same bits."""
    with Folder() as f:
        gpu = f.compile(JOB, "gpu", (), ["--target", "cuda:sim"])
        flags = SHORT + ["--gradient_accumulation_steps", "2"]
        ways = [dict(CUDASIM_STREAMS=s) for s in ("eager", "lazy", "urgent", "random:1", "random:2")]
        ways += [dict(CUDASIM_ORDER="reverse", CUDASIM_STREAMS="urgent"), dict(CUDASIM_ORDER="shuffle:1"),
                 dict(DDP_CUDA_GRAPHS="0")]
        for i, way in enumerate(ways):
            f.train(gpu, f"out{i}", 1, flags, env=way)
            expect(numbers(f.file(f"out{i}")) == numbers(f.file("out0")), f"{way}: another log")
            same_files(f.file(f"out{i}"), f.file("out0"), ["model.safetensors"])
        few = flags + ["--max_steps", "3"]
        del few[:2]
        f.train(gpu, "plain", 1, few)
        f.train(gpu, "protected", 1, few, env={"CUDASIM_PROTECT": "1"})
        same_files(f.file("protected"), f.file("plain"), ["model.safetensors"])


def captured():
    """The optimizer is replayed with the pass, after two updates of each kind: whether a norm is wanted, and in which of
    the two batches the samples lie."""
    flags = ["--max_steps", "30", "--logging_steps", "10", "--warmup_steps", "0"]
    with Folder() as f:
        gpu = f.compile("examples/digits/job.ddp", "gpu", (), ["--target", "cuda:sim"])
        for norm in ("0", "1"):
            r, _ = f.train(gpu, "out" + norm, 1, flags + ["--max_grad_norm", norm], env={"CUDASIM_STATS": "1"})
            steps = re.search(r"ddp_(?:adamw|sgd)_kernel +(\d+) launches +(\d+) enqueued", r.out)
            expect(steps and int(steps[1]) % 30 == 0 and int(steps[2]) <= 8 * int(steps[1]) // 30,
                   f"max_grad_norm {norm}: {steps and steps[0]}\n{r.out}")


def optimizers():
    """Ranges of several tensors and whole tensors, with groups of their own; every optimizer of the library, with rates,
    decay and arguments of its own, clipped: also each tensor by itself."""
    with Folder() as f:
        both(f, compile_both(f, job_with(f, GROUPS)), SHORT)
        mine, theirs = both(f, compile_both(f, os.path.join(ROOT, "tests", "e2e", "optimizers.ddp")), [], "all")
        norms = [r["grad_norm"] for r in read_log(theirs) if "grad_norm" in r]
        expect(max(norms) > 0.6, f"nothing is clipped: {norms}")
        mine, theirs = (tensors(os.path.join(x, "model.safetensors")) for x in (mine, theirs))
        for name in theirs:
            a, b = (struct.unpack(f"<{len(x[name]) // 4}f", x[name]) for x in (mine, theirs))
            far = max(abs(x - y) for x, y in zip(a, b))
            expect(far <= LATER * max(map(abs, b)), f"{name} differs by {far} of {max(map(abs, b))}")


def average():
    with Folder() as f:
        both(f, compile_both(f, JOB, ["runtime.ema_decay=0.9"]), SHORT + ["--metric_for_best_model", "loss",
                                                                          "--load_best_model_at_end", "true",
                                                                          "--save_strategy", "best"])


def half():
    """16 bits: sums are added in another order than on the CPU, which a rounded value shows earlier; a loss scale that is
    too large skips the same updates. A number of bf16 has 8 bits, one of fp16 11; a product that adds its bias rounds once
    where the CPU rounds twice."""
    with Folder() as f:
        for name, defines, start, bound in (("bf16", ["train.bf16=true"], 2**-8, 0.01),
                                            ("fp16", ["train.fp16=true", "scale=100"], 2**-11, LATER)):
            both(f, compile_both(f, JOB, defines), SHORT, name, later=bound, start=start)


# Numbers of cuBLASLt's epilogues.
GELU_BIAS, GELU_AUX_BIAS, DGELU, DGELU_BGRAD, BGRADA, BGRADB = 36, 164, 192, 208, 256, 512


def epilogues_of(f, gpu, name, flags, env, **how):
    """Trains, and tells which epilogues products had."""
    log = f.file(name + ".products")
    f.train(gpu, name, 1, flags, env=dict(env, CUBLASLTSIM_LOG=log), **how)
    with open(log) as lines:
        return {json.loads(line)["epilogue"] for line in lines}


def epilogues():
    """Products that do in one call what follows them, the same work in two calls (older GPUs), and whichever was measured
    to be faster: the CPU's losses and norms, also where gradients of biases are added over micro-batches. In 16 bits
    gradients of biases stay out of the results' type: with the weight's, which is f32."""
    gelus = {GELU_BIAS, GELU_AUX_BIAS, BGRADA, BGRADB}
    full, half = (START, LATER), (0.01, 0.02)
    with Folder() as f:
        for name, define, micro, bounds, wanted in (("f32", "max_grad_norm=1", "3", full, gelus | {DGELU_BGRAD}),
                                                    ("again", "gradient_checkpointing=true", "1", full, gelus | {DGELU_BGRAD}),
                                                    ("bf16", "bf16=true", "3", half, gelus | {DGELU})):
            cpu, gpu = compile_both(f, "tests/e2e/epilogues.ddp", ["train." + define])
            flags = ["--gradient_accumulation_steps", micro]
            _, theirs = f.train(cpu, name + "cpu", 1, flags)
            tune = {"DDP_CUDA_TUNE": f.file(name + "tune")}
            for way, env in dict(one={}, two={"CUDASIM_SM": "80"}, first=tune, tuned=tune).items():
                used = epilogues_of(f, gpu, name + way, flags, env) - {1, 4}  # none, bias
                expect(way in ("first", "tuned") or used == (wanted if way == "one" else set()),
                       f"{name} {way}: epilogues {used}")
                mine = read_log(f.file(name + way))
                for key in ("loss", "grad_norm", "eval_loss"):
                    a, b = ([r[key] for r in log if key in r] for log in (mine, theirs))
                    close(a, b, f"{name} {way} {key}", *(bounds if key == "loss" else bounds[1:] * 2))
            with open(f.file(name + "tune")) as lines:
                expect(any("epilogue apart = " in line for line in lines), "nothing was measured apart")


def tf32():
    """Products of factors with 10 bits: near those of float32, and not the same."""
    with Folder() as f:
        few = ["--max_steps", "8", "--warmup_steps", "0", "--logging_steps", "1", "--eval_strategy", "no"]
        cpu, gpu = f.compile(JOB, "cpu"), f.compile(JOB, "gpu", ["train.tf32=true"], ["--target", "cuda:sim"])
        theirs, mine = ([r["loss"] for r in f.train(b, n, 1, few)[1] if "loss" in r] for b, n in ((cpu, "a"), (gpu, "b")))
        close(mine, theirs, "loss", 1e-3, 1e-2)
        expect(abs(mine[0] - theirs[0]) > 1e-6 * theirs[0], f"{mine[0]} as in float32")
        emit = [DDPC, os.path.join(ROOT, "examples/mnist_cnn/job.ddp"), "--target", "cuda", "--emit=cu"]
        expect("#define DDP_TF32 1" in must(emit + ["-D", "train.tf32=true"]).out, "convolutions do not know of tf32")
        expect("DDP_TF32" not in must(emit).out, "tf32 that nobody asked for")


def memory():
    """The plan counts what a rank allocates on its GPU and page-locked on the host, to the byte: it runs with just that
    much, and not with less; and the log counts the same."""
    carries = ["train.gradient_accumulation_steps=2", "runtime.ema_decay=0.9"]
    flags = ["--max_steps", "1", "--warmup_steps", "0", "--eval_strategy", "no"]
    jobs = [(JOB, carries), ("examples/digits/job.ddp", ["train.bf16=true"])]
    jobs += [(f"examples/{n}/job.ddp", EXAMPLES[n][0]) for n in ("mnist_cnn", "char_gpt", "text_classifier")]
    with Folder() as f:
        for i, (job, defines) in enumerate(jobs):
            how = ["--target", "cuda:sim"]
            gpu = f.compile(job, f"gpu{i}", defines, how)
            plan = must([DDPC, "plan", os.path.join(ROOT, job), "--json"] + how + [w for d in defines for w in ("-D", d)])
            plan = json.loads(plan.out)["memory"]
            _, log = f.train(gpu, f"out{i}", 1, flags, env={"CUDASIM_MEMORY": str(plan["rank"])})
            counted = dict(log[0]["memory_bytes"], data=0)
            pinned = counted.pop("page-locked")
            expect(sum(counted.values()) == plan["rank"], f"{job}: {plan} planned, {counted} counted")
            expect(pinned == plan["gpu"]["pinned"], f"{job}: {plan['gpu']} planned, {pinned} page-locked")
            r = run([gpu, "--output_dir", f.file("less")] + flags, env={"CUDASIM_MEMORY": str(plan["rank"] - 256)})
            expect(r.code == 7, f"{job}: {plan['rank']} bytes planned, runs with less: exit {r.code}\n{r.out}")


def checkpoints():
    """Broken off and resumed: the bytes of a straight run; and a checkpoint of the CPU goes on here."""
    names = ["model.safetensors"] + [f"checkpoint-39/{n}.safetensors" for n in ("optimizer", "scheduler", "ema")]
    with Folder() as f:
        binaries = compile_both(f, JOB, ["runtime.ema_decay=0.9"])
        straight, cpu = both(f, binaries, SHORT)
        for name, first in (("again", binaries[1]), ("from-cpu", binaries[0])):
            out, env = f.file(name), {"CUDASIM_STREAMS": "urgent"}
            flags = ["--output_dir", out] + SHORT
            r = run([first] + flags + ["--stop_at_update", "20"], env=env)
            expect(r.code != 0 and "stopped" in r.out, r.out)
            must([binaries[1]] + flags + ["--resume_from_checkpoint", "true"], env=env)
            if name == "again":
                same_files(out, straight, names)
            else:
                close(*([r["loss"] for r in read_log(at) if "loss" in r] for at in (out, cpu)), "loss")


def outputs():
    """The same predictions; the same characters are drawn."""
    with Folder() as f:
        flags = ["--max_steps", "2", "--warmup_steps", "0", "--logging_steps", "1", "--eval_strategy", "no"]
        job = ["train.per_device_train_batch_size=2"]
        cpu, gpu = compile_both(f, "examples/char_gpt/job.ddp", job)
        f.train(cpu, "out", 1, flags)
        ask = ["--output_dir", f.file("out"), "--generate", "4", "--prompt", "The"]
        texts = [must([b] + ask, limit=120).out for b in (cpu, gpu)]
        expect(texts[0] == texts[1], f"{texts[0]!r} and {texts[1]!r}")
        with open(f.file("job.ddp"), "w") as out:
            out.write(PREDICTS % os.path.join(ROOT, "examples/digits/digits.csv.gz"))
        cpu, gpu = compile_both(f, f.file("job.ddp"))
        f.train(cpu, "model", 1, ["--max_steps", "20"])
        for name, binary in (("cpu", cpu), ("gpu", gpu)):
            must([binary, "--output_dir", f.file("model"), "--predict", f.file(name + ".st")])
        mine, theirs = tensors(f.file("gpu.st")), tensors(f.file("cpu.st"))
        expect(mine.keys() == theirs.keys() and mine, f"{mine.keys()} and {theirs.keys()}")
        for name in mine:
            if name in ("logits", "again", "halves"):
                floats = [struct.unpack(f"<{len(t[name]) // 4}f", t[name]) for t in (mine, theirs)]
                worst = max(abs(x - y) for x, y in zip(*floats))
                expect(worst < START * max(map(abs, floats[1])), f"{name}: a difference of {worst}")
            else:
                expect(mine[name] == theirs[name], f"{name} differs")


def faults():
    """A loss that is not finite, told as on the CPU; too little memory, before data are read."""
    with Folder() as f:
        binaries = compile_both(f, JOB)
        flags = ["--output_dir", f.file("out"), "--learning_rate", "1e30"] + SHORT
        said = [run([b] + flags) for b in binaries]
        ends = [r.out[r.out.rindex("error: update"):].replace("-nan", "nan") for r in said]
        expect(said[0].code == said[1].code != 0 and ends[0] == ends[1], f"{ends[0]}\nin the emulator:\n{ends[1]}")
        r = run([binaries[1]] + flags, env={"CUDASIM_MEMORY": str((32 << 20) + 300000)})  # cuBLASLt's workspace comes first
        expect(r.code == 7 and "not enough memory on cudasim" in r.out, f"exit {r.code}: {r.out}")
        r = run([binaries[1]] + flags, env={"CUDASIM_DEVICES": "0"})
        expect(r.code != 0 and re.search("error: .* no GPU", r.out) and r.seconds < 2, f"exit {r.code}: {r.out}")


def names():
    """Words of C++, of CUDA and of their headers as names of layers, parameters and fields."""
    with Folder() as f:
        both(f, compile_both(f, os.path.join(ROOT, "tests", "e2e", "names.ddp")), [])


# Every example: what its model needs in the emulator, so that a test takes less than a minute.
EXAMPLES = {
    "digits": ([], 60),
    "breast_cancer": ([], 60),
    "mnist": ([], 10),
    "mnist_cnn": (["train.per_device_train_batch_size=8"], 8),
    "char_gpt": (["train.per_device_train_batch_size=2"], 4),
    "text_classifier": (["train.per_device_train_batch_size=8"], 8),
    "custom_op": ([], 50),
    "cifar_resnet": (["width=4", "train.per_device_train_batch_size=4"], 4),
}


# In bf16, where kernels of GPUs read and write 16 bits, and those of CPUs have casts around them and f32 from one call to the
# next. Each of a few roundings is one of 2^-9, and training adds them up; a value that is read as another type or scaled twice
# is far off. PyTorch's own bf16 (autocast, CPU) and fp32 differ on mnist_cnn in grad_norm by 0.011 at the first and up to 0.03
# in the first ten updates, in loss by 3e-4.
HALF_START, HALF_LATER = 2e-4, 0.03


def example(name, half=False):
    def test():
        defines, updates = EXAMPLES[name]
        bounds = dict(start=HALF_START, later=HALF_LATER) if half else {}
        if half:
            defines = defines + ["train.bf16=true"]
        folder = os.path.join(ROOT, "examples", name)
        flags = ["--max_steps", str(updates), "--warmup_steps", "0", "--logging_steps", "1", "--eval_strategy", "no"]
        with Folder() as f:
            if name == "cifar_resnet":  # a copy, where a script can write its data
                folder = shutil.copytree(folder, f.file(name), ignore=shutil.ignore_patterns("cifar-10-batches-bin"))
                must([sys.executable, os.path.join(folder, "make_data.py")])
            both(f, compile_both(f, os.path.join(folder, "job.ddp"), defines), flags, **bounds)

    return test


TESTS = dict(training=training, orders=orders, memory=memory,
             captured=captured,
             optimizers=optimizers, average=average, half=half, epilogues=epilogues,
             tf32=tf32, checkpoints=checkpoints, outputs=outputs, faults=faults, names=names,
             **{n: example(n) for n in EXAMPLES})
TESTS |= {n + "_half": example(n, True) for n in ("mnist_cnn", "char_gpt", "text_classifier")}
if __name__ == "__main__":
    main(TESTS)
