"""Checkpoints with random damage under checksums that fit: what is wrong inside them is an error with a name, or
harmless; never a crash, a hang, or a run that goes on from nonsense."""
import ctypes
import ctypes.util
import json
import os
import random
import shutil
import sys

from chaos import JOB, Folder, amount, expect, main, must, run

INPUTS = amount("DDP_CHAOS_INPUTS", 60)
SEED = os.environ.get("DDP_CHAOS_SEED", "1")


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxh128(data):
    name = ctypes.util.find_library("xxhash") or "libxxhash.so.0"
    f = ctypes.CDLL(name).XXH3_128bits
    f.restype, f.argtypes = Hash128, [ctypes.c_char_p, ctypes.c_size_t]
    h = f(data, len(data))
    return f"{h.high:016x}{h.low:016x}"


def seal(folder):
    """Sizes and checksums of the manifest become those of the files that are there."""
    path = os.path.join(folder, "manifest.json")
    with open(path) as f:
        m = json.load(f)
    for entry in m.get("files", []):
        with open(os.path.join(folder, entry["name"]), "rb") as f:
            data = f.read()
        entry["bytes"], entry["xxh128"] = len(data), xxh128(data)
    m.pop("checksum", None)
    m["checksum"] = xxh128(json.dumps(m, separators=(",", ":"), ensure_ascii=False).encode())
    with open(path, "w") as f:
        json.dump(m, f, ensure_ascii=False, indent=2)


STRANGE = [0, -1, 1, 2 ** 31, 2 ** 62, -2 ** 63, 1e308, 0.5, "", "x" * 500, None, True, [], {}, [[]], "\u00e4\u4e2d"]


def places(value, at=()):
    yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from places(inner, at + (key,))


def change_json(value):
    """One value somewhere in it becomes another one, goes, or is doubled under another name."""
    at = random.choice([p for p in places(value) if p])
    inner = value
    for key in at[:-1]:
        inner = inner[key]
    kind = random.randrange(4)
    if kind == 0:
        del inner[at[-1]]
    elif kind == 1 and isinstance(inner, dict):
        inner[at[-1] + "2"] = inner[at[-1]]
    elif kind == 1:
        inner.append(inner[at[-1]])
    else:
        inner[at[-1]] = random.choice(STRANGE)
    return f"{'.'.join(map(str, at))} {('gone', 'doubled', 'strange', 'strange')[kind]}"


def change_tensors(data):
    """The header of a safetensors, or bytes anywhere."""
    n = int.from_bytes(data[:8], "little")
    kind = random.randrange(4)
    if kind == 0:
        at = random.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1:], f"bit {at} flipped"
    if kind == 1:
        cut = random.randrange(len(data))
        return data[:cut], f"cut at {cut}"
    if kind == 2:
        return data + bytes(random.randrange(1, 100)), "longer"
    header = json.loads(data[8:8 + n])
    what = change_json(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + n:], what


def damage(folder):
    name = random.choice([x for x in sorted(os.listdir(folder))])
    path = os.path.join(folder, name)
    with open(path, "rb") as f:
        data = f.read()
    if name.endswith(".json"):
        value = json.loads(data)
        what = change_json(value)
        data = json.dumps(value).encode()
    else:
        data, what = change_tensors(data)
    with open(path, "wb") as f:
        f.write(data)
    return f"{name}: {what}"


def damaged():
    random.seed(SEED)
    flags = ["--max_steps", "12", "--warmup_steps", "0", "--save_steps", "4", "--eval_strategy", "no"]
    with Folder() as f:
        binary, whole, out = f.compile(JOB, "train"), f.file("whole"), f.file("out")
        must([binary, "--output_dir", whole, *flags])
        seen = {}
        for i in range(INPUTS):
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(f"{whole}/checkpoint-8", f"{out}/checkpoint-8")
            if i:  # the first one is as it was: what this test writes itself is accepted
                what = damage(f"{out}/checkpoint-8")
            else:
                what = "nothing"
            try:
                seal(f"{out}/checkpoint-8")
            except (KeyError, TypeError, ValueError, AttributeError, OSError):
                pass  # so damaged that there is nothing to seal
            r = run([binary, "--output_dir", out, *flags, "--resume_from_checkpoint", "true",
                     *(["--nproc-per-node", "2", "--resume_changes", "allow"] if i % 4 == 3 else [])], limit=30)
            # 2: written with other settings; 3: refused; 8: other weights, which are not finite; 0: other weights,
            # or passed over.
            expect(r.code in (0, 2, 3, 8), f"input {i} ({what}): exit {r.code}\n{r.out}")
            expect(r.code != 3 or "checkpoint-8" in r.out, f"input {i} ({what}): which file?\n{r.out}")
            expect(i or (r.code == 0 and "/checkpoint-8: update 8" in r.out), f"a sealed one is refused:\n{r.out}")
            place = "/checkpoint-8: update 8 of 12, epoch 0.08889\n"
            expect(r.code or place in r.out or "no complete checkpoint" in r.out,
                   f"input {i} ({what}): goes on from nonsense\n{r.out}")
            seen[r.code] = seen.get(r.code, 0) + 1
        print(f"{INPUTS} damaged checkpoints: " + ", ".join(f"exit {k}: {v}" for k, v in sorted(seen.items())))
        expect(seen.get(3, 0) > INPUTS // 10, "hardly anything was refused")


try:
    xxh128(b"")
except OSError as e:
    print("skipped:", e)
    sys.exit(77)
main(dict(damaged=damaged))
