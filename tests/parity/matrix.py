#!/usr/bin/env python3
"""The matrix: ranks 1 to 4 x accumulation 1 and 3 x drop_last x sharding x numbers of samples that divide nothing, fewer
than the ranks among them. Each epoch reads exactly what the sampler promises (one weight per sample says how often and
in how large updates it was read), and losses, gradient norms and weights are those of a PyTorch DDP loop that counts
items globally; with `--live` also those of transformers.Trainer, whose samplers `sharding = accelerate` is.

    matrix.py                    against fixtures/matrix.json
    matrix.py --live             against PyTorch and the Trainer, run now
    matrix.py --write-fixtures   makes fixtures/matrix.json
    matrix.py --resume           from every update of a run on 2 ranks, on 1 and on 4
    matrix.py --launchers        a few cases under mpirun and torchrun: the same log

Every run compares its ranks' parameters after each update (check_ranks). Some cases also run over Gloo.
"""
import itertools
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "reports"))
from ddptest import BUILD, Failure, Folder, expect, must, read_log, run  # noqa: E402
from reports import tensors  # noqa: E402

FIXTURE = os.path.join(HERE, "fixtures", "matrix.json")
WORLDS, SAMPLES, BATCH = (1, 2, 3, 4), (1, 3, 13, 24), 2
TOLERANCE = 1e-6  # of the larger of 1 and the number; 2.1e-7 was seen


def cases(trainer):
    keys = ("samples", "accumulate", "drop_last", "sharding", "average")
    shardings = ("accelerate",) if trainer else ("distributed_sampler", "accelerate")
    chosen = list(itertools.product(SAMPLES, (1, 3), (False, True), shardings, (True,)))
    chosen += [(13, 3, False, s, False) for s in shardings]  # average_tokens_across_devices = false
    chosen = [dict(zip(keys, c), batch=BATCH, trainer=trainer) for c in chosen]
    if trainer:  # seed says nothing about the order then
        chosen += [dict(chosen[-1], average=True, accumulate=1, seed=7, data_seed=42)]
    return [c for c in chosen if not (trainer and c["drop_last"] and c["samples"] < 13)]  # nothing to train on


def name_of(case, world):
    return (f"{case['samples']} samples, {world} ranks of {BATCH}, accumulation {case['accumulate']}, drop_last "
            f"{case['drop_last']}, {case['sharding']}" + ("" if case["average"] else ", counts of each rank")
            + (f", seeds {case['seed']} and {case['data_seed']}" if "seed" in case else "")
            + (", Trainer" if case["trainer"] else ""))


def table(samples):
    """Labels of different counts, at least one a sample: [(id, words, labels)]."""
    for k in range(samples):
        words = [(5 * k + 3 * t + k * t) % 12 for t in range(4)]
        yield k, words, [(k + words[t]) % 5 if t <= k % 4 else -100 for t in range(4)]


def write_data(f):
    for n in SAMPLES:
        os.makedirs(f.file(f"data{n}"), exist_ok=True)
        with open(f.file(f"data{n}/rows.csv"), "w") as out:
            for k, words, labels in table(n):
                out.write(",".join(map(str, [k, *words, *labels])) + "\n")


def compile_job(f):
    write_data(f)
    binary = f.compile("tests/parity/matrix.ddp", "matrix", [f"runtime.data_root={f.file('data24')}"])
    must([binary, "--init-only", "--output_dir", f.file("initial")])
    return binary


def flags(f, case, out):
    return ["--data_root", f.file(f"data{case['samples']}"), "--gradient_accumulation_steps", str(case["accumulate"]),
            "--dataloader_drop_last", str(case["drop_last"]).lower(), "--sharding", case["sharding"],
            "--average_tokens_across_devices", str(case["average"]).lower(), "--check_ranks", "1", "--output_dir", out,
            *(["--seed", str(case["seed"]), "--data_seed", str(case["data_seed"]), "--init-from",
               f.file("initial/model.safetensors")] if "seed" in case else [])]


def theirs(f, world, chosen):
    """PyTorch's results for all cases of a number of ranks."""
    with open(f.file("cases.json"), "w") as out:
        json.dump(chosen, out)
    must([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world),
          os.path.join(HERE, "matrix_torch.py"), f.file("cases.json"), f.file("torch.json"),
          f.file("initial/model.safetensors"), f.file("trainer")], limit=300, env=dict(OMP_NUM_THREADS="1"))
    with open(f.file("torch.json")) as done:
        return json.load(done)


def flat(x):
    return [v for part in x for v in flat(part)] if isinstance(x, list) else [x]


def near(what, got, want, tolerance=TOLERANCE):
    got, want = flat(got), flat(want)
    expect(len(got) == len(want), f"{what}: {len(got)} numbers, not {len(want)}")
    worst = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(got, want))
    expect(worst <= tolerance, f"{what}: differs by {worst:.3g}")
    return worst


def covered(what, case, world, seen):
    """Each epoch reads every sample; with drop_last those that fill micro-batches of all ranks."""
    read = sum(1 for v in seen if v > 0)
    if not case["drop_last"]:
        expect(read == case["samples"], f"{what}: {read} samples were read")
        return
    per_rank = case["samples"] // world if case["sharding"] == "distributed_sampler" else \
        case["samples"] // BATCH // world * BATCH
    expect(read == per_rank // BATCH * BATCH * world, f"{what}: {read} samples were read")


def check(f, binary, world, case, want, more=()):
    what, out = name_of(case, world) + " ".join(more), f.file("out")
    must(["rm", "-rf", out])
    r = run([binary, *flags(f, case, out), *more] + (["--nproc-per-node", str(world)] if world > 1 else []))
    if want is None:
        expect(r.code == 3 and r.out.count("nothing to train on:") == 1, f"{what}: exit {r.code}\n{r.out}")
        return 0
    expect(r.code == 0, f"{what}: exit {r.code}\n{r.out}")
    log = read_log(out)
    worst = near(what + ": losses", [r["loss"] for r in log if "loss" in r], want["losses"])
    worst = max(worst, near(what + ": norms", [r["grad_norm"] for r in log if "grad_norm" in r], want["norms"]))
    saved = sorted((d for d in os.listdir(out) if d.startswith("checkpoint-")), key=lambda d: int(d.split("-")[1]))
    expect(len(saved) == 2, f"{what}: saved {saved}")
    files = [tensors(os.path.join(out, d, "model.safetensors"))[0] for d in saved]
    for mine, weights in zip(files[-len(want["after"]):], want["after"]):
        for name, value in weights.items():
            worst = max(worst, near(f"{what}: {name}", mine[name], value))
    covered(what, case, world, files[0]["seen"])
    return worst


def compare(expected, which):
    """expected(f, world, cases): PyTorch's results."""
    n, worst = 0, 0.0
    with Folder() as f:
        binary = compile_job(f)
        for world in WORLDS:
            for trainer in which:
                chosen = cases(trainer)
                for case, want in zip(chosen, expected(f, world, chosen), strict=True):
                    worst = max(worst, check(f, binary, world, case, want))
                    n += 1
                    if world > 1 and case["samples"] == 13 and case["accumulate"] == 3 and not trainer:
                        worst = max(worst, check(f, binary, world, case, want, ["--intra_node", "backend"]))
                        n += 1
    print(f"{n} cases, largest difference {worst:.2e}")


def small(result):
    """A fixture keeps 7 digits, more than the bound needs."""
    if isinstance(result, dict):
        return {k: small(v) for k, v in result.items()}
    return [small(v) for v in result] if isinstance(result, list) else float(f"{result:.8g}") \
        if isinstance(result, float) else result


def write_fixtures():
    import torch
    with Folder() as f:
        compile_job(f)
        found = {str(world): small(theirs(f, world, cases(False))) for world in WORLDS}
    for results in found.values():
        for r in results:
            if r:  # of the weights, those that say what was read
                r["after"] = [{"seen": w["seen"], "tags.bias": w["tags.bias"]} for w in r["after"]]
    with open(FIXTURE, "w") as out:
        json.dump(dict(torch=torch.__version__.split("+")[0], results=found), out, separators=(",", ":"))
        out.write("\n")


def kept(f, world, chosen):
    with open(FIXTURE) as fixture:
        return json.load(fixture)["results"][str(world)]


# ---------- going on with another number of ranks

def places(case, world):
    """Places of an epoch's order that all ranks together read: what is padded depends on their number."""
    n, drop = case["samples"], case["drop_last"]
    if case["sharding"] == "distributed_sampler" or world == 1 and not drop:
        per_rank = n // world if drop else -(-n // world)
        return per_rank // BATCH * BATCH * world if drop else per_rank * world
    rounds = n // BATCH // world if drop else -(-(-(-n // BATCH)) // world)
    return rounds * BATCH * world


def visits(case, order, at, worlds):
    """What `seen` is after two epochs that the first number of ranks begins and, after `at` updates, the second ends.
    An update reads 8 places, whatever the number of ranks."""
    counts = [sum(y != -100 for y in labels) for _, _, labels in table(case["samples"])]
    seen, update = [0.0] * 32, 0
    for epoch in range(2):
        window = 0
        while window * 8 < places(case, worlds[update >= at]):
            end = min(window * 8 + 8, places(case, worlds[update >= at]))
            read = [order[epoch][p % case["samples"]] for p in range(window * 8, end)]
            for k in read:
                seen[k] += 0.5 * counts[k] / sum(counts[k] for k in read)
            window, update = window + 1, update + 1
    return seen, update


def resume():
    """Every sample is read as often as if the run had had its new number of ranks from there on."""
    with Folder() as f:
        binary = compile_job(f)
        print_orders, runs = os.path.join(BUILD, "sampler_print"), 0
        for samples, drop, sharding in itertools.product((3, 13, 24), (False, True), ("distributed_sampler", "accelerate")):
            case = dict(samples=samples, accumulate=2, drop_last=drop, sharding=sharding, average=True)
            if drop and samples < 8:
                continue  # nothing to train on with 4 ranks
            asked = "".join(f"{samples} 1 2 0 0 1 42 {epoch}\n" for epoch in range(2))
            order = [[int(v) for v in line.split()] for line in subprocess.run(
                [print_orders], input=asked, capture_output=True, text=True, check=True).stdout.splitlines()]
            must(["rm", "-rf", f.file("two")])
            must([binary, *flags(f, case, f.file("two")), "--nproc-per-node", "2", "--save_strategy", "steps",
                  "--save_steps", "1"])
            _, last = visits(case, order, 99, (2, 2))
            for at, world in itertools.product(range(1, last), (1, 4)):
                what = f"{name_of(dict(case, trainer=False), 2)}, from update {at} on {world}"
                must(["rm", "-rf", f.file("on")])
                must([binary, *flags(f, dict(case, accumulate=4 // world), f.file("on")), "--nproc-per-node", str(world),
                      "--resume_from_checkpoint", f.file(f"two/checkpoint-{at}"), "--resume_changes", "allow"])
                seen, total = visits(case, order, at, (2, world))
                near(what, tensors(f.file("on/model.safetensors"))[0]["seen"], seen)
                expect(read_log(f.file("on"))[-1]["step"] == total, f"{what}: not {total} updates")
                runs += 1
        print(f"{runs} runs went on with another number of ranks")


def launchers():
    """The same log under every launcher: own, mpirun, torchrun."""
    mpi = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    torchrun = os.path.join(os.path.dirname(sys.executable), "torchrun")
    ways = {"mpirun": lambda w: ["mpirun", "-np", str(w), "--oversubscribe"],
            "torchrun": lambda w: [torchrun, "--no-python", "--standalone", f"--nproc_per_node={w}"]}
    with Folder() as f:
        binary = compile_job(f)
        for world, samples, sharding in ((3, 13, "distributed_sampler"), (4, 3, "accelerate")):
            case = dict(samples=samples, accumulate=3, drop_last=False, sharding=sharding, average=True)
            must([binary, *flags(f, case, f.file("own")), "--nproc-per-node", str(world)])
            for name, way in ways.items():
                must([*way(world), binary, *flags(f, case, f.file(name))], env=mpi)
                own, other = ([{k: r.get(k) for k in ("loss", "grad_norm", "epoch")} for r in read_log(f.file(d))]
                              for d in ("own", name))
                expect(own == other, f"{name}, {world} ranks: another log")


if __name__ == "__main__":
    try:
        if "--write-fixtures" in sys.argv:
            write_fixtures()
        elif "--resume" in sys.argv:
            resume()
        elif "--launchers" in sys.argv:
            launchers()
        elif "--live" in sys.argv:
            compare(theirs, (False, True))
        else:
            compare(kept, (False,))
    except Failure as e:
        sys.exit(f"FAIL {e}")
