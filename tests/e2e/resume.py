#!/usr/bin/env python3
"""Going on from a checkpoint: an interrupted run writes the bytes that a straight one writes, from any save and
with any number of ranks; what is damaged or does not fit is named, with the way out."""
import filecmp
import json
import os
import resource
import shutil
import signal
import subprocess

from ddptest import ROOT, Folder, children, expect, main, read_log, run, wait_for

JOB = os.path.join(ROOT, "tests/e2e/resume.ddp")
# Models in the place of the job's own.
TIED = """module Tied(D: int) {
  words = Embedding(17, D)
  drop = Dropout(0.2)
  head = Linear(D, 17, bias = false)

  forward(x: [B, 64]) -> [B, 17] {
    return head(drop(mean(words(cast(x, int64)), 1)))
  }
}

model net = Tied(24) {
  tie head.weight = words.weight
}
"""
RECURRENT = """module Steps(D: int) {
  rnn = LSTM(4, D, num_layers = 2, batch_first = true, dropout = 0.2)
  head = Linear(D, 10)

  forward(x: [B, 64]) -> [B, 10] {
    y, _, _ = rnn(reshape(x, [B, 16, 4]))
    return head(y[:, -1])
  }
}

model net = Steps(16)
"""
CENTRED = """module Centred(D: int) {
  seen: buffer float[64] = zeros()
  first = Linear(64, D)
  head = Linear(D, 10)

  forward(x: [B, 64]) -> [B, 10] {
    if training {
      seen = 0.9 * seen + 0.1 * mean(x, 0)
    }
    return head(tanh(first(x - seen)))
  }
}

model net = Centred(16)
"""
GROUPS = """model net = Normalised(24) {
  group blocks[0].fc1.weight, blocks[1].fc2.weight { optim = muon, learning_rate = 0.02 }
  group head { optim = adafactor, weight_decay = 0 }
  group first.bias { optim = sgd, optim_args = "momentum=0.9" }
}
"""

STATE = ("model.safetensors", "optimizer.safetensors", "scheduler.safetensors")
TIMES = ("runtime", "per_second", "_ms", "communication_wait")


def equal(one, two, files=STATE):
    for name in files:
        a, b = os.path.join(one, name), os.path.join(two, name)
        expect(filecmp.cmp(a, b, shallow=False), f"{a} and {b} differ")


def numbers(folder, after):
    """The log behind an update, without what was measured with a clock."""
    return [{k: v for k, v in r.items() if not any(t in k for t in TIMES)}
            for r in read_log(folder) if r.get("step", 0) > after and "train_runtime" not in r]


def told(folder, update):
    """What the JSON files of a checkpoint say, without what a clock measured and where the folder is."""
    both = []
    for name in ("trainer_state.json", "manifest.json"):
        with open(os.path.join(folder, f"checkpoint-{update}", name)) as f:
            both.append(json.load(f))
    both[0]["log_history"] = [{k: v for k, v in r.items() if not any(t in k for t in TIMES)}
                              for r in both[0]["log_history"]]
    both[0]["best_model_checkpoint"] = os.path.basename(both[0]["best_model_checkpoint"] or "")
    both[1]["files"] = [x for x in both[1]["files"] if x["name"] != "trainer_state.json"]
    both[1].pop("checksum", None)
    return both


def start(binary, out, flags, ranks=1):
    return run([binary, "--output_dir", out] + flags + (["--nproc-per-node", str(ranks)] if ranks > 1 else []))


def copied(f, straight, update, name):
    """An output folder that holds nothing but one checkpoint."""
    out = f.file(name)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(os.path.join(straight, f"checkpoint-{update}"), os.path.join(out, f"checkpoint-{update}"))
    return out


def same_from(f, binary, straight, flags, update, last, ranks=1):
    """Goes on from `update` and compares everything with the straight run."""
    out = copied(f, straight, update, "resumed")
    r = start(binary, out, flags + ["--resume_from_checkpoint", "true"], ranks)
    expect(r.code == 0 and f"checkpoint-{update}: update {update} of {last}" in r.out, r.out)
    average = ("ema.safetensors",) if "--ema_decay" in flags else ()
    equal(os.path.join(straight, f"checkpoint-{last}"), os.path.join(out, f"checkpoint-{last}"), STATE + average)
    expect(told(straight, last) == told(out, last), f"from update {update}: other JSON files in the checkpoint")
    equal(straight, out, STATE[:1])
    expect(numbers(straight, update) == numbers(out, update), f"from update {update}: other lines in the log")


def job(f, model=None, rows="1_397", name="job.ddp"):
    """The path of the job, with another model in the place of its own, on another number of rows."""
    with open(JOB) as file:
        text = file.read().replace("../../examples", os.path.join(ROOT, "examples")).replace("1_397", rows)
    if model:
        modules, data, net, rest = (text.index(t) for t in ("module Block", "dataset digits", "model net", "objective {"))
        kept = "" if model.startswith("module") else text[modules:data]
        text = text[:modules] + kept + text[data:net] + model + "\n" + text[rest:]
    path = f.file(name)
    with open(path, "w") as file:
        file.write(text)
    return path


def kind(defines=(), flags=(), model=None, ranks=2, updates=(13, 52, 91), last=100, look=None):
    """A straight run, and runs that go on from some of its checkpoints."""
    def test():
        with Folder() as f:
            binary = f.compile(job(f, model), "train", defines)
            straight = f.file("straight")
            r = start(binary, straight, list(flags), ranks)
            expect(r.code == 0, r.out)
            if look:
                look(read_log(straight))
            for update in updates:
                same_from(f, binary, straight, list(flags), update, last, ranks)
    return test


def skips(log):
    """The loss scale of fp16 has changed, before and behind the checkpoints that are tried."""
    skipped = [r["skipped_updates"] for r in log if "skipped_updates" in r]
    expect(skipped[1] > 0 and skipped[-1] > 2, f"skipped updates: {skipped}")


def falls(log):
    """A measured schedule has changed the rate more than once."""
    rates = [r["learning_rate"] for r in log if "learning_rate" in r]
    expect(len(set(rates)) > 2, f"rates: {rates}")


def digits():
    """Inside an epoch, at its end (before and after what happens there), and from the last save."""
    flags = ["--max_steps", "60", "--save_strategy", "steps", "--save_steps", "15", "--logging_steps", "4"]
    with Folder() as f:
        binary = f.compile("examples/digits/job.ddp", "train")
        straight = f.file("straight")
        expect(start(binary, straight, flags, 2).code == 0, "the straight run failed")
        for update in (15, 45, 60):
            same_from(f, binary, straight, flags, update, 60, 2)


def damaged():
    """Every kind of damage is named; `true` takes the next complete one and says what it passed over."""
    flags = ["--max_steps", "6", "--warmup_steps", "0", "--save_strategy", "steps", "--save_steps", "2"]

    def cut(path):
        os.truncate(path, os.path.getsize(path) - 2)

    def flip(path):
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))

    def change(path):
        with open(path) as file:
            manifest = json.load(file)
        manifest["update"] = 5
        with open(path, "w") as file:
            json.dump(manifest, file)

    with Folder() as f:
        binary = f.compile("examples/digits/job.ddp", "train")
        straight = f.file("straight")
        expect(start(binary, straight, flags).code == 0, "the straight run failed")
        faults = [(cut, "model.safetensors", "bytes, "), (flip, "optimizer.safetensors", "checksum"),
                  (os.remove, "scheduler.safetensors", "is missing"), (cut, "manifest.json", "damaged"),
                  (change, "manifest.json", "its checksum"), (os.remove, "manifest.json", "not written to its end")]
        for damage, name, text in faults:
            out = f.file("damaged")
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(straight, out)
            damage(os.path.join(out, "checkpoint-6", name))
            r = start(binary, out, flags + ["--resume_from_checkpoint", os.path.join(out, "checkpoint-6")])
            expect(r.code == 3 and text in r.out and "checkpoint-6" in r.out and name in r.out and
                   "--resume_from_checkpoint true" in r.out, r.out)
            r = start(binary, out, flags + ["--resume_from_checkpoint", "true"])
            expect(r.code == 0 and "not used:\n  checkpoint-6: " in r.out and text in r.out and
                   "resumed from" in r.out and "checkpoint-4" in r.out, r.out)
            equal(os.path.join(straight, "checkpoint-6"), os.path.join(out, "checkpoint-6"))
        r = start(binary, straight, flags + ["--resume_from_checkpoint", straight])
        expect(r.code == 3 and "is no checkpoint, but holds some; the newest is" in r.out and
               "straight/checkpoint-6'" in r.out, r.out)
        r = start(binary, straight, flags)
        expect(r.code == 0 and "straight/checkpoint-6' is there: `--resume" in r.out, r.out)
        r = start(binary, straight, ["--init-only", "--resume_from_checkpoint", straight])
        expect(r.code == 2 and "does not train" in r.out, r.out)
        r = start(binary, f.file("nothing"), flags + ["--resume_from_checkpoint", "true"])
        expect(r.code == 0 and "no complete checkpoint" in r.out, r.out)


def own_buffers():
    """Ranks that keep their own statistics: saving changes nothing in the run."""
    defines = ["train.ddp_broadcast_buffers=false"]
    kind(defines, model=CENTRED)()
    with Folder() as f:
        binary = f.compile(job(f, CENTRED), "train", defines)
        for name, flags in ("often", ["--save_steps", "3"]), ("never", ["--save_strategy", "no"]):
            r = start(binary, f.file(name), flags, 2)
            expect(r.code == 0, r.out)
        equal(f.file("often"), f.file("never"), STATE[:1])


def losses(folder, after=0):
    return {r["step"]: r["loss"] for r in read_log(folder) if "loss" in r and r["step"] > after}


def ranks():
    """[27, 35] 2 ranks, then 1, then 4: the same samples in every update, with the accumulation that keeps the
    global batch; the short update at the end of an epoch included."""
    flags = ["--logging_steps", "1", "--eval_strategy", "no"]
    with Folder() as f:
        binary = f.compile(job(f, TIED, "1_396"), "train")
        straight = f.file("straight")
        r = start(binary, straight, flags + ["--gradient_accumulation_steps", "2"], 2)
        expect(r.code == 0, r.out)
        expected, folder = losses(straight), straight
        for world, update, until, accumulation in (1, 26, 65, 4), (4, 65, 100, 1):
            out = copied(f, folder, update, f"on{world}")
            r = start(binary, out, flags + ["--resume_from_checkpoint", "true"], world)
            expect(r.code == 0 and (f"gradient_accumulation_steps is {accumulation} instead of 1" in r.out or
                                    accumulation == 1), r.out)
            for step, loss in losses(out, update).items():
                near = abs(loss - expected[step]) <= 1e-5 * abs(expected[step])
                expect(step > until or near, f"{world} ranks, update {step}: {loss}, not {expected[step]}")
            folder = out
        # The same command with fewer ranks, as a launcher starts it again.
        out = copied(f, straight, 26, "fewer")
        more = flags + ["--resume_from_checkpoint", "true", "--stop_at_update", "30", "--gradient_accumulation_steps"]
        r = start(binary, out, more + ["2"])
        expect(r.code == 9 and "gradient_accumulation_steps is 4 instead of 2" in r.out, r.out)
        r = start(binary, out, more + ["3"])
        expect(r.code == 2 and "24 = 8 x 3 x 1 now" in r.out, r.out)
        edited = f.compile(job(f, TIED, "1_396"), "edited", ["train.gradient_accumulation_steps=3"])
        r = start(edited, copied(f, straight, 26, "edit"), more[:-1], 2)
        expect(r.code == 2 and "48 = 8 x 3 x 2 now" in r.out, r.out)
        # Another global batch: named, and gone on from where samples are neither read twice nor left out.
        out = copied(f, straight, 26, "on3")
        more = flags + ["--resume_from_checkpoint", "true"]
        r = start(binary, out, more, 3)
        expect(r.code == 2 and "global batch: 32 = 8 x 2 x 2 then, 24 = 8 x 1 x 3 now (no" in r.out and
               "--resume_changes allow" in r.out, r.out)
        more += ["--resume_changes", "allow"]
        r = start(binary, out, more, 3)
        expect(r.code == 2 and "none begins there" in r.out and "--ignore_data_skip" in r.out, r.out)
        r = start(binary, out, more + ["--gradient_accumulation_steps", "2"], 1)
        expect(r.code == 0 and "that differs:\n  global batch" in r.out and "data at update 53 of 88" in r.out, r.out)


def batches():
    """Passes over the data stay what they are when the global batch changes: the run gets another number of updates, and a
    run that goes on from there has the same number."""
    flags = ["--max_steps", "-1", "--num_train_epochs", "2", "--eval_strategy", "no", "--gradient_accumulation_steps"]
    with Folder() as f:
        binary = f.compile(job(f), "train")
        straight = f.file("straight")
        r = start(binary, straight, flags + ["2"], 2)
        expect(r.code == 0, r.out)
        out = copied(f, straight, 26, "smaller")
        r = start(binary, out, flags + ["1", "--resume_from_checkpoint", "true", "--resume_changes", "allow"], 2)
        expect(r.code == 0 and "the run has 150 updates now, 88 before" in r.out, r.out)
        expect(read_log(out)[-1]["step"] == 26 + 2 * 88 - 52 and read_log(out)[-1]["epoch"] == 2.0, f"{read_log(out)[-1]}")
        same_from(f, binary, out, flags + ["1"], 39, 150, 2)


def changes():
    """What differs is listed, all of it at once; `allow` goes on."""
    flags = ["--max_steps", "30", "--save_steps", "10"]
    with Folder() as f:
        binary = f.compile(job(f), "train")
        straight = f.file("straight")
        expect(start(binary, straight, flags).code == 0, "the straight run failed")
        resume = ["--resume_from_checkpoint", os.path.join(straight, "checkpoint-10"), "--output_dir"]
        neutral = ["--logging_steps", "1", "--save_steps", "15", "--threads", "1", "--async_save", "false"]
        r = run([binary] + resume + [f.file("neutral"), "--max_steps", "30"] + neutral)
        expect(r.code == 0, r.out)
        equal(straight, f.file("neutral"), STATE[:1])
        other = ["--max_steps", "40", "--learning_rate", "0.001", "--seed", "1"]
        r = run([binary] + resume + [f.file("other")] + other)
        expect(r.code == 2 and all(t in r.out for t in (
            "max_steps: 30 then, 40 now", "learning_rate: 0.002 then, 0.001 now", "seed: 42 then, 1 now",
            "--resume_changes allow", "--init-from")), r.out)
        expect(not os.path.exists(f.file("other/log.jsonl")), "a log was begun")
        r = run([binary] + resume + [f.file("other")] + other + ["--resume_changes", "allow"])
        expect(r.code == 0 and "the run has 40 updates now, 30 before" in r.out and
               losses(f.file("other"), 10).keys() == {15, 20, 25, 30, 35, 40}, r.out)
        r = run([binary] + resume + [f.file("both"), "--init-from", "x.safetensors"])
        expect(r.code == 2 and "leave the other out" in r.out, r.out)


def other_job():
    """[43, 57] Other data, another model, a part that is not there."""
    flags = ["--max_steps", "20", "--save_steps", "10"]
    with Folder() as f:
        binary = f.compile(job(f), "train")
        straight = f.file("straight")
        expect(start(binary, straight, flags).code == 0, "the straight run failed")
        resume = flags + ["--resume_from_checkpoint", os.path.join(straight, "checkpoint-10")]
        binary = f.compile(job(f, rows="1_398"), "more")
        r = start(binary, f.file("out"), resume)
        expect(r.code == 2 and "the dataset has changed: 1397 training samples then, 1398 now" in r.out, r.out)
        r = start(binary, f.file("out"), resume + ["--resume_changes", "allow"])
        expect(r.code == 0 and "the dataset has changed" in r.out, r.out)
        binary = f.compile(job(f, "model net = Normalised(32)\n"), "wider")
        r = start(binary, f.file("out"), resume)
        expect(r.code == 2 and "the job: spec" in r.out, r.out)
        r = start(binary, f.file("out"), resume + ["--resume_changes", "allow"])
        expect(r.code == 3 and "does not fit the model" in r.out and "F32 [32, 64]" in r.out, r.out)
        binary = f.compile(job(f), "lion", ["train.optim=lion"])
        r = start(binary, f.file("out"), resume)
        expect(r.code == 2 and "optim: adamw_torch_fused then, lion now" in r.out, r.out)
        r = start(binary, f.file("out"), resume + ["--resume_changes", "allow"])
        expect(r.code == 3 and "optimizer.safetensors" in r.out and "--init-from" in r.out, r.out)
        r = start(f.compile(job(f), "train"), f.file("only"), flags + ["--save_only_model"])
        expect(r.code == 0, r.out)
        files = os.listdir(f.file("only/checkpoint-10"))
        expect("model.safetensors" in files and "optimizer.safetensors" not in files, f"{files}")
        more = flags + ["--save_only_model", "--resume_from_checkpoint"]
        r = start(f.file("train"), f.file("only"), more + [f.file("only/checkpoint-10")])
        expect(r.code == 3 and "save_only_model" in r.out and "--init-from" in r.out, r.out)
        r = start(f.file("train"), f.file("only"), more + ["true"])
        expect(r.code == 0 and "checkpoint-20: it holds weights only" in r.out and "from the beginning" in r.out, r.out)


def skip():
    """ignore_data_skip: the data of the epoch from its beginning, everything else goes on."""
    flags = ["--max_steps", "30", "--save_steps", "10", "--logging_steps", "1", "--eval_strategy", "no"]
    with Folder() as f:
        binary = f.compile(job(f), "train")
        straight = f.file("straight")
        expect(start(binary, straight, flags).code == 0, "the straight run failed")
        out = f.file("out")
        r = start(binary, out, flags + ["--resume_from_checkpoint", os.path.join(straight, "checkpoint-10"),
                                        "--ignore_data_skip"])
        expect(r.code == 0, r.out)
        one, two = ({r["step"]: r for r in read_log(o) if "loss" in r} for o in (straight, out))
        expect(sorted(two) == list(range(11, 31)), f"{sorted(two)}")
        for step in two:
            expect(two[step]["epoch"] == one[step - 10]["epoch"] and
                   two[step]["learning_rate"] == one[step]["learning_rate"], f"update {step}: {two[step]}")


def no_room():
    """A save that fails while training goes on ends the run at once, on all ranks, and leaves nothing half-written;
    what was complete stays."""
    flags = ["--max_steps", "100000", "--save_steps", "400", "--logging_steps", "20", "--eval_strategy", "no"]
    with Folder() as f:
        binary = f.compile(job(f), "train")
        out = f.file("out")
        expect(start(binary, out, flags + ["--stop_at_update", "50"], 2).code == 9, "the run did not stop")
        log = os.path.join(out, "log.jsonl")
        os.remove(log)
        p = subprocess.Popen([binary, "--output_dir", out, "--nproc-per-node", "2", "--resume_from_checkpoint", "true"] +
                             flags, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            wait_for(lambda: os.path.exists(log) and len(read_log(out)) > 2, 20, "the log")
            resource.prlimit(children(p.pid)[0], resource.RLIMIT_FSIZE, (20000, 20000))
            text, _ = p.communicate(timeout=40)
        finally:
            for pid in children(p.pid).values():
                os.kill(pid, signal.SIGKILL)
        expect(p.returncode == 6 and "cannot write" in text and "checkpoint-400.partial/" in text, text)
        steps = [record["step"] for record in read_log(out) if "loss" in record]
        expect(400 <= max(steps) < 800, f"the run went on to update {max(steps)}")
        left = [n for n in os.listdir(out) if "checkpoint" in n]
        expect(left == ["checkpoint-50"], f"{left}")
        r = start(binary, out, flags + ["--resume_from_checkpoint", "true", "--stop_at_update", "60"], 2)
        expect(r.code == 9 and "checkpoint-50: update 50" in r.out, r.out)


def no_memory():
    """Where no copy fits into memory, training waits while checkpoints are written; they are the same."""
    flags = ["--max_steps", "60", "--save_steps", "40", "--logging_steps", "1", "--eval_strategy", "no"]
    with Folder() as f:
        binary = f.compile(job(f, "model net = Normalised(400)\n"), "train")
        straight, out = f.file("straight"), f.file("out")
        r = start(binary, straight, flags)
        expect(r.code == 0 and "no room for a copy" not in r.out, r.out)
        p = subprocess.Popen([binary, "--output_dir", out] + flags, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             start_new_session=True)
        try:
            log = os.path.join(out, "log.jsonl")
            wait_for(lambda: os.path.exists(log) and len(read_log(out)) > 2, 20, "the log")
            with open(f"/proc/{p.pid}/statm") as file:
                now = int(file.read().split()[0]) * resource.getpagesize()
            resource.prlimit(p.pid, resource.RLIMIT_AS, (now + (8 << 20), now + (8 << 20)))
            text, _ = p.communicate(timeout=60)
        finally:
            for pid in children(p.pid).values():
                os.kill(pid, signal.SIGKILL)
        expect(p.returncode == 0 and "no room for a copy of weights and optimizer state" in text, text)
        for update in (40, 60):
            equal(os.path.join(straight, f"checkpoint-{update}"), os.path.join(out, f"checkpoint-{update}"))


def folders():
    """[52] 200 saves of 8 ranks into folders that are not there: only rank 0 makes, renames and removes anything."""
    with Folder() as f:
        binary, trace, out = f.compile(job(f), "train"), f.file("trace"), f.file("not/there/yet")
        calls = "mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir"
        r = run(["strace", "-f", "-Y", "-e", "trace=" + calls, "-o", trace, binary, "--output_dir", out, "--nproc-per-node",
                 "8", "--threads", "1", "--max_steps", "200", "--save_steps", "1", "--eval_strategy", "no"], limit=100)
        expect(r.code == 0, r.out)
        found = set(os.listdir(out))
        expect({f"checkpoint-{n}" for n in range(1, 201)} <= found and not any(n.startswith(".") for n in found), f"{found}")
        with open(trace) as file:
            lines = [line for line in file if "/not" in line or "checkpoint-" in line]
        expect(sum("rename" in line and ".partial" in line for line in lines) >= 200, "no renames were seen")
        others = [line for line in lines if "<ddp rank 0>" not in line.split("(")[0]]
        expect(not others, f"{others[:3]}")
        # One takes the place of another, also on a file system that cannot exchange two folders.
        for seed, fault in ("1", []), ("2", ["-e", "inject=renameat2:error=EINVAL"]):
            flags = ["--max_steps", "3", "--warmup_steps", "0", "--save_steps", "1", "--eval_strategy", "no", "--seed", seed]
            r = run(["strace", "-f", "-e", "trace=renameat2,rename"] + fault + ["-o", trace, binary, "--output_dir", out] +
                    flags, limit=60)
            expect(r.code == 0 and not any(n.startswith(".") for n in os.listdir(out)), r.out)
            with open(trace) as file:
                text = file.read()
            expect("INJECTED" in text and "checkpoint-3.old" in text if fault else "RENAME_EXCHANGE) = 0" in text, text)
            r = start(binary, f.file("on"), flags + ["--resume_from_checkpoint", os.path.join(out, "checkpoint-2")])
            expect(r.code == 0, r.out)


TESTS = {
    "digits": digits,
    "damaged": damaged,
    "normalised": kind(flags=["--gradient_accumulation_steps", "2"]),
    "one_rank": kind(ranks=1),
    "four_ranks": kind(ranks=4, updates=(39,), flags=["--sharding", "accelerate"]),
    "epochs": kind(flags=["--max_steps", "-1", "--num_train_epochs", "2.5", "--ema_decay", "0.9", "--comm_hook",
                          "bf16_compress"] + [f"--{what}_strategy=epoch" for what in ("logging", "eval", "save")],
                   updates=(88, 176), last=220),
    "gloo": kind(updates=(52,), flags=["--intra_node", "backend"]),
    "tied": kind(model=TIED),
    "recurrent": kind(model=RECURRENT),
    "groups": kind(model=GROUPS),
    "bf16": kind(["train.bf16=true"]),
    "fp16": kind(["train.fp16=true", "scale=64"], look=skips),
    "plateau": kind(["train.lr_scheduler_type=reduce_lr_on_plateau",
                     "train.lr_scheduler_kwargs={patience=0,threshold=0.2,factor=0.5,cooldown=1}"], look=falls),
    "greedy": kind(["train.lr_scheduler_type=greedy",
                    "train.lr_scheduler_kwargs={patience=0,threshold=0.2,factor=0.5,smooth=true,window_size=3}"],
                   look=falls),
    "own_buffers": own_buffers,
    "ranks": ranks,
    "batches": batches,
    "changes": changes,
    "other_job": other_job,
    "skip": skip,
    "no_room": no_room,
    "no_memory": no_memory,
    "folders": folders,
}
if __name__ == "__main__":
    main(TESTS)
