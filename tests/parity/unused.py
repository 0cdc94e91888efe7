#!/usr/bin/env python3
"""Parameters without a gradient (ddp_find_unused_parameters) and parameters with a gradient of zeros (masked routing), on
2 ranks with AdamW, decay and clipping, against PyTorch DDP with find_unused_parameters. And bug report 50: all
combinations of find_unused, gradient checkpointing and accumulation give the same numbers.

    unused.py                    against fixtures/unused.json
    unused.py --live             against PyTorch, run now
    unused.py --write-fixtures   makes fixtures/unused.json
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "reports"))
from ddptest import DDPC, ROOT, Folder, collectives, expect, main, must  # noqa: E402
from matrix import near  # noqa: E402
from reports import tensors  # noqa: E402

FIXTURE = os.path.join(HERE, "fixtures", "unused.json")
JOB = "tests/parity/unused.ddp"
KINDS, STEPS, SAMPLES = ("unused", "routed"), 5, 24


def table():
    """(x, route, y): expert 1 only in odd samples, expert 2 never."""
    return [([((7 * k + 3 * j) % 11) / 5 - 1 for j in range(3)], k % 2, (k + k // 3) % 3) for k in range(SAMPLES)]


def write_data(f):
    with open(f.file("rows.csv"), "w") as out:
        for x, route, y in table():
            out.write(",".join(map(str, [*x, route, y])) + "\n")


def compile_job(f, name, *defines):
    return f.compile(JOB, name, [f"runtime.data_root={f.path}", *defines])


def start_of(f, binary, kind):
    must([binary, "--init-only", "--output_dir", f.file(f"initial-{kind}")])
    return f.file(f"initial-{kind}/model.safetensors")


# ---------- PyTorch

def nets():
    import torch.nn as nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

        def forward(self, x):
            return x + self.fc2(F.gelu(self.fc1(x)))

    class Unused(nn.Module):
        def __init__(self, d):
            import torch
            super().__init__()
            self.first, self._spare = nn.Linear(3, d), nn.Linear(d, d)
            self.blocks = nn.ModuleList(Block(d) for _ in range(2))
            self._scale, self.head = nn.Parameter(torch.ones(d)), nn.Linear(d, 3)

        def forward(self, x, route):
            x = self.first(x)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    class Routed(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.first, self.head = nn.Linear(3, d), nn.Linear(d, 3)
            self.experts = nn.ModuleList(nn.Linear(d, d) for _ in range(3))

        def forward(self, x, route):
            import torch
            h = self.first(x)
            y = h
            for i, expert in enumerate(self.experts):
                y = y + torch.where((route == i)[:, None], expert(h), 0.0)
            return self.head(torch.tanh(y))

    return dict(unused=Unused, routed=Routed)


def rank(number, world, kind, accumulate, start, store, out):
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from safetensors.torch import load_file
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DistributedSampler
    from torch_ddp import SEED, groups
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=world)
    net = nets()[kind](8)
    net.load_state_dict(load_file(start))
    model = DDP(net, find_unused_parameters=True)
    adamw = torch.optim.AdamW(groups(net, 0.1), 0.05, fused=True)
    x, route, y = (torch.tensor(c) for c in zip(*table()))
    sampler = DistributedSampler(range(SAMPLES), world, number, seed=SEED)
    losses, norms, epoch = [], [], 0
    while len(losses) < STEPS:
        sampler.set_epoch(epoch)
        order = list(sampler)
        micro = [order[i:i + 8 // accumulate] for i in range(0, len(order), 8 // accumulate)]
        for i in range(0, len(micro), accumulate):
            window = micro[i:i + accumulate]
            samples = world * sum(len(m) for m in window)
            part = torch.zeros(())
            for k, m in enumerate(window):
                with model.no_sync() if k + 1 < len(window) else torch.enable_grad():
                    loss = F.cross_entropy(model(x[m], route[m]), y[m], reduction="sum") / samples
                    (loss * world).backward()
                part += loss.detach()
            if len(losses) == STEPS:
                break
            norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5).item())
            adamw.step()
            adamw.zero_grad()
            dist.all_reduce(part)
            losses.append(part.item())
        epoch += 1
    if number == 0:
        with open(out, "w") as f:
            json.dump(dict(losses=losses, norms=norms, after={k: v.flatten().tolist() for k, v in net.state_dict().items()}),
                      f)
    sys.stdout.flush()
    dist.barrier()
    os._exit(0)


def torch_says(kind, accumulate, start):
    import torch.multiprocessing as mp
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        mp.spawn(rank, (2, kind, accumulate, start, os.path.join(folder, "store"), out), 2)
        with open(out) as f:
            return json.load(f)


# ---------- ddpc

def trained(f, binary, accumulate):
    _, log = f.train(binary, "out", 2, ["--gradient_accumulation_steps", str(accumulate), "--profile", f.file("trace.json")])
    sent = collectives(f.file("trace.json"))
    for number in range(2):  # one bucket, whatever the micro-batches
        expect(sent.get((number, "bucket 0")) == STEPS, f"rank {number}: {sent}")
    return dict(sent=sent, losses=[r["loss"] for r in log if "loss" in r], norms=[r["grad_norm"] for r in log if "grad_norm" in r],
                after=tensors(f.file("out/model.safetensors"))[0])


def compare(kind, accumulate, expected):
    with Folder() as f:
        write_data(f)
        binary = compile_job(f, kind, f"kind={kind}", "train.ddp_find_unused_parameters=true",
                             f"train.per_device_train_batch_size={8 // accumulate}")
        start = start_of(f, binary, kind)
        want, got, initial = expected(kind, accumulate, start), trained(f, binary, accumulate), tensors(start)[0]
    for key in ("losses", "norms"):
        near(f"{kind}, accumulation {accumulate}: {key}", got[key], want[key])
    expect(set(got["after"]) == set(want["after"]), f"{kind}: other names")
    for name, values in want["after"].items():
        # AdamW divides by the root of small squares, so that rounding of gradients counts.
        near(f"{kind}, accumulation {accumulate}: {name}", got["after"][name], values, 1e-5)
        # No gradient: not even decay. A gradient of zeros: decay alone, which biases have none of.
        left = kind == "unused" and name.startswith("_") or name == "experts.2.bias"
        expect((got["after"][name] == initial[name]) == left, f"{kind}: {name} was {'moved' if left else 'not moved'}")


def row_50_combinations():
    """find_unused x checkpointing x accumulation: the same bits with the same micro-batches, else the same numbers."""
    ways = list(itertools.product((False, True), (False, True), (1, 2)))
    with Folder() as f:
        write_data(f)
        first, found = None, {}
        for find, again, accumulate in ways:
            defines = ["kind=plain", f"train.ddp_find_unused_parameters={str(find).lower()}",
                       f"train.gradient_checkpointing={str(again).lower()}",
                       f"train.per_device_train_batch_size={8 // accumulate}"]
            got = trained(f, compile_job(f, "plain", *defines), accumulate)
            args = [DDPC, "plan", "--json", os.path.join(ROOT, JOB), "-D", f"runtime.data_root={f.path}"]
            plan = json.loads(subprocess.run(args + [x for d in defines for x in ("-D", d)], stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL, check=True, timeout=60).stdout)
            buckets = [(b["parameters"], b["bytes"]) for b in plan["buckets"]]
            first = first or (got, buckets)
            same = found.setdefault(accumulate, got)
            expect(got == same, f"{(find, again, accumulate)}: other bits than without")
            expect(got["sent"] == first[0]["sent"], f"{(find, again, accumulate)}: {got['sent']}")
            for key in ("losses", "norms"):
                near(f"{(find, again, accumulate)}: {key}", got[key], first[0][key])
            for name, values in first[0]["after"].items():
                near(f"{(find, again, accumulate)}: {name}", got["after"][name], values, 1e-5)
            expect(buckets == first[1], f"{(find, again, accumulate)}: other buckets")
            args += ["-D", "train.ddp_static_graph=" + ("true" if find else "false")]  # the graph is static in any case
            static = json.loads(subprocess.run(args + [x for d in defines for x in ("-D", d)], stdout=subprocess.PIPE,
                                               stderr=subprocess.DEVNULL, check=True, timeout=60).stdout)
            expect(static == plan, f"{(find, again, accumulate)}: another plan with ddp_static_graph")


def goes_on():
    """Checkpoints know that unused parameters have no state; a run that goes on ends with the same bytes."""
    with Folder() as f:
        write_data(f)
        binary = compile_job(f, "unused", "kind=unused", "train.ddp_find_unused_parameters=true")
        f.train(binary, "straight", 2, ["--save_strategy", "steps", "--save_steps", "1"])
        names = tensors(f.file("straight/checkpoint-2/optimizer.safetensors"))[0]
        expect(len(names) == 24 and not any("._" in n for n in names), f"states: {sorted(names)}")
        f.train(binary, "on", 2, ["--resume_from_checkpoint", f.file("straight/checkpoint-2")])
        for name, values in tensors(f.file("straight/model.safetensors"))[0].items():
            expect(tensors(f.file("on/model.safetensors"))[0][name] == values, f"{name}: other bits after going on")


def fixture(kind, accumulate, _):
    with open(FIXTURE) as f:
        return json.load(f)[f"{kind}{accumulate}"]


def write_fixtures():
    found = {}
    with Folder() as f:
        write_data(f)
        for kind in KINDS:
            start = start_of(f, compile_job(f, kind, f"kind={kind}", "train.ddp_find_unused_parameters=true"), kind)
            for accumulate in (1, 2):
                found[f"{kind}{accumulate}"] = torch_says(kind, accumulate, start)
    with open(FIXTURE, "w") as out:
        json.dump(found, out, separators=(",", ":"))
        out.write("\n")


def tests(expected):
    named = {}
    for kind, accumulate in itertools.product(KINDS, (1, 2)):
        named[f"{kind}_accumulate{accumulate}"] = lambda k=kind, a=accumulate: compare(k, a, expected)
    return named


if __name__ == "__main__":
    if "--write-fixtures" in sys.argv:
        write_fixtures()
    elif "--live" in sys.argv:
        sys.argv.remove("--live")
        main(tests(torch_says))
    else:
        main(dict(tests(fixture), row_50_combinations=row_50_combinations, goes_on=goes_on))
