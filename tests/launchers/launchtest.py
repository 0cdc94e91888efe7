"""What the tests of launchers share: finding a launcher, two hosts for it, the same job under it and under our own
launcher. Python's standard library only."""
import os
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("e2e", "net"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), folder))

from ddptest import (BUILD, Failure, Folder, Skip, expect, installed, losses, main, must, of_torch,  # noqa: E402,F401
                     read_log, run, same, wait_for)
from hosts import Hosts  # noqa: E402,F401

JOB = "examples/digits/job.ddp"
FLAGS = ["--max_steps", "4", "--eval_strategy", "no", "--logging_steps", "1", "--warmup_steps", "2"]
RANK = os.path.join(BUILD, "dist_rank")  # a rank that says how it met the others: tests/dist/rank.c
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
WORLDS = (1, 2, 3, 4)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def content(path):
    with open(path, "rb") as f:
        return f.read()


class Reference:
    """One job, and what it gives under our own launcher: other launchers must give the same bits."""

    def __init__(self, folder):
        self.folder, self.binary, self.known = folder, folder.compile(JOB, "digits"), {}

    def flags(self, accumulation):
        return FLAGS + ["--gradient_accumulation_steps", str(accumulation)]

    def of(self, world, accumulation):
        key = (world, accumulation)
        if key not in self.known:
            name = f"own-{world}-{accumulation}"
            _, log = self.folder.train(self.binary, name, world, self.flags(accumulation))
            self.known[key] = losses(log), content(self.folder.file(f"{name}/model.safetensors"))
        return self.known[key]

    def compare(self, name, launcher, world, accumulation=1, says=None, env=None, start=None, limit=60):
        """LAUNCHER: words before the program. start: runs one command for each of several hosts instead."""
        out = self.folder.file(f"{name}-{world}-{accumulation}".replace(" ", "-"))
        program = [self.binary, "--output_dir", out] + self.flags(accumulation)
        r = start(program) if start else must(launcher + program, env=env, limit=limit)
        log = read_log(out)
        want, weights = self.of(world, accumulation)
        same(want, losses(log), 0, f"{name}, {world} ranks")
        expect(content(f"{out}/model.safetensors") == weights, f"{name}, {world} ranks: other weights")
        expect(log[0]["world_size"] == world, f"{name}: {log[0]}")
        if says and world > 1:
            expect(f"{world} ranks ({says}" in r.out, f"{name}: no \"{world} ranks ({says}\" in\n{r.out}")
        return r


def compare_all(name, launcher, says, env=None, worlds=WORLDS, limit=60):
    """launcher(n): words that start n ranks."""
    with Folder() as f:
        reference = Reference(f)
        for world in worlds:
            for accumulation in (1, 3):
                reference.compare(name, launcher(world), world, accumulation, says, env, limit=limit)


def together(commands, limit=60, envs=None):
    """Runs commands side by side, each in a session of its own, to their end. Returns [(code, output)]."""
    ps = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                           env=dict(os.environ, **(envs[i] if envs else {})))
          for i, c in enumerate(commands)]
    results, stop = [], time.monotonic() + limit
    for p in ps:
        try:
            out, _ = p.communicate(timeout=max(0.1, stop - time.monotonic()))
        except subprocess.TimeoutExpired:
            for q in ps:
                if q.poll() is None:
                    os.killpg(q.pid, signal.SIGKILL)
            out, _ = p.communicate()
            raise Failure(f"still running after {limit} s: {' '.join(p.args)}\n{out}")
        results.append((p.returncode, out))
    return results


ENDLESS = ["--max_steps", "1000000", "--eval_strategy", "no", "--logging_steps", "20", "--save_strategy", "no"]


def stop_and_go(launcher, end, env=None, fails=True):
    """A run under LAUNCHER that is asked to end in training, by end(process, its output so far), and a second one that
    goes on from there: the state is that of a run that nobody stopped. fails: the launcher's exit code tells of it."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        program = launcher + [binary, "--output_dir", f.file("o"), "--resume_from_checkpoint", "true", *ENDLESS]
        with open(f.file("out"), "w+") as out:
            p = subprocess.Popen(program, stdout=out, stderr=out, env=dict(os.environ, **(env or {})),
                                 start_new_session=True)
            log = f.file("o/log.jsonl")

            def text():
                out.seek(0)
                return out.read()

            try:
                wait_for(lambda: os.path.exists(log) and len(content(log).splitlines()) > 5, 60, "updates")
                end(p, text())
                code = p.wait(timeout=40)
            except (Failure, subprocess.TimeoutExpired) as e:
                raise Failure(f"{e}\n{text()}")
            finally:
                if p.poll() is None:
                    os.killpg(p.pid, signal.SIGKILL)
                    p.wait()
            stopped = [int(x[11:]) for x in os.listdir(f.file("o")) if x.startswith("checkpoint-")]
            # The log and not the output says it: mpirun may stop reading what ranks print when it ends them.
            said = read_log(f.file("o"))[-1].get("stopped_by")
            expect((code != 0 or not fails) and said == "SIGTERM" and len(stopped) == 1,
                   f"exit {code}, {stopped}, stopped_by {said}\n{text()}")
        last = str(stopped[0] + 100)
        r = run(program + ["--stop_at_update", last], env=env)
        own = run([binary, "--output_dir", f.file("own"), "--nproc-per-node", "2", "--stop_at_update", last, *ENDLESS])
        for part in ("model", "optimizer"):
            a, b = (f.file(f"{x}/checkpoint-{last}/{part}.safetensors") for x in ("o", "own"))
            expect(os.path.exists(a) and os.path.exists(b), f"{r.out}\n{own.out}")
            expect(content(a) == content(b), f"{part}: other bits after update {last}")
