"""Gradients in 16 bits on the wire (`comm_hook`, `allreduce_dtype`) against PyTorch's bf16_compress_hook and
fp16_compress_hook on DistributedDataParallel over gloo, run here with 2 and 3 ranks.

The loss makes a rank's gradient its own sample, and one step of SGD with rate 1 from zero leaves minus the reduced
gradient in the file of weights. With 2 ranks a sum has one order: the same bits over shared memory and over Gloo.
With 3 ranks shared memory adds in the order of the ranks: the same bits as the hook's own operations in torch, in that
order; PyTorch's ring starts each third with another rank, so that it is compared within roundings of the 16-bit type.
Needs torch. DDP_BUILD names the build folder."""

import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("DDP_BUILD", ROOT / "build"))
N = 3001
# type, the bits of float32 that it drops, the hook, names of the setting
TYPES = {"bf16": (torch.bfloat16, 16, default_hooks.bf16_compress_hook, ["comm_hook=bf16_compress", "allreduce_dtype=bf16",
                                                                       "allreduce_dtype=bfloat16"]),
         "fp16": (torch.float16, 13, default_hooks.fp16_compress_hook, ["comm_hook=fp16_compress", "allreduce_dtype=fp16",
                                                                      "allreduce_dtype=float16"])}
JOB = f"""edition 1
dataset d {{
  let rows = csv("data.csv")
  field g: float[{N}]
  split train = rows
}}
module Net() {{
  w: param [{N}] = zeros()
  forward(g: [_, {N}]) -> [] {{
    return sum(g * w)
  }}
}}
model net = Net()
objective {{
  loss = net(d.g)
}}
train {{
  output_dir = "out"
  max_steps = 1
  per_device_train_batch_size = 1
  learning_rate = 1.0
  lr_scheduler_type = constant
  optim = sgd
  max_grad_norm = 0
  save_strategy = no
  train_sampling_strategy = sequential
}}
runtime {{
  on_nan = ignore
}}
"""


def samples(world, dropped):
    """Ordinary numbers, large ones that overflow float16, small ones that are denormal in it. None lies near the
    middle between two numbers of the type: with 3 ranks the gradient comes as (g / 3) * 3, a rounding away from g."""
    torch.manual_seed(world)
    g = torch.randn(world, N) * torch.tensor(10.0) ** torch.randint(-3, 3, (world, N))
    g[:, 0] = 60000.0
    g[:, 1] = 1e5
    g[0, 2], g[1, 2] = 7e4, -7e4
    g[:, 3:200] *= 1e-6
    low = g.view(torch.int32) & ((1 << dropped) - 1)
    near = (low - (1 << (dropped - 1))).abs() < 16
    g.view(torch.int32)[near] += 64
    return g


def ddp(rank, world, g, name, store, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    net = torch.nn.Module()
    net.w = torch.nn.Parameter(torch.zeros(N))
    net.forward = lambda x: (x * net.w).sum()
    model = torch.nn.parallel.DistributedDataParallel(net)
    model.register_comm_hook(None, TYPES[name][2])
    model(g[rank]).backward()
    if rank == 0:
        torch.save(net.w.grad, out)
    dist.barrier()
    os._exit(0)


def in_order(g, dtype):
    """What the hook does, and the sum in the order of the ranks."""
    parts = [x.to(dtype).div_(len(g)) for x in g]
    total = parts[0]
    for p in parts[1:]:
        total = total + p
    return total.float(), sum(p.float().abs() for p in parts)


def ours(folder, world, setting, gloo):
    key, value = setting.split("=")
    command = [BUILD / "ddpc", "job.ddp", "-o", "train"]
    if not (folder / "train").exists():
        subprocess.run(command, cwd=folder, check=True, timeout=200)
    command = ["./train", "--nproc-per-node", str(world), f"--{key}", value, "--threads", "1"]
    done = subprocess.run(command + (["--intra_node", "backend"] if gloo else []), cwd=folder, capture_output=True,
                          text=True, timeout=100)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return -load_file(folder / "out/model.safetensors")["w"]


def differ(a, b):
    """How many have other bits; any NaN is a NaN, and 0 - g leaves no sign of a zero."""
    a, b = a + 0.0, b + 0.0
    return int(((a.view(torch.int32) != b.view(torch.int32)) & ~(a.isnan() & b.isnan())).sum())


def check(folder, world, name, failures):
    dtype, dropped, _, settings = TYPES[name]
    g = samples(world, dropped)
    with open(folder / "data.csv", "w") as f:
        for row in g:
            f.write(",".join(repr(float(x)) for x in row) + "\n")
    store = folder / f"store-{world}-{name}"
    mp.spawn(ddp, (world, g, name, store, folder / "theirs.pt"), world)
    theirs = torch.load(folder / "theirs.pt")
    want, size = in_order(g, dtype)
    shared, gloo = ours(folder, world, settings[0], False), ours(folder, world, settings[0], True)
    if differ(shared, want):
        failures.append(f"{name}, {world} ranks, shared memory: {differ(shared, want)} of {N} differ from the hook")
    for path, got in (("shared memory", shared), ("Gloo", gloo)):
        if world == 2 and differ(got, theirs):
            failures.append(f"{name}, 2 ranks, {path}: {differ(got, theirs)} of {N} differ from DDP with the hook")
        # on both sides a rounding of each addition, of at most the sum of the magnitudes, or a step of a denormal
        off = (got - theirs).abs() - 2 * (world - 1) * (size * 2.0 ** (dropped - 24) + torch.finfo(dtype).smallest_normal * 1e-3)
        finite = theirs.isfinite() & got.isfinite()
        if not bool((finite == theirs.isfinite()).all()) or bool((off[finite] > 0).any()):
            k = int(torch.where(finite, off, torch.zeros(())).argmax())
            failures.append(f"{name}, {world} ranks, {path}: farther from DDP with the hook than its roundings, as "
                            f"{float(got[k])!r} and {float(theirs[k])!r} of {g[:, k].tolist()}")
    if not bool((shared.to(dtype).float()[shared.isfinite()] == shared[shared.isfinite()]).all()):
        failures.append(f"{name}: gradients that are no numbers of the type")
    for other in settings[1:] if world == 2 else []:
        if differ(ours(folder, world, other, False), shared):
            failures.append(f"{other}: other bits than {settings[0]}")


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "job.ddp").write_text(JOB)
        for world in (2, 3):
            for name in TYPES:
                check(folder, world, name, failures)
    if failures:
        sys.exit("\n".join(failures))
    print(f"bf16 and fp16 on the wire agree with PyTorch {torch.__version__}'s hooks")


if __name__ == "__main__":
    main()
