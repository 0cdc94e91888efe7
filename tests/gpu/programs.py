#!/usr/bin/env python3
"""Programs for GPUs, from the job to the binary.

    programs.py nvcc NAME      compiles without a warning for three architectures, and links with CUDA's libraries
    programs.py tools          what ddpc says and does about GPUs
    programs.py epilogues      which products do what follows them in the same call
    programs.py wide           kernels over more than 2^31 elements count in 64 bits, others in 32

What they compute in the emulator is e2e/emulated.py's."""
import collections
import os
import re
import shutil
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import DDPC, ROOT, Folder, expect, main, must, run  # noqa: E402

NVCC = os.environ.get("DDP_NVCC", "nvcc")
STRICT = {"DDPC_CC": "cc -Wall -Wextra -Werror",
          "DDPC_NVCC": f"{NVCC} -Werror all-warnings -Xcompiler -Wall,-Wextra"}
ARCHITECTURES = "cuda:sm_80,sm_90,sm_100"


class Job:
    """A job of the repository, and a script or function that makes its data."""

    def __init__(self, path, make=None, flags=()):
        self.path, self.make, self.flags = path, make, list(flags)


def tokens(folder):
    """Token files as llm.c writes them."""
    os.makedirs(os.path.join(folder, "data"))
    for name, n in ("fineweb_train_0.bin", 5000), ("fineweb_val_0.bin", 3000):
        with open(os.path.join(folder, "data", name), "wb") as f:
            f.write(struct.pack("<256i", 20240520, 1, n, *([0] * 253)))
            f.write(struct.pack(f"<{n}H", *[(i * i * 7 + i) % 50257 for i in range(n)]))


def script(folder):
    must([sys.executable, os.path.join(folder, "make_data.py")], limit=120)


JOBS = {name: Job(f"examples/{name}") for name in
        ("digits", "breast_cancer", "mnist", "mnist_cnn", "char_gpt", "text_classifier", "custom_op")}
JOBS["cifar_resnet"] = Job("examples/cifar_resnet", make=script)
JOBS["gpt2"] = Job("tests/language/examples/gpt2_124m.ddp", make=tokens,
                   flags=["-D", "train.report_to=none"])
JOBS["names"] = Job("tests/e2e/names.ddp")


def prepared(f, name):
    """The path of the job, in a copy of its folder where a script can write."""
    job = JOBS[name]
    if job.path.endswith(".ddp") and not job.make:
        return os.path.join(ROOT, job.path)
    if job.path.endswith(".ddp"):
        path = shutil.copy(os.path.join(ROOT, job.path), f.file("job.ddp"))
    else:
        shutil.copytree(os.path.join(ROOT, "examples"), f.file("examples"),
                        ignore=shutil.ignore_patterns("cifar-10-batches-bin", "runs"))
        path = f.file(f"{job.path}/job.ddp")
    if job.make:
        job.make(os.path.dirname(path))
    return path


def compiled(job, target, out, flags):
    r = must([DDPC, job, "--target", target, "-o", out, *flags], limit=300, env=STRICT)
    expect("warning:" not in r.out, f"warnings of a compiler:\n{r.out}")
    return out


def nvcc(name):
    with Folder() as f:
        binary = compiled(prepared(f, name), ARCHITECTURES, f.file("train"), JOBS[name].flags)
        said = must([binary, "--version"]).out
        expect("for cuda:sm_80,sm_90,sm_100" in said, f"made for what? {said}")


def tools():
    with Folder() as f:
        job = prepared(f, "digits")
        out = f.file("train")
        r = run([DDPC, job, "--target", "cuda:sm_90", "-o", out], env={"DDPC_NVCC": "no-such-nvcc"})
        expect(r.code == 2 and "cannot run the CUDA compiler `no-such-nvcc`" in r.out and "--target cuda:sim" in r.out, r.out)
        r = run([DDPC, job, "--target", "cuda:sim", "-o", out], env={"DDPC_CXX": "no-such-c++"})
        expect(r.code == 2 and "cannot run the C++ compiler `no-such-c++`" in r.out, r.out)
        expect(os.listdir(f.path) == ["examples"], f"a failed run leaves files: {os.listdir(f.path)}")
        must([DDPC, job, "--target", "cuda:sim", "-o", out, "--keep"])
        expect(sorted(os.listdir(f.path)) == ["examples", "train", "train.c", "train.cu"], f"{os.listdir(f.path)}")
        with open(f.file("train.cu")) as text:
            expect("extern \"C\" void forward_backward(DdpStep *step)" in text.read(), "no forward_backward() in train.cu")


# The bias of c_proj is added by the nest of the residual stream; that of c_attn has an epilogue where attention reads 16
# bits, so biases alone are not counted. The gelu of char_gpt is the exact one, which is a kernel, and its layers have no
# biases.
GELU = {"train gelu_aux_bias": 12, "eval gelu_bias": 12}
EPILOGUES = (("mnist", [], {}), ("char_gpt", [], {}), ("gpt2", [], GELU | {"train dgelu": 12, "train bgrada": 12}),
             ("gpt2", ["-D", "train.bf16=false"], GELU | {"train dgelu_bgrad": 12}))


def epilogues():
    cpu = ["-D", "train.tf32=none", "-D", "train.ddp_backend=none"]
    for target, own in ("cuda:sim", []), ("cpu", cpu):
        for name, flags, wanted in EPILOGUES:
            found, program = collections.Counter(), ""
            with Folder() as f:
                dump = must([DDPC, prepared(f, name), "--target", target, "--dump=nests", *JOBS[name].flags, *flags, *own])
            for words in map(str.split, dump.out.splitlines()):
                program = words[1] if words[:1] == ["program"] else program
                if "epilogue" in words and words[-1] != "bias":
                    found[f"{program} {words[-1]}"] += 1
            expect(found == (wanted if target != "cpu" else {}), f"{name} {flags} for {target}: {dict(found)}")


def kernels(text):
    """The texts of the kernels of a .cu file."""
    return re.findall(r"^static __global__ .*?^}", text, re.S | re.M)


def wide():
    """Row 47: an index of 32 bits would overflow, silently. On a GPU: part `large` of tools/gpu-check."""
    with Folder() as f:
        job = shutil.copy(os.path.join(ROOT, "tests/reports/large.ddp"), f.file("large.ddp"))
        with open(f.file("train.csv"), "w") as data:
            data.write("0\n" * 4)
        texts = {path: must([DDPC, path, "--target", "cuda:sm_90", "--emit=cu", "-o", "-"]).out
                 for path in (job, prepared(f, "digits"))}
        large, digits = texts.values()
        over = [k for k in kernels(large) if "2200000000" in k]
        expect(len(over) >= 3, f"{len(over)} kernels over the buffer")
        for k in over:
            expect("int64_t" in k and not re.search(r"\bint (at|i|first|team) ", k), f"32 bits:\n{k}")
        expect("ddp_blocks(INT64_C(2200000000)" in large, "a number of blocks is cut to 32 bits")
        expect(all(re.search(r"\bint (at|i|first|team) ", k) for k in kernels(digits) if "blockIdx" in k),
               "64 bits where 32 do")


if __name__ == "__main__":
    if sys.argv[1] != "nvcc":
        main({"tools": tools, "epilogues": epilogues, "wide": wide})
    sys.argv.remove("nvcc")
    main({name: lambda name=name: nvcc(name) for name in JOBS})
