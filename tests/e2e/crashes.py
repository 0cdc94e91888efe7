"""A rank that crashes says where it was, leaves a flight record and the launcher's error file, and the other
ranks name it; a rank for which memory is not enough says so."""
import json
import os
import re
import subprocess

from ddptest import Folder, expect, main, of_torch, run

JOB = "tests/e2e/fault.ddp"
SIGNALS = dict(null="SIGSEGV", stack="SIGSEGV", divide="SIGFPE", abort="SIGABRT", file="SIGBUS")
NUMBERS = dict(SIGSEGV=11, SIGFPE=8, SIGABRT=6, SIGBUS=7)


def fault(how, rank=0, call=8):
    return dict(FAULT=how, FAULT_RANK=str(rank), FAULT_CALL=str(call))


def record(out, rank):
    with open(os.path.join(out, f"flight-{rank}.json")) as f:
        return json.load(f)


def expect_clean(out):
    # .checkpoint-N.partial may be there: a crash in the middle of a save; the next run removes it
    left = [n for n in os.listdir(out) if "tmp" in n]
    expect(not left, f"half-written: {left}")


def ranks():
    """Each kind of crash on one of three ranks."""
    with Folder() as f:
        binary = f.compile(JOB, "fault")
        for how, name in SIGNALS.items():
            for backend in ([], ["--intra_node", "backend"]) if how == "null" else ([],):
                out = f.file(how + str(len(backend)))
                r = run([binary, "--nproc-per-node", "3", "--output_dir", out, *backend], env=fault(how, 1), limit=20)
                expect(r.code == 128 + NUMBERS[name], f"{how}: exit code {r.code}\n{r.out}")
                expect(re.search(rf"rank 1 crashed: {name}, .*; update 7; phase: ", r.out), f"{how}: not said\n{r.out}")
                expect(r.out.count("lost rank 1") == 2, f"{how}: the others do not name it\n{r.out}")
                expect(f"rank 1 was killed by signal {NUMBERS[name]}" in r.out, f"{how}: the launcher is silent\n{r.out}")
                for k in range(3):
                    one = record(out, k)
                    expect(one["blamed_rank"] == 1, f"{how}: rank {k} blames {one['blamed_rank']}")
                    expect(one["update"] == 7 and one["collectives"], f"{how}: record of rank {k}: {one}")
                expect(f"crashed: {name}" in record(out, 1)["reason"], "its own record has another reason")
                expect_clean(out)


def alone():
    """One rank, with the error file of a launcher: whole JSON, and the signal still ends the process."""
    with Folder() as f:
        binary = f.compile(JOB, "fault")
        for how, name in SIGNALS.items():
            path = f.file(how + ".json")
            r = run([binary, "--output_dir", f.file(how)], env=dict(fault(how), TORCHELASTIC_ERROR_FILE=path), limit=20)
            expect(r.code == -NUMBERS[name], f"{how}: exit code {r.code}\n{r.out}")
            with open(path) as file:
                message = json.load(file)["message"]
            expect(f"rank 0 crashed: {name}" in message["message"], str(message))
            expect(int(message["extraInfo"]["timestamp"]) > 1e9, str(message))
            expect(os.listdir(f.path).count(how + ".json") == 1 and not [x for x in os.listdir(f.path) if ".tmp" in x],
                   f"half-written: {os.listdir(f.path)}")


def torchrun():
    """torchrun's summary names the rank that crashed, with our message."""
    with Folder() as f:
        binary = f.compile(JOB, "fault")
        r = run([of_torch("torchrun"), "--no-python", "--nproc_per_node=2", binary, "--output_dir",
                 f.file("out")], env=fault("null", 1), limit=90)
        expect(r.code != 0, "exit code 0")
        expect("rank 1 crashed: SIGSEGV" in r.out, r.out)
        cause = r.out[r.out.index("Root Cause"):]
        expect(re.search(r"rank +: 1 ", cause) and "rank 1 crashed" in cause, r.out)


def limit():
    """An allocation that is refused (a limit on addresses) is an error with its size, not a crash."""
    with Folder() as f:
        binary = f.compile("examples/digits/job.ddp", "digits", ["hidden=4000"])
        for many in ([], ["--nproc-per-node", "2"]):
            out = f.file(f"out{len(many)}")
            p = subprocess.run(["bash", "-c", 'ulimit -v 200000; exec "$@"', "-", binary, "--output_dir", out, *many],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
            expect(p.returncode == 7, f"exit code {p.returncode}\n{p.stdout}")
            expect("memory" in p.stdout, p.stdout)


if __name__ == "__main__":
    main(dict(ranks=ranks, alone=alone, torchrun=torchrun, limit=limit))
