#!/usr/bin/env python3
"""What the .cu of a job says, as a text.

    cuda_text.py DDPC ROOT"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

KERNEL = re.compile(r"^static __global__ void __launch_bounds__\((\d+)\)(.*?)^}\n", re.S | re.M)


def emit(job, *flags):
    r = subprocess.run([DDPC, os.path.join(ROOT, job), "--target", "cuda:sm_90", "--emit=cu", *flags],
                       capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"FAIL {job}: {r.stderr}")
    return r.stdout


def expect(good, message):
    if not good:
        sys.exit(f"FAIL {message}")


def powers_once():
    """What only the step decides, one thread of a block computes: each thread has called pow() in double."""
    kernels, seen = KERNEL.findall(emit("tests/e2e/optimizers.ddp")), 0
    expect(kernels, "no kernels")
    for threads, text in kernels:
        for line in text.splitlines():
            if " pow(" not in line or int(threads) <= 32:
                continue
            seen += 1
            expect(line.startswith("    "), f"not by one thread alone:\n{text}")
    expect(seen >= 4, "no powers of the step in the optimizers")


def gpt2():
    """The job of docs/performance.md in 16 bits, with a few tokens for data."""
    with tempfile.TemporaryDirectory() as folder:
        job = shutil.copy(os.path.join(ROOT, "tests/language/examples/gpt2_124m.ddp"), os.path.join(folder, "job.ddp"))
        os.makedirs(os.path.join(folder, "data"))
        for name, n in ("fineweb_train_0.bin", 5000), ("fineweb_val_0.bin", 3000):
            with open(os.path.join(folder, "data", name), "wb") as f:
                f.write(struct.pack("<256i", 20240520, 1, n, *([0] * 253)) + bytes(2 * n))
        return emit(job, "-D", "train.report_to=none")


def reads_well():
    """GPT-2 as one who knows llm.c would like to read it."""
    text = gpt2()
    lines = text.splitlines()
    long = [line for line in lines if len(line) > 100]
    expect(len(long) <= len(lines) / 1000, "long lines:\n" + "\n".join(long))
    words = set(re.findall(r"\b[a-z]\w*", re.sub(r"/\*.*?\*/", "", text, flags=re.S)))
    expect(all(len(w) <= 40 for w in words), f"long names: {[w for w in words if len(w) > 40]}")
    expect(not [w for w in words if w.startswith("transformer")], "names with the module that everything is in")
    # Forward and backward apart, from the first layer to the gradient of the embedding; the layer in front of its calls.
    step = text[text.index('extern "C" void forward_backward('):text.index('extern "C" void evaluate(')]
    forward, backward = step.split("/* ---------- backward ---------- */")
    order = ["/* net.transformer.h.0.attn.c_attn.linear, job.ddp:", "/* net.transformer.h.0.attn.attention, job.ddp:",
             "/* net.transformer.h.0.mlp.c_fc.linear, job.ddp:", "/* net.transformer.h.11.attn.attention, job.ddp:",
             "/* net.lm_head.linear, job.ddp:", "/* cross_entropy"]
    places = [forward.find(x) for x in order]
    expect(-1 not in places and places == sorted(places), f"forward pass: {places}")
    expect("ddp_grad_ready" not in forward and "d_h_11" not in forward[forward.index(order[0]):forward.index(order[4])],
           "gradients in the forward pass")
    places = [backward.find(f"ddp_grad_ready(step, P_{x});") for x in
              ("ln_f_weight", "h_11_mlp_c_proj_weight", "h_11_attn_c_attn_weight", "h_0_ln_1_weight", "wte_weight")]
    expect(-1 not in places and places == sorted(places), f"gradients: {places}")
    # A kernel says what it reads and writes, with shapes, and calls them by the names of the job.
    expect(re.search(r"/\* job.ddp:\d+: linear_bf16 \[2304, 768\] from weight \[2304, 768\] \*/\n"
                     r"static __global__ void __launch_bounds__\(256\) linear_bf16\w*\(", text), "no comment of a kernel")
    # Nothing twice, nothing for nothing.
    for noise in (r"\(float\)ddp_round", r"store_bf16\(ddp_round", r"[<>]=? \(\d+ \* B\)", r"->\w+ \+ 0;", r"__nv_bfloat16",
                  r"\(double\)rates->rate", r"\(int\)\(\(int64_t\)"):
        found = re.search(f".*{noise}.*", text)
        expect(not found, f"`{noise}`: {found and found[0]}")


def indices():
    """A job with values of more than 2^31 elements counts in 64 bits where these are walked over, and only there."""
    narrow, wide = (emit("examples/char_gpt/job.ddp", *flags)
                    for flags in ([], ["-D", "train.per_device_train_batch_size=600000"]))
    expect("int64_t first" not in narrow and "int64_t row" not in narrow, "64 bits without need")
    kernels = dict((re.search(r"\w+(?=\()", text)[0], text) for _, text in KERNEL.findall(wide))
    step = re.search(r"^extern \"C\" void forward_backward\(.*?^}", wide, re.S | re.M)[0]
    launched = re.findall(r"DDP_LAUNCH\((\w+), ddp_blocks\(\(?(\d+) \* B", step)
    expect(len(launched) > 10, "few kernels over the batch")
    for name, _ in launched:
        text = kernels[name]
        big = re.search(r"\bi \* (32768|24576|8192|4160)\b", text)  # numbers of a sample
        expect(not big or not re.search(r"const int (first|at|row|i)\b", text), f"32 bits for {name}:\n{text}")


def once():
    """Rows stay in registers: in char_gpt's layer norms each activation is read once, sums over rows are never added up in
    memory, and a store that only the same kernel would read is gone. bf16 in 16 bytes at once. Enough blocks."""
    text = emit("examples/char_gpt/job.ddp", "-D", "train.bf16=true", "-D", "train.per_device_train_batch_size=256")
    norms = [t for _, t in KERNEL.findall(text) if t.count("ddp_warp_sum") == 2]
    expect(len(norms) >= 3, f"{len(norms)} layer norms")
    for t in norms:
        loads = re.findall(r"ddp_vector<\d+>\((\w+) \+ (?:i|row) \*", t)
        expect(len(loads) == len(set(loads)), f"a row is read twice:\n{t}")
        expect(not re.search(r"part\d+\[\w+( \+ v)?\] \+=", t), f"sums in memory:\n{t}")
    expect("ddp_vector<8>" in text, "no 16 bytes of bf16 at once")
    few = [g for g in re.findall(r"DDP_LAUNCH\(d_\w+layer_norm\w*, (\d+), \d+", text) if int(g) < 132]
    expect(not few, f"layer norms with blocks for a part of a GPU only: {few}")


if __name__ == "__main__":
    DDPC, ROOT = sys.argv[1:]
    powers_once()
    reads_well()
    indices()
    once()
