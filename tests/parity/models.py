#!/usr/bin/env python3
"""The models of models/*.ddp as whole jobs: 100 updates on 2 ranks against PyTorch DDP with globally counted
items, relative 1e-5 over the first 10 updates and 1e-3 in the mean of the last 10; rank 0's buffers too; and
the initial values, bit for bit for the same seed.

    models.py NAME ACCUMULATE                 against fixtures/models.json: PyTorch started from ddpc's weights
    models.py NAME ACCUMULATE --live          against PyTorch, run now; without accumulation PyTorch starts
                                              from ddpc's file, with it ddpc from PyTorch's
    models.py --write [NAME...]               writes the fixture
    models.py --spread NAME                   PyTorch against itself with other numbers of threads
"""
import hashlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import model_data  # noqa: E402
from ddptest import Failure, Folder, ROOT, expect, losses, must  # noqa: E402
from losses import tensors  # noqa: E402

FIXTURE = os.path.join(HERE, "fixtures", "models.json")
STEPS = 100
NAMES = ["resnet18", "gpt2", "bert", "llama", "vit", "unet", "lstm_tagger"]
BUFFERS = ["resnet18", "unet"]
ACCUMULATIONS = [1, 3]


def digests(path):
    return {k: hashlib.sha256(v).hexdigest() for k, v in sorted(tensors(path).items())}


def compile_job(f, name):
    """The program beside its data; the path of its data folder."""
    os.makedirs(f.file("data"), exist_ok=True)
    model_data.write(f.file("data"))
    data = f.file("data")
    return f.compile(f"tests/parity/models/{name}.ddp", name, [f"runtime.data_root={data}"]), data


def initial(f, binary):
    must([binary, "--init-only", "--output_dir", f.file("initial")])
    return f.file("initial")


def torch_run(name, accumulate, **how):
    import torch_ddp
    return torch_ddp.run(name, accumulate, 2, STEPS, **how)


def ours(f, binary, accumulate, steps, flags=()):
    flags = ["--max_steps", str(steps), "--logging_steps", "1",
             "--gradient_accumulation_steps", str(accumulate), *flags]
    _, log = f.train(binary, f"run{steps}", 2, flags, limit=300)
    return losses(log), tensors(f.file(f"run{steps}/model.safetensors"))


def compare_losses(what, got, want):
    expect(len(got) == len(want), f"{len(got)} losses instead of {len(want)}")
    first = max(abs(a - b) / abs(b) for a, b in zip(got[:10], want[:10]))
    last = abs(sum(got[-10:]) - sum(want[-10:])) / abs(sum(want[-10:]))
    print(f"{what}: {want[0]:.4f} to {want[-1]:.4f}; first 10 updates {first:.2e}, mean of the last 10 {last:.2e}")
    expect(first <= 1e-5, f"first 10 updates differ by {first:.3g}: {got[:10]} and {want[:10]}")
    expect(last <= 1e-3, f"mean of the last 10 updates differs by {last:.3g}")


def check_fixture(name, accumulate):
    with open(FIXTURE) as f:
        want = json.load(f)[name]
    with Folder() as f:
        binary, data = compile_job(f, name)
        start = digests(os.path.join(initial(f, binary), "model.safetensors"))
        expect(start == want["initial_sha256"], "other initial weights than those that PyTorch started from")
        got, _ = ours(f, binary, accumulate, STEPS)
    compare_losses(f"{name}, accumulation {accumulate}", got, want["losses"][str(accumulate)])


def check_live(name, accumulate):
    import torch_ddp
    with Folder() as f:
        binary, data = compile_job(f, name)
        start, flags = initial(f, binary), []
        net = torch_ddp.own_net(torch_ddp.job_named(name, data))
        torch_ddp.save(net, f.file("own"))
        a, b = (digests(os.path.join(p, "model.safetensors")) for p in (start, f.file("own")))
        wrong = [k for k in {**a, **b} if a.get(k) != b.get(k)]
        expect(not wrong, f"initial values have other bits than PyTorch's in {', '.join(wrong)}")
        if accumulate > 1:
            start, flags = None, ["--init_from", f.file("own/model.safetensors")]
        want = torch_run(name, accumulate, data=data, start=start)
        got, _ = ours(f, binary, accumulate, STEPS, flags)
        compare_losses(f"{name}, accumulation {accumulate}", got, want["losses"])
        if name in BUFFERS:
            check_buffers(f, binary, accumulate, flags, want["buffers"])


def check_buffers(f, binary, accumulate, flags, want):
    """After 10 updates; the learning rate does not depend on their number in the jobs that have buffers."""
    import torch
    _, weights = ours(f, binary, accumulate, 10, flags)
    worst = 0.0
    for name, theirs in want.items():
        mine = torch.frombuffer(bytearray(weights[name]), dtype=theirs.dtype).reshape(theirs.shape)
        if theirs.dtype == torch.int64:
            expect(bool((mine == theirs).all()), f"{name} is {mine}, PyTorch has {theirs}")
            continue
        worst = max(worst, ((mine - theirs).norm() / theirs.norm()).item())
    print(f"{len(want)} buffers after 10 updates: {worst:.2e}")
    expect(worst <= 1e-5, f"buffers of rank 0 differ by {worst:.3g}")


def write(names):
    out = {}
    if os.path.exists(FIXTURE):
        with open(FIXTURE) as f:
            out = json.load(f)
    for name in names or NAMES:
        with Folder() as f:
            binary, data = compile_job(f, name)
            start = initial(f, binary)
            out[name] = dict(initial_sha256=digests(os.path.join(start, "model.safetensors")), losses={
                a: torch_run(name, a, data=data, start=start)["losses"] for a in ACCUMULATIONS})
    with open(FIXTURE, "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


def spread(name):
    with Folder() as f:
        model_data.write(f.path)
        one, two = (torch_run(name, 1, data=f.path, threads=n)["losses"] for n in (1, 2))
        compare_losses(f"{name} with 1 and with 2 threads", one, two)


if __name__ == "__main__":
    try:
        if sys.argv[1] == "--write":
            write(sys.argv[2:])
        elif sys.argv[1] == "--spread":
            spread(sys.argv[2])
        else:
            (check_live if "--live" in sys.argv else check_fixture)(sys.argv[1], int(sys.argv[2]))
    except Failure as e:
        sys.exit(f"FAIL {e}")
