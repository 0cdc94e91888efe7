"""Checkpoints under kill -9 and on a disk that fills: what was complete stays complete, and the run goes on to the
bits of one that was left alone."""
import os
import random
import signal
import subprocess

from chaos import (JOB, Folder, Live, amount, checkpoints, expect, fresh_pause, leftovers, main, must,
                   inside_namespaces, read_log, run, wait_for)

KILLS = amount("DDP_CHAOS_KILLS", 30)
UPDATES = 3000
WIDE = ["hidden=256"]  # a checkpoint of about a megabyte


def flags(out, updates, ranks, every=1):
    return ["--output_dir", out, "--max_steps", str(updates), "--save_steps", str(every), "--eval_strategy", "no",
            "--logging_steps", "1", *(["--nproc-per-node", str(ranks)] if ranks > 1 else [])]


def weights(out):
    with open(os.path.join(out, "model.safetensors"), "rb") as f:
        return f.read()


def under_way(out):
    try:
        return any(x.startswith(".checkpoint-") for x in os.listdir(out))
    except OSError:
        return False


def newest_name(out):
    """Without a look inside: quick, while a run is under way."""
    return max((int(x[11:]) for x in os.listdir(out) if x.startswith("checkpoint-")), default=0)


def killed_saves():
    """Killed while it saves, KILLS times: a rank, all of them, on 1 and 2 ranks."""
    with Folder() as f:
        binary, inside = f.compile(JOB, "train", WIDE + ["train.save_total_limit=4"]), 0
        for turn in range(KILLS):
            ranks = 1 + turn % 2
            out = f.file(f"out{ranks}")
            newest = max(checkpoints(out), default=0)
            with Live(f, [binary, *flags(out, UPDATES, ranks), "--resume_from_checkpoint", "true"],
                      name=f"console{turn}") as live:
                wait_for(lambda: live.p.poll() is not None or (under_way(out) and newest_name(out) > newest),
                         30, f"a save:\n{live.text()}")
                expect(live.p.poll() is None, f"turn {turn} ended by itself:\n{live.text()}")
                if newest:
                    expect(f"/checkpoint-{newest}: update {newest} of" in live.text(10**6),
                           f"turn {turn} does not go on from {newest}:\n{live.text()}")
                fresh_pause(0.02)
                inside += under_way(out)
                victims = list(live.ranks().values())
                live.send(signal.SIGKILL, random.choice([live.pid, *victims]))
                live.end(10)
            after = max(checkpoints(out), default=0)
            expect(after > newest, f"turn {turn}: the newest checkpoint is {after}, it was {newest}")
        print(f"{KILLS} kills, {inside} of them with a save under way", flush=True)
        expect(inside >= KILLS // 4, f"only {inside} of {KILLS} kills came while a save was under way")
        for ranks in (1, 2):
            out, straight = f.file(f"out{ranks}"), f.file(f"straight{ranks}")
            end = max(checkpoints(out)) + 20
            for args in ([*flags(out, UPDATES, ranks), "--resume_from_checkpoint", "true"],
                         flags(straight, UPDATES, ranks)):
                r = run([binary, *args, "--stop_at_update", str(end)], limit=60)
                expect(r.code == 9, f"exit {r.code}\n{r.out}")
            expect(not leftovers(out), f"left behind: {leftovers(out)}")
            same_checkpoint(out, straight, end)


def same_checkpoint(x, y, n):
    for name in ("model", "optimizer", "scheduler"):
        data = [open(f"{out}/checkpoint-{n}/{name}.safetensors", "rb").read() for out in (x, y)]
        expect(data[0] == data[1], f"checkpoint-{n}/{name}.safetensors: other bytes than in a straight run")


class SmallDisk:
    """A tmpfs in the mount namespace of this program."""

    def __init__(self, path, size):
        self.path = path
        os.makedirs(path, exist_ok=True)
        must(["mount", "-t", "tmpfs", "-o", f"size={size}", "ddp-chaos", path])

    def resize(self, size):
        must(["mount", "-o", f"remount,size={size}", self.path])


def full_disk():
    inside_namespaces(needed=True)
    with Folder() as f:
        binary = f.compile(JOB, "train", WIDE)
        for ranks in (1, 2):
            disk = SmallDisk(f.file(f"disk{ranks}"), "8m")
            out = os.path.join(disk.path, "out")
            command = [binary, *flags(out, 60, ranks, 3), "--resume_from_checkpoint", "true"]
            kept = []
            for turn in range(2):  # the second one finds the disk full
                r = run(command, limit=30)
                expect(r.code == 6 and "No space left on device" in r.out and "--output_dir" in r.out,
                       f"exit {r.code}\n{r.out}")
                now = checkpoints(out)
                expect(set(kept) <= set(now) and now, f"complete checkpoints were lost: {kept}, now {now}")
                expect(not leftovers(out), f"left behind: {leftovers(out)}")
                kept = now
            disk.resize("64m")
            r = run(command, limit=30)
            expect(r.code == 0 and f"/checkpoint-{kept[-1]}: update {kept[-1]} of" in r.out, f"exit {r.code}\n{r.out}")
            read_log(out)  # every line is whole
            must([binary, *flags(f.file(f"straight{ranks}"), 60, ranks, 60)], limit=30)
            expect(weights(out) == weights(f.file(f"straight{ranks}")), "other weights than a straight run")
            # Room for the log alone, then for nothing: the old weights stay.
            old = weights(out)
            fill(disk.path)
            r = run([binary, *flags(out, 60, ranks, 60), "--seed", "7"], limit=30)
            expect(r.code == 6 and weights(out) == old, f"exit {r.code}\n{r.out}")
            expect(not leftovers(out), f"left behind: {leftovers(out)}")
            subprocess.run(["umount", disk.path], check=True)


def fill(path):
    try:
        with open(os.path.join(path, "filler"), "wb", buffering=0) as f:
            while True:
                f.write(b"\0" * 4096)
    except OSError:
        pass


main(dict(killed_saves=killed_saves, full_disk=full_disk))
