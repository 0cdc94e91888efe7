"""`load` in a model block: what does not fit is found when the job is compiled, and the program starts
from the files. In: ddpc. Out: exit 0, or what differed."""
import json
import os
import struct
import subprocess
import sys
import tempfile

DDPC = os.path.realpath(sys.argv[1])
JOB = """edition 1

dataset flowers {
  field x: float[4]
  field y: uint8 in 0..3

  split train = csv("rows.csv")
}

module Net() {
  body = Sequential(Linear(4, 8), ReLU())
  head = Linear(8, 3)

  forward(x: [B, 4]) -> [B, 3] {
    return head(body(x))
  }
}

model net = Net() {
  LOAD
}

objective {
  loss = cross_entropy(net(flowers.x), flowers.y)
}

train {
  output_dir = "out"
  seed = SEED
}
"""
SHAPES = {"body.0.weight": [8, 4], "body.0.bias": [8], "head.weight": [3, 8], "head.bias": [3]}


def write(path, shapes, value):
    header, at, data = {}, 0, b""
    for name, shape in shapes.items():
        n = 1
        for s in shape:
            n *= s
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * n]}
        data += struct.pack("<%df" % n, *[value + i for i in range(n)])
        at += 4 * n
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    out = {}
    for name, e in header.items():
        if name != "__metadata__":
            a, b = e["data_offsets"]
            out[name] = struct.unpack("<%df" % ((b - a) // 4), raw[8 + n + a:8 + n + b])
    return out


def run(*args):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120)


def compile_job(load, seed=1, command=None):
    open("job.ddp", "w").write(JOB.replace("LOAD", load).replace("SEED", str(seed)))
    return run(DDPC, *(command or []), "job.ddp", *([] if command else ["-o", "train"]))


def expect(said, *texts):
    for text in texts:
        if text not in said:
            sys.exit("missing: %s\nin: %s" % (text, said))


def weights(load, *flags):
    said = compile_job(load)
    if said.returncode:
        sys.exit(said.stdout)
    said = run("./train", "--init_only", *flags)
    if said.returncode:
        sys.exit(said.stdout)
    return read("out/model.safetensors")


def same(have, want):
    if have != want:
        sys.exit("%s is not %s" % (have[:4], want[:4]))


def main():
    os.chdir(tempfile.mkdtemp())
    open("rows.csv", "w").write("1,2,3,4,0\n4,3,2,1,2\n")
    write("all.safetensors", SHAPES, 1.0)
    write("part.safetensors", {"0.weight": [8, 4], "0.bias": [8]}, 100.0)
    write("wide.safetensors", dict(SHAPES, **{"head.weight": [10, 8], "head.bias": [10]}), 1.0)
    write("more.safetensors", dict(SHAPES, **{"neck.bias": [2]}), 1.0)
    write("less.safetensors", {k: v for k, v in SHAPES.items() if k != "head.bias"}, 1.0)
    open("broken.safetensors", "wb").write(b"\x05\0\0\0\0\0\0\0{}")

    for command in (None, ["check"], ["plan"]):
        said = compile_job('load "wide.safetensors"', command=command)
        assert said.returncode == 1, said.stdout
        expect(said.stdout, "job.ddp:20:3: error[E0810]", "2 tensors have another type or shape",
               "head.weight: in the spec F32 [3, 8], in the file F32 [10, 8]")
    expect(compile_job('load "more.safetensors"').stdout, "E0809", "neck.bias: in the spec nothing, "
           "in the file F32 [2]")
    expect(compile_job('load "less.safetensors"').stdout, "E0808", "head.bias: in the spec F32 [3], "
           "in the file nothing")
    expect(compile_job('load "broken.safetensors"').stdout, "E0811")
    expect(compile_job('load "all.safetensors" except haed').stdout, "E0603", "did you mean `head`?")
    expect(compile_job('load head.weight = "all.safetensors"').stdout, "E0604")

    drawn = weights("freeze head.bias")
    whole = read("all.safetensors")
    have = weights('load "all.safetensors"')
    for name in SHAPES:
        same(have[name], whole[name])
    have = weights('load "wide.safetensors" except head')
    same(have["body.0.weight"], whole["body.0.weight"])
    same(have["head.weight"], drawn["head.weight"])
    have = weights('load "all.safetensors"\n  load body = "part.safetensors"')
    same(have["body.0.bias"], read("part.safetensors")["0.bias"])
    same(have["head.bias"], whole["head.bias"])

    # A file that comes later is looked at when the program starts; --init_from takes its place.
    assert compile_job('load "late.safetensors"').returncode == 0
    said = run("./train", "--init_only")
    assert said.returncode == 3, said.stdout
    expect(said.stdout, "late.safetensors")
    have = weights('load "late.safetensors"', "--init_from", "all.safetensors")
    same(have["head.bias"], whole["head.bias"])
    compile_job('load "late.safetensors"')
    write("late.safetensors", {"head.weight": [3, 8]}, 1.0)
    expect(run("./train", "--init_only").stdout, "does not fit the model", "body.0.weight")
    print("load: files are compared and read")


main()
