"""What the tests of bug reports share: jobs of this folder compiled once per variant, data written by the
test, weights read back. On top of tests/e2e/ddptest.py; only Python's standard library."""
import json
import os
import shutil
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

from ddptest import DDPC, Failure, Folder, collectives, expect, main, must, read_log, run  # noqa: E402,F401

FORMATS = {"F32": ("f", 4), "F64": ("d", 8), "I64": ("q", 8)}


def tensors(path):
    """{name: flat list} of a safetensors file, and its metadata; any fault of the file is a Failure."""
    with open(path, "rb") as f:
        data = f.read()
    expect(len(data) >= 8, f"{path}: {len(data)} bytes")
    size = struct.unpack("<Q", data[:8])[0]
    expect(8 + size <= len(data), f"{path}: header of {size} bytes in {len(data)}")
    header = json.loads(data[8:8 + size])
    meta, out, end = header.pop("__metadata__", {}), {}, 0
    for name, t in header.items():
        letter, width = FORMATS[t["dtype"]]
        begin, stop = t["data_offsets"]
        out[name] = list(struct.unpack(f"<{(stop - begin) // width}{letter}",
                                       data[8 + size + begin:8 + size + stop]))
        end = max(end, stop)
    expect(8 + size + end == len(data), f"{path}: {len(data)} bytes, {8 + size + end} announced")
    return out, meta


class Job:
    """A job of this folder in a temporary one, with data files beside it."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.binaries, self.runs = {}, 0
        shutil.copy(os.path.join(HERE, name + ".ddp"), folder.path)

    def data(self, **files):
        """data(train=rows): train.csv from a list of rows, or from text or bytes as they are."""
        for name, rows in files.items():
            if isinstance(rows, list):
                rows = "".join(",".join(map(str, r)) + "\n" for r in rows)
            if isinstance(rows, str):
                rows = rows.encode()
            with open(self.folder.file(name + ".csv"), "wb") as f:
                f.write(rows)

    def binary(self, **defines):
        """Compiled once per set of -D; train settings by bare name."""
        key = tuple(sorted(defines.items()))
        if key not in self.binaries:
            out = self.folder.file(f"{self.name}{len(self.binaries)}")
            args = [DDPC, self.folder.file(self.name + ".ddp"), "-o", out]
            for name, value in key:
                param = name.isupper()
                args += ["-D", f"{'' if param else 'train.'}{name}={value}"]
            must(args)
            self.binaries[key] = out
        return self.binaries[key]

    def start(self, flags="", ranks=1, env=None, **defines):
        """Runs to the end; whatever it came to. Returns (Run, folder of the output)."""
        self.runs += 1
        out = self.folder.file(f"out-{self.name}-{self.runs}")
        args = [self.binary(**defines), "--output_dir", out] + flags.split()
        r = run(args + (["--nproc-per-node", str(ranks)] if ranks > 1 else []), limit=30, env=env)
        return r, out

    def train(self, flags="", ranks=1, env=None, **defines):
        """Must succeed. Returns (records of the log, folder of the output)."""
        r, out = self.start(flags, ranks, env, **defines)
        expect(r.code == 0, f"{self.name} {flags} with {ranks} ranks: exit {r.code}\n{r.out}")
        return read_log(out), out

    def fails(self, text, flags="", ranks=1, env=None, **defines):
        """Must end with an error that says `text` once."""
        r, out = self.start(flags, ranks, env, **defines)
        expect(r.code not in (0, 1) and r.code > 0, f"{self.name} {flags}: exit {r.code}\n{r.out}")
        expect(r.out.count(text) == 1, f"{self.name} {flags}: not once '{text}':\n{r.out}")
        expect(not os.path.exists(os.path.join(out, "model.safetensors")), "weights were saved after an error")
        return r


def weights(out, part=""):
    return tensors(os.path.join(out, part, "model.safetensors"))[0]


def logged(log, key):
    return [r[key] for r in log if key in r]


def near(got, wanted, what, tolerance=1e-6):
    got, wanted = (list(x) if isinstance(x, (list, tuple)) else [x] for x in (got, wanted))
    expect(len(got) == len(wanted), f"{what}: {got}, not {wanted}")
    for a, b in zip(got, wanted):
        expect(abs(a - b) <= tolerance * max(1, abs(b)), f"{what}: {got}, not {wanted}")
