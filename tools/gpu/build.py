"""Compiles what was packed: the runtime with CMake, then all programs, several compilers at a time."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import time


class Broken(Exception):
    pass


def told(text):
    """What a compiler said: from the first error on."""
    at = re.search(r"^FAILED|error", text, re.M)
    return text[max(at.start() - 300, 0):][:3000] if at else text[-3000:]


class Builder:
    def __init__(self, pack, machine, description, jobs, deadline, libraries):
        self.pack, self.machine, self.programs = pack, machine, description["programs"]
        self.jobs, self.deadline, self.built = max(1, jobs), deadline, os.path.join(pack, "built")
        if libraries:
            self.built = os.path.abspath(libraries)
        self.names = {"pack": pack, "include": os.path.join(self.built, "include", "ddpc"),
                      "lib": os.path.join(self.built, "lib"), "nvcc": machine.nvcc or "nvcc", "cxx": "g++", "cc": "gcc"}
        self.made, self.seconds = {}, {}

    def call(self, command):
        env = self.machine.environment()
        prefix = os.path.join(self.pack, "prefix", "lib")
        env["LIBRARY_PATH"] = ":".join(x for x in (prefix, env.get("LIBRARY_PATH")) if x)
        left = self.deadline - time.monotonic()
        try:
            r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                               timeout=max(left, 1))
        except subprocess.TimeoutExpired:
            raise Broken(f"no time is left for {' '.join(command)}")
        except OSError as e:
            raise Broken(f"{command[0]}: {e.strerror}")
        if r.returncode:
            raise Broken(f"{' '.join(command)}\n{told(r.stdout)}")

    def runtime(self):
        vendor, prefix = os.path.join(self.pack, "vendor", "include"), os.path.join(self.pack, "prefix")
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        self.call(["cmake", "-S", os.path.join(self.pack, "sources"), "-B", self.built, *ninja, "-DDDP_RUNTIME_ONLY=ON",
                   "-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}",
                   f"-DDDP_NVCC={self.machine.nvcc or 'DDP_NVCC-NOTFOUND'}",
                   f"-DDDP_CUDNN_FRONTEND_INCLUDE={vendor if os.path.isdir(vendor) else 'NOTFOUND'}",
                   # behind all folders of the machine: what it has goes with its own compiler
                   f"-DCMAKE_C_FLAGS=-idirafter {vendor}", f"-DCMAKE_CXX_FLAGS=-idirafter {vendor}"])
        targets = ["ddp_runtime", "ddp_cuda"]
        if self.machine.emulated:
            targets += ["cudasim", "cublasltsim", "ncclsim"]
        elif self.has_plugin():
            targets.append("ddp_cudnn")
        self.call(["cmake", "--build", self.built, "-j", str(self.jobs), "--target", *targets])

    def has_plugin(self):
        """Without cuDNN's headers there is no such target."""
        r = subprocess.run(["cmake", "--build", self.built, "--target", "help"], stdout=subprocess.PIPE, text=True)
        return "ddp_cudnn" in r.stdout

    def compile(self, name, commands, part):
        start = time.monotonic()
        self.call([word.format(**self.names) for word in commands[part]])
        self.seconds[name, part] = time.monotonic() - start

    def objects(self, only):
        """(name, commands, part): the longest first, as far as one knows."""
        work = [(name, p["commands"], part) for name, p in self.programs.items() if name in only for part in (0, 1)]
        if "ops" in only and os.path.isdir(os.path.join(self.pack, "ops")):
            commands = self.of_ops()
            work += [("ops", commands, part) for part in (0, 1)]
        return sorted(work, key=lambda w: -self.size(w[1][w[2]]))

    def size(self, command):
        return os.path.getsize(command[-1].format(**self.names))

    def of_ops(self):
        """As a program: its commands with other files."""
        device, host, link = next(iter(self.programs.values()))["commands"]
        at = "{pack}/ops/"
        def output(command, name):
            k = command.index("-o")
            return command[:k + 1] + [at + name] + command[k + 2:]
        device = output(device, "device.o")[:-1] + [at + "graphs.cu"]
        replay = output(host, "replay.o")[:-1] + ["-I{pack}/sources/runtime/device", "-I{pack}/sources/runtime/core",
                                                  "{pack}/sources/tests/gpu/replay.c"]
        objects = [w for w in link if w.endswith(".o")]
        link = [at + {objects[0]: "replay.o", objects[1]: "device.o"}[w] if w in objects else w for w in link]
        return [device, replay, output(link, "replay")]

    def everything(self, only):
        """{name: None, or why it is not there}"""
        failed = {}
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            runtime = None if os.path.isfile(os.path.join(self.built, "lib", "libddp_runtime.a")) else \
                pool.submit(self.runtime)
            if runtime:
                runtime.result()  # first: headers are in it
            work = {pool.submit(self.compile, *w): w for w in self.objects(only)}
            for done in concurrent.futures.as_completed(work):
                if done.exception():
                    failed[work[done][0]] = str(done.exception())
            names = {w[0]: w[1] for w in work.values()}
            links = {pool.submit(self.compile, name, commands, 2): name for name, commands in names.items()
                     if name not in failed}
            for done in concurrent.futures.as_completed(links):
                if done.exception():
                    failed[links[done]] = str(done.exception())
        for name in names:
            self.made[name] = failed.get(name)
        return self.made

    def binary(self, name):
        return os.path.join(self.pack, "ops", "replay") if name == "ops" else os.path.join(self.pack, "programs", name)
