#!/usr/bin/env python3
"""Several ranks on GPUs, in the emulator over the stand-in for NCCL: the losses of the CPU, and the same weights at 1, 2 and
4 ranks, in every order of streams, captured or not; what is asked of NCCL, in which order and where; and that every rank
ends in time, with the right words, when one of them or NCCL fails."""
import json
import os
import signal
import time

from apart import JOB as CARRIES
from apart import SHORT, numbers
from ddptest import (ENDLESS, ROOT, SLOW, Folder, Started, children, collectives, expect, losses, main, must, reached, run,
                     same, wait_for)
from overlap import ROWS
from resume import same_from

SIM = ["--target", "cuda:sim"]
INVARIANCE = "tests/e2e/invariance.ddp"
DIGITS = "examples/digits/job.ddp"
FLOAT32, BFLOAT16 = 7, 9  # ncclDataType_t


def weights(f, name):
    with open(f.file(f"{name}/model.safetensors"), "rb") as file:
        return file.read()


def worlds():
    """The same global batch on 1, 2 and 4 ranks, in one micro-batch or several: the losses of the CPU."""
    flags = ["--max_steps", "50"]
    with Folder() as f:
        _, cpu = f.train(f.compile(INVARIANCE, "cpu"), "on-cpu", 1, flags)
        for ranks, batch, accumulation in ((1, 64, 1), (2, 32, 1), (4, 16, 1), (2, 8, 4)):
            binary = f.compile(INVARIANCE, f"b{batch}", [f"train.per_device_train_batch_size={batch}"], SIM)
            name = f"{ranks}x{batch}x{accumulation}"
            r, log = f.train(binary, name, ranks, flags + ["--gradient_accumulation_steps", str(accumulation)])
            expect(ranks == 1 or "nccl" in r.out, f"the banner does not name nccl:\n{r.out}")
            same(losses(cpu)[:1], losses(log)[:1], 1e-5, name)
            same(losses(cpu), losses(log), 1e-3, name)


def small():
    """A decoder and a convolutional network in bf16, so small that they also run under the sanitizers: with one micro-batch
    and several, the losses of the CPU (a number of bf16 has 8 bits)."""
    decoder = ["n_layer=1", "n_head=2", "n_embd=32", "n_ctx=16"]
    flags = ["--max_steps", "2", "--warmup_steps", "0", "--logging_steps", "1", "--eval_strategy", "no",
             "--gradient_accumulation_steps", "2"]
    with Folder() as f:
        for name, sizes in ("char_gpt", decoder), ("mnist_cnn", []):
            defines = ["train.bf16=true", "train.per_device_train_batch_size=2"] + sizes
            job = f"examples/{name}/job.ddp"
            gpu = f.compile(job, name, defines, SIM)
            _, cpu = f.train(f.compile(job, f"{name}-cpu", defines), f"{name}-on-cpu", 2, flags)
            _, log = f.train(gpu, f"{name}-2", 2, flags, env={"CUDASIM_STREAMS": "urgent"})
            same(losses(cpu), losses(log), 0.01, name)
            f.train(gpu, f"{name}-1", 1, flags)


def schedules():
    """Statistics of batches from rank 0, clipping, short batches, checkpoints: the same bits whatever the streams' order, in
    memory that is closed to the host, with graphs and without; and what the CPU computes."""
    flags = SHORT + ["--gradient_accumulation_steps", "2"]
    with Folder() as f:
        binary = f.compile(CARRIES, "gpu", (), SIM)
        _, cpu = f.train(f.compile(CARRIES, "cpu"), "on-cpu", 2, flags)
        ways = [dict(CUDASIM_STREAMS=s) for s in ("eager", "lazy", "urgent", "random:1", "random:2", "random:3")]
        ways += [dict(DDP_CUDA_GRAPHS="0", CUDASIM_STREAMS="urgent"), dict(CUDASIM_PROTECT="1", CUDASIM_ORDER="reverse")]
        for i, way in enumerate(ways):
            _, log = f.train(binary, f"out{i}", 2, flags, env=way)
            expect(numbers(f.file(f"out{i}")) == numbers(f.file("out0")), f"{way}: another log")
            expect(weights(f, f"out{i}") == weights(f, "out0"), f"{way}: other weights")
        same(losses(cpu), losses(log), 1e-3, "2 ranks")
        r, _ = f.train(binary, "checked", 2, flags + ["--check_ranks", "1"])


def checkpoints():
    """Two ranks go on from a checkpoint, with buffers of rank 0 and with their own: what a straight run leaves."""
    for defines in ([], ["train.ddp_broadcast_buffers=false", "runtime.ema_decay=0.9"]):
        with Folder() as f:
            binary = f.compile(CARRIES, "gpu", defines, SIM)
            flags = ["--max_steps", "60", "--gradient_accumulation_steps", "2"]
            must([binary, "--output_dir", f.file("straight"), "--nproc-per-node", "2"] + flags)
            for update in (13, 52):
                same_from(f, binary, f.file("straight"), flags, update, 60, 2)


def time_line():
    """Every collective of a pass stands in the time line, replayed or not."""
    with Folder() as f:
        binary = wide(f)
        trace = f.file("trace.json")
        flags = ["--output_dir", f.file("out"), "--max_steps", "6", "--ddp_bucket_cap_mb", "1"]
        must([binary, "--nproc-per-node", "2", "--profile", trace] + flags)
        counts = collectives(trace)
        for rank in (0, 1):
            expect(counts[rank, "bucket 0"] == counts[rank, "bucket 2"] >= 5, f"{counts}")


# ---------- what is asked of NCCL ----------

# Five tensors of 1 MiB in four layers of 512: buckets of 1 MiB, then of what ddp_bucket_cap_mb says.
WIDE = """edition 1
model net = Sequential(Linear(64, 512), ReLU(), Linear(512, 512), ReLU(), Linear(512, 512), ReLU(), Linear(512, 10))
dataset digits {
  field pixels: float[64] in 0..16
  field digit: uint8 in 0..10
  split train = csv("%s/examples/digits/digits.csv.gz")[:200]
}
objective {
  loss = cross_entropy(net(digits.pixels / 16), digits.digit)
}
train {
  output_dir = "runs/wide"
  per_device_train_batch_size = 8
  learning_rate = 1e-3
  logging_steps = 1
  ddp_timeout = 30
}
"""


def calls_of(f, binary, name, flags, env=None, ranks=2):
    """(calls, runs) of one rank; all ranks must have made the same."""
    prefix = f.file(name + ".nccl")
    f.train(binary, name, ranks, flags, env=dict(env or {}, NCCLSIM_LOG=prefix))
    logs = []
    for rank in range(ranks):
        with open(f"{prefix}.{rank}") as file:
            events = [json.loads(line) for line in file]
        logs.append([[e for e in events if e["event"] == kind] for kind in ("call", "run")])
    for rank in range(1, ranks):
        expect(logs[rank] == logs[0], f"rank {rank} asked for something else than rank 0")
    return logs[0]


def wide(f):
    with open(f.file("wide.ddp"), "w") as job:
        job.write(WIDE % ROOT)
    return f.compile(f.file("wide.ddp"), "wide", (), SIM)


def buckets_of(runs, updates):
    """(offset, count) of the sums of each update: the same in all of them."""
    sums = [(e["offset"], e["count"]) for e in runs if e["op"] == "all_reduce"][1:]  # the first one connects
    n = len(sums) // updates
    expect(len(sums) == n * updates, f"{len(sums)} sums in {updates} updates")
    expect(all(sums[k * n:(k + 1) * n] == sums[:n] for k in range(updates)), "an update sums other ranges than the first")
    return sums[:n]


def calls():
    flags = ["--max_steps", "9"]
    with Folder() as f:
        binary = wide(f)
        for schedule in ("eager", "lazy", "urgent", "random:1"):
            name = schedule.replace(":", "-")
            micro = ["--gradient_accumulation_steps", "3"]  # nothing is summed in the first two
            made, runs = calls_of(f, binary, name, flags + micro + ["--ddp_bucket_cap_mb", "1"],
                                  {"CUDASIM_STREAMS": schedule})
            ranges = buckets_of(runs, 9)
            expect(len(ranges) >= 3, f"{len(ranges)} buckets")
            end = 0  # of the arena: buckets in the order in which they become ready, one behind the other
            for offset, count in ranges:
                expect(offset == end and count > 0, f"a bucket begins at {offset}, the one before ends at {end}")
                end = offset + 4 * count
            expect(made[0]["count"] == 1 and not made[0]["captured"], f"the first call does not only connect: {made[0]}")
            for e in made:
                expect(e["type"] == FLOAT32 and e["in_place"] and e["priority"] < 0 and e["stream"] == made[0]["stream"], str(e))
                expect(e["window"] == 0 or e["count"] == 1, f"outside of the registered arena: {e}")
            # Of each kind (memory of the batch, its size) the first pass is enqueued and the second one captured; all
            # others are replayed.
            n = len(ranges)
            passes = [[e["captured"] for e in made[k:k + n]] for k in range(1, len(made), n)]
            expect(all(len(set(p)) == 1 for p in passes), f"captured in part: {passes}")
            expect([p[0] for p in passes] == [False, False, True, True, False], f"captured: {passes}")
        plain, _ = calls_of(f, binary, "plain", flags + ["--ddp_bucket_cap_mb", "1"], {"DDP_CUDA_GRAPHS": "0"})
        expect(len(plain) == 1 + 9 * len(ranges) and not any(e["captured"] for e in plain), f"{len(plain)} calls")


def buckets():
    """Any size of buckets gives the same bits."""
    flags = ["--max_steps", "5"]
    with Folder() as f:
        binary = wide(f)
        counts = []
        for cap in ("1", "2", "100"):
            _, runs = calls_of(f, binary, "cap" + cap, flags + ["--ddp_bucket_cap_mb", cap])
            counts.append(len(buckets_of(runs, 5)))
            expect(weights(f, "cap" + cap) == weights(f, "cap1"), f"ddp_bucket_cap_mb = {cap}: other weights")
        expect(counts[0] > counts[1] > counts[2] == 1, f"buckets: {counts}")


def early():
    """Without a norm to wait for, the optimizer steps a bucket as soon as its sum is there: the bits of steps after all
    sums, in every order of streams, captured or not; and each order between streams that this needs is missed."""
    # Updates that are logged have a norm, and step after all sums.
    base = ["--max_steps", "9", "--ddp_bucket_cap_mb", "1", "--logging_steps", "4"]
    now, later = ["--max_grad_norm", "0"], ["--max_grad_norm", "1e30"]
    with Folder() as f:
        binary = wide(f)
        _, log = f.train(binary, "late", 2, base + later)
        expect(log[0]["optimizer_step"] == "after all gradients: max_grad_norm", log[0]["optimizer_step"])
        _, cpu = f.train(f.compile(f.file("wide.ddp"), "on-cpu"), "cpu", 2, base + now)
        ways = [dict(CUDASIM_STREAMS=s) for s in ("eager", "lazy", "urgent", "random:1")]
        for i, way in enumerate(ways + [dict(DDP_CUDA_GRAPHS="0", CUDASIM_STREAMS="lazy")]):
            _, log = f.train(binary, f"early{i}", 2, base + now, env=way)
            expect(log[0]["optimizer_step"] == "per bucket", log[0]["optimizer_step"])
            expect(weights(f, f"early{i}") == weights(f, "late"), f"{way}: other weights")
        same(losses(cpu), losses(log), 1e-3, "2 ranks")
        # The first waits of the run are for the model's broadcast; those of the first update: the three sums for
        # backward, then the steps of each bucket for its sum.
        few = ["--max_steps", "3", "--ddp_bucket_cap_mb", "1", "--logging_steps", "4"] + now
        f.train(binary, "right", 2, few)
        for wait, schedule in ((3, "urgent"), (4, "urgent"), (5, "urgent"), (6, "lazy"), (7, "lazy"), (8, "lazy")):
            out = f.file(f"without{wait}")
            r = run([binary, "--output_dir", out, "--nproc-per-node", "2"] + few,
                    env={"CUDASIM_STREAMS": schedule, "CUDASIM_FORGET": str(wait)})
            expect(r.code != 0 or weights(f, f"without{wait}") != weights(f, "right"), f"{schedule} without wait {wait}")


def not_finite():
    """A loss that is not finite on one rank holds the step on all: the weights stay finite, whoever waits for what."""
    with Folder() as f:
        with open(f.file("rows.csv"), "w") as out:
            out.write("1,2,1\n" * 9 + "3e38,3e38,0\n" + "1,2,0\n" * 2)
        with open(f.file("job.ddp"), "w") as out:
            out.write(ROWS.replace("tanh", "relu").replace("  init fc1.weight = zeros()\n", ""))
        binary = f.compile(f.file("job.ddp"), "train", (), SIM)
        for norm, schedule in (("0", "urgent"), ("0", "lazy"), ("1", "lazy")):
            r = run([binary, "--nproc-per-node", "2", "--output_dir", f.file("o"), "--max_grad_norm", norm],
                    env={"CUDASIM_STREAMS": schedule})
            expect(r.code == 8 and "update 5: the loss is inf" in r.out and "first on rank 1" in r.out and
                   "weights were not finite" not in r.out, f"max_grad_norm {norm}, {schedule}: exit {r.code}\n{r.out}")


def half():
    """Gradients that travel in 16 bits: rounded as on the CPU."""
    flags = SHORT + ["--allreduce_dtype", "bfloat16"]
    with Folder() as f:
        _, cpu = f.train(f.compile(CARRIES, "cpu"), "on-cpu", 2, flags)
        binary = f.compile(CARRIES, "gpu", (), SIM)
        made, _ = calls_of(f, binary, "gpu-out", flags)
        types = {e["type"] for e in made if e["op"] == "all_reduce" and e["count"] > 1}
        expect(types == {BFLOAT16}, f"gradients travel as {types}")
        log = losses([json.loads(line) for line in open(f.file("gpu-out/log.jsonl"))])
        same(losses(cpu), log, 1e-3, "in bfloat16")
        f.train(binary, "full", 2, SHORT)
        expect(weights(f, "full") != weights(f, "gpu-out"), "16 bits change nothing")


def sums_in_model():
    """SyncBatchNorm: sums inside of captured passes, in every micro-batch."""
    flags = SHORT + ["--gradient_accumulation_steps", "2"]
    with Folder() as f:
        with open(os.path.join(ROOT, CARRIES)) as source:
            text = source.read().replace("../../examples", os.path.join(ROOT, "examples"))
        expect("BatchNorm1d" in text, "the job has another model now")
        with open(f.file("sync.ddp"), "w") as out:
            out.write(text.replace("BatchNorm1d", "SyncBatchNorm"))
        _, cpu = f.train(f.compile(f.file("sync.ddp"), "cpu"), "on-cpu", 2, flags)
        binary = f.compile(f.file("sync.ddp"), "gpu", (), SIM)
        for schedule in ("lazy", "urgent", "random:1"):
            name = schedule.replace(":", "-")
            _, log = f.train(binary, name, 2, flags, env={"CUDASIM_STREAMS": schedule})
            same(losses(cpu), losses(log), 1e-3, schedule)
            expect(weights(f, name) == weights(f, "lazy"), f"{schedule}: other weights")
        f.train(binary, "one", 1, flags)


# ---------- what fails ----------

def record(f, rank):
    with open(f.file(f"out/flight-{rank}.json")) as file:
        return json.load(file)


def fails(f, binary, env, code, texts, limit=8, ranks=2, flags=()):
    flags = ["--output_dir", f.file("out"), "--nproc-per-node", str(ranks), "--ddp_timeout", "3", *ENDLESS, *flags]
    r = run([binary] + flags, env=env, limit=30)
    expect(r.code == code, f"{env}: exit {r.code}, not {code}\n{r.out}")
    for text in texts:
        expect(text in r.out, f"{env}: nothing of {text!r}\n{r.out}")
    expect(r.seconds < limit * SLOW, f"{env}: after {r.seconds:.1f} s\n{r.out}")
    return r


def alone():
    """One rank that is asked to opens NCCL and sums its gradients there, captured too: the bits of a run without. Without
    this, what nccl.c asks of a real NCCL could not be seen on a machine with one GPU."""
    flags = ["--max_steps", "12", "--gradient_accumulation_steps", "2", "--ddp_bucket_cap_mb", "1"]
    with Folder() as f:
        binary = wide(f)
        f.train(binary, "plain", 1, flags)
        for i, way in enumerate(({}, {"DDP_CUDA_GRAPHS": "0"}, {"CUDASIM_STREAMS": "urgent"})):
            made, runs = calls_of(f, binary, f"alone{i}", flags, dict(way, DDP_NCCL_ALONE="1"), ranks=1)
            expect(len(buckets_of(runs, 12)) >= 3, "not in buckets")
            expect(any(e["captured"] for e in made) != ("DDP_CUDA_GRAPHS" in way), f"captured? {way}")
            expect(weights(f, f"alone{i}") == weights(f, "plain"), f"{way}: other weights")
        expect('"path": "nccl"' in open(f.file("alone0/log.jsonl")).readline(), "the log does not name nccl")
        env = {"DDP_NCCL_ALONE": "1", "DDP_NCCL_LIBRARY": "/nowhere/libnccl.so.2"}
        r = run([binary, "--output_dir", f.file("none"), *flags], env=env)
        expect(r.code == 1 and "NCCL is needed and cannot be opened" in r.out, f"exit {r.code}: {r.out}")
        env = {"DDP_NCCL_ALONE": "1", "NCCLSIM_FAIL": "all_reduce:2=async"}
        r = run([binary, "--output_dir", f.file("none"), *flags], env=env)
        expect(r.code == 4 and "NCCL says" in r.out, f"exit {r.code}: {r.out}")


def library():
    """NCCL fails, or never ends."""
    with Folder() as f:
        binary = f.compile(DIGITS, "train", flags=SIM)
        missing = {"DDP_NCCL_LIBRARY": "/nowhere/libnccl.so.2"}
        r = fails(f, binary, missing, 1, ["NCCL is needed and cannot be opened: /nowhere/libnccl.so.2", "install libnccl2"], 4)
        expect(r.out.count("cannot be opened") == 1, f"said more than once:\n{r.out}")
        f.train(binary, "alone", 1, ["--max_steps", "30"], env=missing)
        one = {"NCCLSIM_FAIL_RANK": "1"}
        fails(f, binary, dict(one, NCCLSIM_FAIL="init:1=forever"), 5, ["opening NCCL", "3 s (ddp_timeout)"])
        fails(f, binary, dict(one, NCCLSIM_FAIL="init:1=wrong_id"), 5, ["opening NCCL", "3 s (ddp_timeout)"])
        fails(f, binary, dict(one, NCCLSIM_FAIL="init:1=error"), 4, ["opening NCCL: NCCL says"])
        # The second sum of a run is that of update 0, the tenth that of a captured pass.
        fails(f, binary, {"NCCLSIM_FAIL": "all_reduce:3=forever"}, 5, ["all-reduce of bucket 0", "did not finish within 3 s"])
        expect(record(f, 0)["collectives"][-1]["name"] == "bucket 0", "the record ends with another collective")
        expect(record(f, 0)["collectives"][-1]["state"] == "started", "the bucket has come")
        fails(f, binary, dict(one, NCCLSIM_FAIL="all_reduce:2=error"), 4, ["NCCL says \"unhandled system error\""])
        fails(f, binary, dict(one, NCCLSIM_FAIL="all_reduce:2=async"), 4, ["NCCL says \"remote process exited"])
        fails(f, binary, dict(one, NCCLSIM_FAIL="all_reduce:2=short"), 1, ["NCCL says \"invalid usage\""])


def ranks():
    """A rank is killed, or stopped, while the others wait for its gradients."""
    with Folder() as f:
        binary = f.compile(DIGITS, "train", flags=SIM)
        for victim, sig, limit, least in ((1, signal.SIGKILL, 5, 0), (0, signal.SIGKILL, 5, 0), (2, signal.SIGSTOP, 7, 2)):
            out = f.file(f"out{victim}{int(sig)}")
            with Started(f, [binary, "--nproc-per-node", "3", "--output_dir", out, "--ddp_timeout", "3", *ENDLESS]) as s:
                wait_for(lambda: reached(out, 5), 30, "update 5")
                os.kill(children(s.p.pid)[victim], sig)
                start = time.monotonic()
                code = s.end(limit + 10)
                seconds, text = time.monotonic() - start, s.text()
            expect(code != 0 and f"rank {victim}" in text, f"exit {code}, rank {victim} is not named:\n{text}")
            expect(least <= seconds <= limit * SLOW, f"signal {sig}: ended after {seconds:.1f} s\n{text}")


def flags():
    """What another backend would need is said; the host's own is no matter."""
    with Folder() as f:
        gpu, cpu = f.compile(DIGITS, "gpu", flags=SIM), f.compile(DIGITS, "cpu")
        few = ["--max_steps", "21", "--output_dir", f.file("out")]
        r = run([cpu, "--ddp_backend", "nccl"] + few)
        expect(r.code == 2 and "sends between NVIDIA GPUs and this program computes on CPUs" in r.out, r.out)
        r = run([gpu, "--ddp_backend", "xccl"] + few)
        expect(r.code == 2 and "not supported yet" in r.out and "Intel GPUs" in r.out, r.out)
        for name in ("nccl", "gloo"):
            r = run([gpu, "--ddp_backend", name, "--nproc-per-node", "2"] + few)
            expect(r.code == 0 and "nccl)" in r.out, r.out)


if __name__ == "__main__":
    main(dict(worlds=worlds, small=small, schedules=schedules, calls=calls, buckets=buckets, early=early,
              not_finite=not_finite, checkpoints=checkpoints, time_line=time_line, half=half, sums_in_model=sums_in_model,
              alone=alone, library=library, ranks=ranks, flags=flags))
