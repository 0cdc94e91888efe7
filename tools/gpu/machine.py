"""What the machine has: its GPU, through the driver's own library; compilers; NVIDIA's libraries, wherever they are."""
import ctypes
import glob
import os
import shutil
import subprocess
import sys


class Machine:
    """facts: for the report. why: why no program can run here, else None."""

    def __init__(self, target):
        self.emulated, self.target = target == "cuda:sim", target
        self.facts, self.why = {"target": target}, None
        self.libraries = library_folders()
        self.nvcc = find_nvcc()
        if self.emulated:
            self.facts["GPU"] = "none: the emulator"
        else:
            self.look()
        self.facts["nvcc"] = version_of(self.nvcc, -1)
        self.facts["gcc"] = version_of("gcc", 0)
        self.facts["Python"] = sys.version.split()[0]
        self.torch = None if self.emulated else torch_of()
        self.facts["PyTorch"] = self.torch or "none"

    def look(self):
        try:
            self.look_at_device(ctypes.CDLL("libcuda.so.1"))
        except OSError:
            self.why = "no NVIDIA driver (libcuda.so.1)"
            self.facts["GPU"] = "none: " + self.why
        for name, file, function in (("cuBLASLt", "libcublasLt.so", "cublasLtGetVersion"),
                                     ("cuDNN", "libcudnn.so", "cudnnGetVersion"), ("NCCL", "libnccl.so", None)):
            self.facts[name] = self.version_in(file, function)

    def look_at_device(self, cuda):
        number, name = ctypes.c_int(0), ctypes.create_string_buffer(100)
        status = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(number))
        if status or number.value == 0:
            self.why = f"the driver shows no GPU (error {status})"
            self.facts["GPU"] = "none: " + self.why
            return
        device, major, minor, version = (ctypes.c_int(0) for _ in range(4))
        memory = ctypes.c_size_t(0)
        cuda.cuDeviceGet(ctypes.byref(device), 0)
        cuda.cuDeviceGetName(name, 100, device)
        cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)  # compute capability
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
        cuda.cuDriverGetVersion(ctypes.byref(version))
        sm = f"sm_{major.value}{minor.value}"
        self.facts["GPU"] = f"{name.value.decode()}, {sm}, {memory.value >> 20} MiB" + (
            f"; {number.value} of them" if number.value > 1 else "")
        self.facts["driver"] = f"for CUDA {version.value // 1000}.{version.value % 1000 // 10}"
        if shutil.which("nvidia-smi"):
            said = run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]).splitlines()
            self.facts["driver"] += f", {said[0] if said else '?'}"
        # what is built for a capability runs on those of the same generation
        if sm[:-1] not in self.target and sm not in self.target:
            self.why = f"packed for {self.target}, and this GPU is {sm}: pack with --target cuda:{sm}"

    def version_in(self, file, function):
        path = self.library(file)
        if not path:
            return "none"
        if function is None:
            return os.path.realpath(path)
        try:
            ask = getattr(ctypes.CDLL(path), function)
            ask.restype = ctypes.c_size_t
            return f"{ask()}, {path}"
        except (OSError, AttributeError) as e:
            return f"{path}: {e}"

    def library(self, file):
        for folder in self.libraries:
            found = sorted(glob.glob(os.path.join(folder, file + ".*")))
            if found:
                return found[0]
        return None

    def environment(self, more=None):
        env = dict(os.environ, **(more or {}))
        old = env.get("LD_LIBRARY_PATH")
        env["LD_LIBRARY_PATH"] = ":".join(self.libraries + ([old] if old else []))
        return env


def run(command):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def version_of(program, line):
    lines = (run([program, "--version"]) if program else "").strip().splitlines()
    return lines[line] if lines else "none"


def packages():
    """Folders of NVIDIA's libraries among Python's packages."""
    return [p for folder in sys.path for p in sorted(glob.glob(os.path.join(folder, "nvidia", "*")))]


def library_folders():
    folders = [f for p in packages() for f in (os.path.join(p, "lib"), os.path.join(p, "lib64"))]
    folders += ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"]
    return [f for f in folders if glob.glob(os.path.join(f, "libc[ud]*.so*")) or glob.glob(os.path.join(f, "libnccl.so*"))]


def find_nvcc():
    places = [shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc", *(os.path.join(p, "bin", "nvcc") for p in packages())]
    return next((p for p in places if p and os.path.exists(p)), None)


def torch_of():
    said = run([sys.executable, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"]).split()
    return said[-2] if said and said[-1] == "True" else None
