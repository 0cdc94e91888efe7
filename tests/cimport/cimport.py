#!/usr/bin/env python3
"""Tests of `import c`. A header in wrong/ carries /* error CODE `MARKED`: MESSAGE */ on the wrong line (a help
may follow after " | "): exactly these diagnostics must come, at that line, with MARKED under the carets.
/* job: error ... */ stands for one at the line of the job that calls the operator; /* call: EXPRESSION */
says how it is called. usage: cimport.py TEST"""
import glob, json, os, re, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("DDP_BUILD", os.path.join(ROOT, "build"))
DDPC = os.path.join(BUILD, "ddpc")

JOB = """edition 1

import c "ops.h" as ops

dataset data {
  let rows = csv("rows.csv")
  field x: float[4]
  field y: float
  split train = rows
}

model net = Linear(4, 4)

objective {
  x = net(data.x)
  h = %s
  loss = mse_loss(sum(h, -1), data.y)
}

train {
  num_train_epochs = 3
  per_device_train_batch_size = 4
  logging_steps = 1
  save_strategy = no
}
"""
CALL_LINE = 16


def fail(text):
    sys.exit("FAIL " + text)


def run(*args, code=0, **more):
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, **more)
    if code is not None and done.returncode != code:
        fail("%s: exit status %d\n%s%s" % (" ".join(args), done.returncode, done.stdout, done.stderr))
    return done.stdout + done.stderr


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def rows(folder):
    write(os.path.join(folder, "rows.csv"),
          "".join("%g,%g,%g,%g,%g\n" % (i % 3 - 1, i % 5 * 0.3, i % 7 * 0.2 - 0.5, i % 2, i % 4) for i in range(16)))


# ---------- messages ----------

REPORT = re.compile(r"^(\S*?)([^/:]+):(\d+):\d+: (error|warning)\[(\w+)\]: (.*)$")
WANTED = re.compile(r"/\* (job: )?(error|warning) (\w+) `([^`]*)`: (.*?)(?: \| (.*?))? \*/")


def reports(text):
    """(file, line, severity, code, marked, message, help) of each diagnostic."""
    out, lines = [], text.split("\n")
    for i, line in enumerate(lines):
        m = REPORT.match(line)
        if not m:
            if line.startswith("help: ") and out and not out[-1][6]:
                out[-1][6] = line[6:]
            continue
        source, carets = lines[i + 1].split("| ", 1)[1], lines[i + 2].split("| ", 1)[1]
        marked = "".join(c for c, k in zip(source, carets) if k == "^")
        out.append([m[2], int(m[3]), m[4], m[5], marked, m[6], ""])
    return out


def wanted(header):
    out = []
    for n, line in enumerate(open(header), 1):
        for job, severity, code, marked, message, help_ in WANTED.findall(line):
            where = ("job.ddp", CALL_LINE) if job else ("ops.h", n)
            out.append([*where, severity, code, marked, message, help_])
    return out


def compare(name, want, have):
    bad = []
    for w in want:
        same = [h for h in have if h[:6] == w[:6] and (not w[6] or h[6] == w[6])]
        if same:
            have.remove(same[0])
        else:
            bad.append("  missing  %s" % w)
    bad += ["  reported %s" % h for h in have]
    if bad or not want:
        print("%s:\n%s" % (name, "\n".join(bad) or "  expects nothing"))
    return not bad and want


def test_wrong():
    good, files = True, sorted(glob.glob(os.path.join(HERE, "wrong", "*.h")))
    if len(files) < 5:
        fail("where are the headers?")
    for path in files:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(path, os.path.join(folder, "ops.h"))
            write(os.path.join(folder, "ops.c"), '#include "ops.h"\n')
            rows(folder)
            call = re.search(r"/\* call: (.*?) \*/", open(path).read())
            job = os.path.join(folder, "job.ddp")
            write(job, JOB % (call[1] if call else "ops.f(x)"))
            have = reports(run(DDPC, "check", job, code=1))
            good = compare(os.path.basename(path), wanted(path), have) and good
    if not good:
        fail("messages differ")


def test_without():
    said = run(os.environ["DDPC_WITHOUT"], "check", os.path.join(ROOT, "examples/custom_op/job.ddp"), code=1)
    have = reports(said)
    if len(have) != 1 or have[0][3] != "E0911" or have[0][1] != 5:
        fail("without libclang:\n" + said)
    if "libclang-14-dev" not in have[0][6]:
        fail("the help names no package: " + said)


# ---------- sources ----------

OPS_H = """#include <ddp/op.h>
DDP_OP(f(x: [B, N], by: float = 2.0) -> [B, N])
DDP_BODY(x * by)
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n, float by);
"""
OPS_C = """#include "ops.h"
void f(float *y, const float *x, int64_t b, int64_t n, float by) {
  for (int64_t i = 0; i < b * n; i++) y[i] = x[i] * by;
}
"""


def project(folder, c=OPS_C, h=OPS_H, call="ops.f(x)", job=JOB):
    os.makedirs(folder, exist_ok=True)
    rows(folder)
    write(os.path.join(folder, "ops.h"), h)
    if c:
        write(os.path.join(folder, "ops.c"), c)
    write(os.path.join(folder, "job.ddp"), job % call)
    return os.path.join(folder, "job.ddp")


def test_source():
    with tempfile.TemporaryDirectory() as t:
        job = project(t, c=OPS_C.replace("x[i] * by", "x[i] * bye"))
        said = run(DDPC, job, "-o", t + "/train", code=2)
        if "`%s/ops.c`, the source of an operator, does not compile" % t not in said or "ops.c:3:" not in said:
            fail("a source that does not compile:\n" + said)
        left = [f for f in os.listdir(t) if f.endswith(".o") or f.startswith("train")]
        if left:
            fail("left behind: %s" % left)
        no_body = project(t + "/a", c=None, h=OPS_H.replace("DDP_BODY(x * by)", "DDP_GRAD(x = g * by)"))
        said = run(DDPC, "check", no_body, code=1)
        if "E0307" not in said or "cannot read `ops.c`" not in said:
            fail("no source and no body:\n" + said)
        write(t + "/a/ops.cu", "")
        if "`ops.cu` is for GPUs" not in run(DDPC, "check", no_body, code=1):
            fail("a source for GPUs alone")
        # a function that stands in the header needs no source
        inline = OPS_H.replace("void f(", "static inline void f(").replace("float by);", "float by)")
        inline += OPS_C.split("float by)", 1)[1]
        job = project(t + "/b", c=None, h=inline)
        run(DDPC, job, "-o", t + "/b/train")


def spec_hash(job):
    text = run(DDPC, job, "--emit=c", "-o", "-")
    return re.search(r"job ([0-9a-f]{16}),", text)[1], text


def test_determinism():
    with tempfile.TemporaryDirectory() as t:
        first, text = spec_hash(project(t + "/one"))
        second, other = spec_hash(project(t + "/two/deep"))
        if text != other or first != second or t in text:
            fail("the text depends on where the job lies")
        if '#include "ops.h"' not in text or "f(" not in text:
            fail("no call")
        if "  x * by" not in text and "DDP_BODY(x * by)" not in text:
            fail("--spec does not hold the header")
        changed = [spec_hash(project(t + "/h", h=OPS_H + "\n/* other */\n"))[0],
                   spec_hash(project(t + "/c", c=OPS_C + "\n/* other */\n"))[0]]
        write(t + "/one/ops.cu", "/* for GPUs */\n")
        changed.append(spec_hash(t + "/one/job.ddp")[0])
        if len({first, *changed}) != 4:
            fail("header and sources do not enter the hash: %s %s" % (first, changed))


# ---------- training ----------

def losses(job, ranks, *flags):
    with tempfile.TemporaryDirectory() as t:
        said = run(DDPC, job, "-o", t + "/train")
        run(t + "/train", "--nproc-per-node", str(ranks), "--output_dir", t + "/out", *flags)
        records = [json.loads(line) for line in open(t + "/out/log.jsonl")]
        return [r["loss"] for r in records if "loss" in r], said


def same_losses(a, b, least):
    if len(a) != len(b) or len(a) < least:
        fail("%d and %d losses" % (len(a), len(b)))
    worst = max(abs(x - y) for x, y in zip(a, b))
    print("%d losses, largest difference %.2g" % (len(a), worst))
    if not worst <= 1e-6:
        fail("losses differ by %g" % worst)
    if not a[-1] < 0.8 * a[0]:
        fail("the loss does not fall: %g to %g" % (a[0], a[-1]))


def test_body():
    folder = os.path.join(ROOT, "examples/custom_op")
    text = open(folder + "/job.ddp").read()
    body = text.replace('import c "ops/swish_gate.h" as ops\n', "")
    body = body.replace("ops.swish_gate(a, b, beta = scale)", "b * a * sigmoid(scale * a)")
    if body.count("ops"):
        fail("the example has changed")
    flags = ["--logging_steps", "1", "--max_steps", "40"]
    with tempfile.TemporaryDirectory() as t:
        write(t + "/body.ddp", body.replace("../digits", ROOT + "/examples/digits"))
        same_losses(losses(folder + "/job.ddp", 2, *flags)[0], losses(t + "/body.ddp", 2, *flags)[0], 40)


ROPE = """edition 1

%s

param base: float = 100.0

module Turned(D: int) {
  query = Linear(D, D)
  key = Linear(D, D)

  forward(x: [B, D]) -> [B, D] {
    at = cast(arange(8), int32)
    q = rotary.rope(reshape(query(x), [-1, 8, 2, D // 16]), at, base)
    k = rotary.rope(reshape(key(x), [-1, 8, 2, D // 16]), at, base = base)
    return reshape(q * k, [-1, D])
  }
}

dataset digits {
  let rows = csv("%s/examples/digits/digits.csv.gz")
  field pixels: float[64] in 0..16
  field digit: uint8 in 0..10
  split train = rows[:80%%]
}

model net = Sequential(Linear(64, 64), Turned(64), Linear(64, 10))

objective {
  loss = cross_entropy(net(digits.pixels / 16), digits.digit)
}

train {
  max_steps = 40
  per_device_train_batch_size = 16
  logging_steps = 1
  optim = adamw
  learning_rate = 1e-2
  save_strategy = no
}
"""


def test_rope():
    with tempfile.TemporaryDirectory() as t:
        write(t + "/c.ddp", ROPE % ('import c "std/native/rope.h" as rotary', ROOT))
        write(t + "/d.ddp", ROPE % ('import "std/native/rope.ddp" as rotary', ROOT))
        emitted = run(DDPC, t + "/c.ddp", "--emit=c", "-o", "-")
        if '#include "std/native/rope.h"' not in emitted or emitted.count("ddp_rope_back_f32(") < 2:
            fail("the operator is not called")
        same_losses(losses(t + "/c.ddp", 2)[0], losses(t + "/d.ddp", 2)[0], 40)


def test_fallback():
    with tempfile.TemporaryDirectory() as t:
        a, _ = losses(project(t + "/op"), 1)
        b, said = losses(project(t + "/body", c=None), 1)
        if "W0912" not in said or "there is no `ops.c`" not in said:
            fail("nobody says that the body is compiled:\n" + said)
        if a != b or len(a) != 12:
            fail("%s is not %s" % (a, b))


def test_gpu():
    """For GPUs the body is compiled, with a warning, and what has none is refused."""
    with tempfile.TemporaryDirectory() as t:
        said = run(DDPC, project(t + "/body"), "--target", "cuda:sim", "--emit=cu", "-o", t + "/body.cu")
        if "W0912" not in said or "for a GPU the bodies of the operators of `ops.h` are" not in said:
            fail("nobody says that the body is compiled:\n" + said)
        with open(t + "/body.cu") as f:
            text = f.read()
        if "ops.h" in text or "* 2.0f" not in text:
            fail("the body is not in the text for GPUs")
        job = project(t + "/none", h=OPS_H.replace("DDP_BODY(x * by)", "DDP_GRAD(x = g * by)"))
        said = run(DDPC, job, "--target", "cuda:sm_90", "--emit=cu", code=1)
        if "E0716" not in said or "`f` has no body, and functions in C run on CPUs only" not in said or "DDP_BODY" not in said:
            fail("an operator without a body:\n" + said)
        run(DDPC, job, "--emit=c")


# ---------- compilers ----------

def test_compilers():
    native = os.path.join(ROOT, "stdlib/native")
    include = ["-I", os.path.join(ROOT, "runtime/include")]
    warn = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
    missing = [c for c in ("gcc", "g++", "clang", "nvcc") if not shutil.which(c)]
    with tempfile.TemporaryDirectory() as t:
        out = ["-c", "-o", t + "/out.o"]
        for header in [native + "/rope.h", ROOT + "/examples/custom_op/ops/swish_gate.h"]:
            for compiler, language in (("gcc", "c"), ("clang", "c"), ("g++", "c++")):
                if compiler not in missing:
                    run(compiler, "-x", language, *warn, *include, "-c", header, "-o", t + "/out.gch")
        for compiler in ("gcc", "clang"):
            if compiler not in missing:
                run(compiler, "-std=c11", *warn, *include, native + "/rope.c", *out)
        if "nvcc" not in missing:
            said = run("nvcc", *include, "-Xcompiler", "-Wall,-Wextra,-Werror", "--Werror", "all-warnings",
                       native + "/rope.cu", *out)
            if said.strip():
                fail("nvcc says\n" + said)
            write(t + "/use.cu", '#include "%s/examples/custom_op/ops/swish_gate.h"\n' % ROOT)
            run("nvcc", *include, "--Werror", "all-warnings", t + "/use.cu", *out)
    if missing:
        print("not here: " + " ".join(missing))
        sys.exit(77)


if __name__ == "__main__":
    globals()["test_" + sys.argv[1]]()
    print("ok")
