#!/usr/bin/env python3
"""How the kernels of a job are spread over a GPU (ddpc --dump=launch): nothing is done by one thread alone, and no thread
has much to do while others could help.

    launches.py DDPC JOB...

Without: `serial` (launch.c), right for anything and as slow as one thread, comes back unseen."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

LINE = re.compile(r"  (\S+): (flat|columns|rows|serial), (\d+) elements by (\d+) threads in blocks of \d+")
MOST = 1024  # elements of one thread


def dump(ddpc, job):
    r = ask(ddpc, job)
    script = os.path.join(os.path.dirname(job), "make_data.py")
    if r.returncode and os.path.exists(script):  # its data are not kept
        with tempfile.TemporaryDirectory() as copy:
            folder = shutil.copytree(os.path.dirname(job), os.path.join(copy, "job"))
            subprocess.run([sys.executable, os.path.join(folder, "make_data.py")], check=True, stdout=subprocess.DEVNULL)
            r = ask(ddpc, os.path.join(folder, os.path.basename(job)))
    if r.returncode:
        sys.exit(f"FAIL {job}: {r.stderr}")
    return r.stdout


def ask(ddpc, job):
    return subprocess.run([ddpc, job, "--target", "cuda:sm_90", "--dump=launch"], capture_output=True, text=True)


def main(ddpc, jobs):
    faults = []
    for job in jobs:
        shapes = {}
        for line in dump(ddpc, job).splitlines():
            if line.startswith("program "):
                continue
            m = LINE.match(line)
            if not m:
                sys.exit(f"FAIL {job}: `{line}`")
            shapes[m[2]] = shapes.get(m[2], 0) + 1
            if m[2] == "serial" or int(m[3]) > MOST * int(m[4]):
                faults.append(f"{job}:{line}")
        print(job, ", ".join(f"{n} {shape}" for shape, n in sorted(shapes.items())))
        if not shapes:
            faults.append(f"{job}: no kernels")
    if faults:
        sys.exit("FAIL\n" + "\n".join(faults))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
