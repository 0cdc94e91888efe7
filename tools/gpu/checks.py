"""The parts of `gpu-check run` that are right or wrong. Each takes a Bench and returns lines for the report; it raises Wrong
where a number or an exit is not as it must be, and NotHere where it has nothing to look at."""
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import time

from programs import BF16, FLAGS, LARGE, LATER, PROGRAMS, START


class Wrong(Exception):
    pass


class NotHere(Exception):
    pass


class Bench:
    """Runs the programs that were built, each in a folder of its own, within the time that is left."""

    def __init__(self, pack, machine, description, builder, work):
        self.pack, self.machine, self.programs, self.builder = pack, machine, description["programs"], builder
        self.work, self.deadline, self.trained = work, 0.0, {}

    def need(self, name):
        if name not in self.builder.made:
            packed = name in self.programs or (name == "ops" and os.path.isdir(os.path.join(self.pack, "ops")))
            raise Wrong(f"{name} was not built") if packed else NotHere(f"{name} is not in the pack")
        if self.builder.made[name]:
            raise Wrong(f"{name} was not built:\n{self.builder.made[name]}")
        return self.builder.binary(name)

    def call(self, command, env=None, code=0):
        """Output of a command that ends with this code; None: any."""
        left = self.deadline - time.monotonic()
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             env=self.machine.environment(env), start_new_session=True)
        try:
            out, _ = p.communicate(timeout=max(left, 1))
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, _ = p.communicate()
            raise Wrong(f"still running when its time was over: {' '.join(command)}\n{out[-2000:]}")
        if code is not None and p.returncode != code:
            raise Wrong(f"exit {p.returncode}: {' '.join(command)}\n{out[-3000:]}")
        return out

    def train(self, name, run, updates, env=None, flags=(), before=()):
        """Trains into a new folder; (folder, records of the log, output)."""
        out = os.path.join(self.work, run)
        shutil.rmtree(out, ignore_errors=True)
        said = self.call([*before, self.need(name), "--output_dir", out, "--max_steps", str(updates), *FLAGS,
                          *PROGRAMS[name].run, *flags], env)
        return out, read_log(out), said


def read_log(folder):
    with open(os.path.join(folder, "log.jsonl")) as f:
        return [json.loads(line) for line in f]


def losses_of(log):
    return [r["loss"] for r in log if "loss" in r]


def tensors(folder):
    """Of model.safetensors: {name: floats}."""
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    header.pop("__metadata__", None)
    return {k: struct.unpack(f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // 4}f", data[slice(*v["data_offsets"])])
            for k, v in header.items() if v["dtype"] == "F32"}


def weights(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        return f.read()


def far(mine, theirs, start, later):
    """The worst of the first loss and of the later ones, relative; raises where it is too much."""
    if len(mine) != len(theirs) or not mine:
        raise Wrong(f"{len(mine)} losses, and {len(theirs)} on the CPU")
    off = [abs(a - b) / max(abs(b), 1e-6) if math.isfinite(a) else math.inf for a, b in zip(mine, theirs)]
    for i, x in enumerate(off):
        if x > (start if i == 0 else later):
            raise Wrong(f"update {i + 1}: loss {mine[i]:.8g}, and {theirs[i]:.8g} on the CPU")
    return off[0], max(off[1:], default=0)


def each(names, look):
    """look(name) for all, before what is wrong is told: lines, of which one is for each name."""
    lines, bad, there = [], 0, 0
    for name in names:
        try:
            lines.append(f"{name}: {look(name)}")
            there += 1
        except NotHere as e:
            lines.append(f"{name}: not run: {e}")
        except Wrong as e:
            lines.append(f"{name}: WRONG: {e}")
            bad += 1
    if bad:
        raise Wrong("\n".join(lines))
    if not there:
        raise NotHere("; ".join(lines))
    return lines


# ---------- the parts ----------
def ops(b):
    """Every graph of the op table, with the tolerance of its type against the interpreter."""
    out = b.call([b.need("ops"), os.path.join(b.pack, "ops", "cases.bin")], code=None)
    lines = out.strip().splitlines()
    if not lines or not re.match(r"\d+ cases, 0 wrong", lines[-1]):
        raise Wrong("\n".join(lines[-40:]))
    return lines


def losses(b):
    """Every example against what the CPU computed."""
    def look(name):
        if not PROGRAMS[name].updates or "losses" not in b.programs.get(name, {}):
            raise NotHere("not in the pack")
        program, theirs = PROGRAMS[name], b.programs[name]["losses"]
        _, log, _ = b.train(name, f"losses-{name}", len(theirs))
        first, later = far(losses_of(log), theirs, program.start, program.later)
        return f"{len(theirs)} updates, the first loss differs by {first:.1e}, later ones by up to {later:.1e}"
    return each([n for n, p in PROGRAMS.items() if p.updates and p.later == LATER and p.start == START], look)


def bf16(b):
    """Likewise in 16 bits; and GPT-2 begins near the entropy of its vocabulary."""
    def look(name):
        if name.startswith("gpt2"):
            _, log, _ = b.train(name, "bf16-gpt2", 4)
            first = losses_of(log)[0]
            if not abs(first - math.log(50257)) < 0.3:
                raise Wrong(f"the first loss is {first}, and ln 50257 = {math.log(50257):.3f}")
            return f"the first loss is {first:.4f}"
        theirs = b.programs.get(name, {}).get("losses")
        if not theirs:
            raise NotHere("not in the pack")
        _, log, _ = b.train(name, f"bf16-{name}", len(theirs))
        first, later = far(losses_of(log), theirs, BF16, BF16)
        return f"{len(theirs)} updates, losses differ by up to {max(first, later):.1e}"
    return each(["digits_bf16", "char_gpt_bf16", "gpt2_b4"], look)


SAME = ["digits", "mnist_cnn", "char_gpt_bf16", "gpt2_b4"]  # what runs twice


def same(b, ways):
    def look(name):
        updates = min(20, len(b.programs[name].get("losses", [0] * 4))) if name in b.programs else 0
        found = []
        for i, env in enumerate(ways):
            out, _, _ = b.train(name, f"same-{name}-{i}", updates, env, ["--gradient_accumulation_steps", "2"])
            found.append(weights(out))
            shutil.rmtree(out)
        if any(w != found[0] for w in found):
            raise Wrong("other weights")
        return f"the same {len(found[0])} bytes of weights after {updates} updates"
    return each(SAME, look)


def twice(b):
    """The same run again leaves the same bits."""
    return same(b, [{}, {}])


def graphs(b):
    """Replayed passes and launched ones leave the same bits."""
    return same(b, [{}, {"DDP_CUDA_GRAPHS": "0"}])


def gradients(folder, before):
    """What one step of SGD changed, as {what: numbers}: queries, keys and values by themselves."""
    out = {}
    for name, numbers in tensors(folder).items():
        step, part = [x - y for x, y in zip(numbers, before[name])], len(numbers) // 3
        out.update({f"{what} of {name}": step[k * part:(k + 1) * part] for k, what in enumerate(("q", "k", "v"))})
    return out


def apart(a, b):
    """|a - b| / |b|"""
    size = math.sqrt(sum(x * x for x in b))
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b))) / size if size else 0.0


def attention(b):
    """cuDNN against the generated kernel, at the shape of GPT-2: gradients, as one step of SGD leaves them."""
    if b.machine.emulated:
        raise NotHere("the emulator has no cuDNN")

    def look(name):
        begin, _, _ = b.train(name, f"{name}-begin", 1, {"DDP_CUDNN_LIBRARY": "none"}, ["--learning_rate", "0"])
        before, found, value = tensors(begin), [], []
        for env in {}, {"DDP_CUDNN_LIBRARY": "none"}:
            out, log, said = b.train(name, name, 1, env)
            without = [line for line in said.splitlines() if re.search("cudnn", line, re.I)]
            if not env and without:
                raise NotHere(f"cuDNN was not used: {without[0]}")
            found.append(gradients(out, before))
            value.append(losses_of(log)[0])
        if not any(map(any, found[1].values())):
            raise Wrong("the generated kernel gives no gradient")
        off = {k: apart(x, found[1][k]) for k, x in found[0].items() if "weight" in k}
        text = ", ".join(f"{k} {x:.1e}" for k, x in off.items())
        if not max(off.values()) <= 3e-2 or not abs(value[0] - value[1]) <= 1e-3 * abs(value[0]):
            raise Wrong(f"gradients differ by so much of their norm: {text}; losses are {value}")
        return f"gradients differ by so much of their norm: {text}; losses by {abs(value[0] - value[1]):.1e}"
    lines = each(["attention_b4", "attention_b32"], look)

    def whole(name):
        a, c = (losses_of(b.train(name, "cudnn", 5, env)[1]) for env in ({}, {"DDP_CUDNN_LIBRARY": "none"}))
        first, later = far(a, c, BF16, BF16)
        return f"losses with cuDNN and without differ by up to {max(first, later):.1e}"
    return lines + each(["gpt2_b4"], whole)


def nccl(b):
    """One rank that sends its gradients through NCCL: the same bits, in graphs or not."""
    def look(name):
        alone = {"DDP_NCCL_ALONE": "1"}
        found = []
        for i, env in enumerate(({}, alone, dict(alone, DDP_CUDA_GRAPHS="0"))):
            out, log, _ = b.train(name, f"nccl-{name}-{i}", 12, env, ["--ddp_bucket_cap_mb", "1"])
            if (log[0].get("path") == "nccl") != bool(env):
                raise Wrong(f"{env}: the log names the path {log[0].get('path')}")
            found.append(weights(out))
        if any(w != found[0] for w in found):
            raise Wrong("other weights than without NCCL")
        return f"{log[0].get('buckets')} buckets, the same weights as without NCCL"
    return each(["digits", "mnist", "char_gpt_bf16"], look)


def large(b):
    """A buffer of more than 2^31 bytes: counted, changed and read at its end."""
    if b.machine.emulated:
        raise NotHere("the emulator would take hours")
    _, log, _ = b.train("large", "large", 2)
    far(losses_of(log)[1:], [LARGE / 1e6 + 3], START, START)
    return [f"{LARGE} bytes: the sum and the last one are right after two updates"]


def sanitizer(b):
    """compute-sanitizer on small runs."""
    if b.machine.emulated:
        raise NotHere("there is no compute-sanitizer in the emulator")
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer"]
    program = next((p for p in places if p and os.path.exists(p)), None)
    if not program:
        raise NotHere("compute-sanitizer is not installed")

    def look(pair):
        tool, name = pair.split(" ")
        before = [program, "--tool", tool, "--error-exitcode", "99"]
        if name == "ops":
            said = b.call([*before, b.need(name), os.path.join(b.pack, "ops", "cases.bin"), "7"])  # every 7th
        else:
            _, _, said = b.train(name, f"{tool}-{name}", 3, {"DDP_CUDA_GRAPHS": "0"}, before=before)
        if "Device not supported" in said:
            raise NotHere("this machine does not let it look at the device")
        found = re.search(r"ERROR SUMMARY: (.*)|RACECHECK SUMMARY: (.*)", said)
        return found.group(1) or found.group(2) if found else "nothing found"
    return each(["memcheck digits", "racecheck digits", "initcheck digits", "memcheck breast_cancer", "racecheck custom_op",
                 "memcheck ops"], look)
