"""`tools/gpu-check pack`: the folder that goes to the machine with the GPU, and pack.json, which says what is in it.

Commands of compilers are those that ddpc prints when it calls them (--verbose), with names in braces for what lies
elsewhere there: {pack}, {include} and {lib} of the runtime, {nvcc}, {cxx}, {cc}."""
import glob
import json
import os
import shlex
import shutil
import subprocess
import sys

from checks import losses_of, read_log
from programs import FLAGS, PROGRAMS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 60 << 20
# What the runtime is built from, the op table's program, and the models in PyTorch.
SOURCES = ["CMakeLists.txt", "cmake", "runtime", "tables", "stdlib/native", "tests/cudasim", "bench/jobs.py",
           "tests/gpu/replay.c", "tests/gpu/recorded.h"]
# Libraries of the runtime that the other machine may lack the headers of: (package, header, archive).
PACKAGES = [("zlib1g-dev", "zlib.h", "libz.a"), ("zlib1g-dev", "zconf.h", None),
            ("libjansson-dev", "jansson.h", "libjansson.a"), ("libjansson-dev", "jansson_config.h", None),
            ("libxxhash-dev", "xxhash.h", "libxxhash.a"), ("libxxhash-dev", "xxh3.h", None)]
VENDOR = ["cublasLt.h", "cublas_api.h", "nccl.h", "cudnn*.h", "nvrtc.h"]


class Trouble(Exception):
    pass


def call(command, **how):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how)
    if r.returncode:
        raise Trouble(f"exit {r.returncode}: {shlex.join(command)}\n{r.stdout}")
    return r.stdout


class Pack:
    def __init__(self, folder, build, target):
        self.folder, self.build, self.target = os.path.abspath(folder), os.path.abspath(build), target
        self.ddpc = os.path.join(build, "ddpc")
        self.description = {"target": target, "programs": {}}

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def general(self, text):
        """A word of a command with the names of this machine's folders replaced."""
        for here, name in ((f"{self.build}/include/ddpc", "{include}"), (f"{self.build}/lib", "{lib}"),
                           (self.folder, "{pack}")):
            text = text.replace(here, name)
        return text

    def commands(self, job, out, flags):
        """The texts of the job as OUT.c and OUT.cu, and the commands that compile and link them."""
        tools = {f"DDPC_{name.upper()}": f"true {{{name}}}" for name in ("nvcc", "cxx", "cc")}
        said = call([self.ddpc, job, "--target", self.target, "-o", out, "--keep", "--verbose", *flags],
                    env=dict(os.environ, **tools))
        found = []
        for line in said.splitlines():
            if line.startswith("true {"):
                # as ddpc prints them: words with blanks between them, none of them quoted
                found.append([self.general(word) for word in line.split(" ")[1:] if word != "-DDDP_HAVE_DNNL=1"])
        if len(found) != 3:
            raise Trouble(f"three compilers were to be called:\n{said}")
        return found


# ---------- what is packed ----------
def add_sources(p):
    for pattern in SOURCES:
        for path in glob.glob(os.path.join(ROOT, pattern)):
            to = p.path("sources", os.path.relpath(path, ROOT))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            if os.path.isdir(path):
                shutil.copytree(path, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, to)
    shutil.copytree(os.path.join(ROOT, "tools", "gpu"), p.path("gpu"), ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(os.path.join(ROOT, "tools", "gpu-check"), p.path("gpu-check"))


def find(name, folders, why):
    for folder in folders:
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise Trouble(f"{name} is not in {' or '.join(folders)}: {why}")


def add_libraries(p):
    for part in "include", "lib":
        os.makedirs(p.path("prefix", part))
    for package, header, archive in PACKAGES:
        why = f"install {package} (tools/setup)"
        includes = ["/usr/include", *glob.glob("/usr/include/*-linux-gnu")]
        shutil.copy(find(header, includes, why), p.path("prefix", "include"))
        if archive:
            shutil.copy(find(archive, [*glob.glob("/usr/lib/*-linux-gnu"), "/usr/lib64", "/usr/lib"], why),
                        p.path("prefix", "lib"))


def cached(build, name):
    """A variable of CMake."""
    with open(os.path.join(build, "CMakeCache.txt")) as f:
        for line in f:
            if line.startswith(name + ":"):
                return line.split("=", 1)[1].strip()
    return ""


def add_vendor(p):
    """Headers of NVIDIA's libraries, which may be there without them, and of the frontend of cuDNN."""
    os.makedirs(p.path("vendor", "include"))  # cudnn_frontend asks for ../include
    folder = cached(p.build, "DDP_CUDA_INCLUDE")
    if not os.path.isdir(folder):
        raise Trouble(f"{p.build} was made without CUDA's headers: tools/cuda-toolkit --needed, then cmake again")
    for pattern in VENDOR:
        found = glob.glob(os.path.join(folder, pattern))
        if not found:
            raise Trouble(f"{pattern} is not in {folder}")
        for path in found:
            shutil.copy(path, p.path("vendor", "include"))
    frontend = cached(p.build, "DDP_CUDNN_FRONTEND_INCLUDE")
    if not os.path.isdir(frontend):
        raise Trouble("no cudnn_frontend.h: tools/cuda-toolkit --needed, then cmake again")
    for path in glob.glob(os.path.join(frontend, "cudnn_[bf]*")):
        to = p.path("vendor", "include", os.path.basename(path))
        if os.path.isdir(path):
            shutil.copytree(path, to, dirs_exist_ok=True)
        else:
            shutil.copy(path, to)


def add_examples(p):
    """With their data, at the same places relative to each other."""
    shutil.copytree(os.path.join(ROOT, "examples"), p.path("jobs", "examples"),
                    ignore=shutil.ignore_patterns("cifar-10-batches-bin", "runs", "__pycache__"))


def losses_of_cpu(p, job, flags, program):
    binary, out = p.path("cpu"), p.path("cpu-run")
    call([p.ddpc, job, "-o", binary, *flags])
    call([binary, "--output_dir", out, "--max_steps", str(program.updates), *FLAGS, *program.run])
    losses = losses_of(read_log(out))
    os.unlink(binary)
    shutil.rmtree(out)
    if len(losses) != program.updates:
        raise Trouble(f"{job}: {len(losses)} losses of {program.updates} updates")
    return losses


def add_program(p, name, program):
    if program.job.startswith("examples/"):
        job = p.path("jobs", program.job)
        if program.job.startswith("examples/cifar_resnet") and not os.path.exists(
                os.path.join(os.path.dirname(job), "cifar-10-batches-bin")):
            call([sys.executable, os.path.join(os.path.dirname(job), "make_data.py")])
    else:
        os.makedirs(p.path("jobs", name))
        job = shutil.copy(os.path.join(ROOT, program.job), p.path("jobs", name, "job.ddp"))
        if program.data:
            program.data(os.path.dirname(job))
    flags = [word for define in program.flags for word in ("-D", define)]
    os.makedirs(p.path("programs"), exist_ok=True)
    entry = {"commands": p.commands(job, p.path("programs", name), flags)}
    if program.updates:
        entry["losses"] = losses_of_cpu(p, job, flags, program)
    p.description["programs"][name] = entry
    print(f"pack: {name}" + (f", {program.updates} updates on the CPU" if program.updates else ""), flush=True)


def add_ops(p, step):
    """The graphs of every so many ops of the table, with what the interpreter says."""
    os.makedirs(p.path("ops"))
    said = call([os.path.join(p.build, "emit_op_cuda_test"), "record", p.path("ops"), step])
    print("pack: ops,", said.strip().splitlines()[-1], flush=True)


def size_of(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def fill(p, only):
    add_sources(p)
    add_libraries(p)
    if p.target != "cuda:sim":
        add_vendor(p)
    add_examples(p)
    ops = [name for name in only or ["ops/1"] if name.startswith("ops")]
    if ops:
        add_ops(p, ops[0].partition("/")[2] or "1")
    for name, program in PROGRAMS.items():
        if not only or name in only:
            add_program(p, name, program)
    described = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    p.description["version"] = described.stdout.strip() or "unknown"
    with open(p.path("pack.json"), "w") as f:
        json.dump(p.description, f)
    size = size_of(p.folder)
    if size > LIMIT:
        raise Trouble(f"the pack has {size >> 20} MiB, and may have {LIMIT >> 20}")
    print(f"pack: {p.folder}, {size / (1 << 20):.1f} MiB")


def main(a):
    only = [name for name in a.only.split(",") if name]
    unknown = [name for name in only if name not in PROGRAMS and not name.startswith("ops")]
    build = a.build or os.path.join(ROOT, "build")
    try:
        if unknown:
            raise Trouble(f"no program {unknown[0]}; there are {', '.join(PROGRAMS)}, ops")
        if not os.path.exists(os.path.join(build, "ddpc")):
            raise Trouble(f"no ddpc in {build}: build first")
        if os.path.exists(a.folder):
            if not os.path.exists(os.path.join(a.folder, "pack.json")) and os.listdir(a.folder):
                raise Trouble(f"{a.folder} is there and no pack")
            shutil.rmtree(a.folder)
        os.makedirs(a.folder)
        with open(os.path.join(a.folder, "pack.json"), "w") as f:
            f.write("{}")
        fill(Pack(a.folder, build, a.target), only)
    except (Trouble, OSError) as e:
        print(f"gpu-check: {e}", file=sys.stderr)
        return 2
    return 0
