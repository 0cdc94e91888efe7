"""Four ranks that train, save, evaluate and log, with a fault every few seconds: each is answered in time, training
goes on from the newest complete checkpoint, and nothing piles up: memory, descriptors, threads, processes, names.
DDP_CHAOS_SECONDS says for how long."""
import os
import random
import signal
import time

from chaos import (JOB, SLOW, Folder, Live, checkpoints, expect, fresh_pause, inside_namespaces, main, of_machine,
                   of_process, updates, wait_for)

SECONDS = float(os.environ.get("DDP_CHAOS_SECONDS", "40"))
SEED = os.environ.get("DDP_CHAOS_SEED", "1")
RANKS = 4
TIMEOUT = 3  # ddp_timeout


def command(binary, out, every, *more):
    """Saves, evaluates and logs by these numbers of updates."""
    flags = ["--nproc-per-node", str(RANKS), "--output_dir", out, "--max_steps", "100000000", "--save_total_limit", "3",
             "--resume_from_checkpoint", "true", "--ddp_timeout", str(TIMEOUT)]
    for name, n in zip(("save", "eval", "logging"), every):
        flags += [f"--{name}_steps", str(n)]
    return [binary, *flags, *more]


class Soak:
    def __init__(self, folder, binary):
        self.folder, self.out = folder, folder.file("out")
        self.command = command(binary, self.out, (40, 300, 100), "--max-restarts", "1000000")
        self.newest, self.spoiled, self.incarnations = 0, set(), 0
        self.first = {}  # what the first ranks and the first launcher took
        self.counts, self.live = {}, None

    # ---- how it goes on

    def good(self):
        """Complete checkpoints, without those that this test has spoiled."""
        return checkpoints(self.out, self.spoiled)

    def start(self):
        self.incarnations += 1
        self.newest = self.saved()  # what comes then is the new ranks' own
        self.live = Live(self.folder, self.command, name="console")

    def progress(self, what):
        """A checkpoint that is newer than all before."""
        def more():
            expect(self.live.p.poll() is None, f"{what}: the job ended with {self.live.p.poll()}\n{self.live.text()}")
            return self.saved() > self.newest
        wait_for(more, 30, f"progress after {what} beyond checkpoint-{self.newest}:\n{self.live.text()}")
        self.newest = self.saved()

    def saved(self):
        try:
            numbers = [int(x[11:]) for x in os.listdir(self.out) if x.startswith("checkpoint-")]
        except OSError:
            return 0
        return max((n for n in numbers if n not in self.spoiled), default=0)

    def ended(self, codes, limit, what):
        code = self.live.end(limit)
        expect(code in codes, f"{what}: exit code {code}, not {codes}\n{self.live.text()}")
        self.start()

    def restarted(self, before, limit, what):
        """The launcher has replaced all ranks."""
        def fresh():
            code = self.live.p.poll()
            expect(code is None, f"{what}: the launcher ended with {code}\n{self.live.text()}")
            now = self.live.ranks()
            return len(now) == RANKS and not set(now.values()) & set(before.values())
        wait_for(fresh, limit, f"new ranks after {what}\n{self.live.text()}")
        self.newest = self.saved()

    # ---- faults

    def kill(self):
        ranks = self.live.ranks()
        self.live.send(signal.SIGKILL, random.choice(list(ranks.values())))
        self.restarted(ranks, 8, "kill -9 of a rank")

    def kill_two(self):
        ranks = self.live.ranks()
        for pid in random.sample(list(ranks.values()), 2):
            self.live.send(signal.SIGKILL, pid)
            fresh_pause(0.05)
        self.restarted(ranks, 8, "kill -9 of two ranks")

    def stop(self):
        ranks = self.live.ranks()
        self.live.send(signal.SIGSTOP, random.choice(list(ranks.values())))
        self.restarted(ranks, TIMEOUT + 8, "SIGSTOP of a rank")

    def stop_then_kill(self):
        ranks = self.live.ranks()
        one, two = random.sample(list(ranks.values()), 2)
        self.live.send(signal.SIGSTOP, one)
        fresh_pause(TIMEOUT)
        self.live.send(signal.SIGKILL, two)
        self.restarted(ranks, TIMEOUT + 8, "SIGSTOP of a rank, kill -9 of another")

    def kill_launcher(self):
        self.live.send(signal.SIGKILL)
        self.ended((-signal.SIGKILL,), 5, "kill -9 of the launcher")

    def terminate(self):
        self.live.send(random.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))
        self.ended((9,), 8, "a signal to the launcher")

    def terminate_rank(self):
        self.live.send(signal.SIGTERM, random.choice(list(self.live.ranks().values())))
        self.ended((9,), 8, "SIGTERM to one rank")

    def terminate_then_kill(self):
        ranks = self.live.ranks()
        self.live.send(signal.SIGTERM)
        fresh_pause(0.03)
        self.live.send(signal.SIGKILL, random.choice(list(ranks.values())))
        code = self.live.end(12)
        expect(code in (9, 137, 4), f"SIGTERM, then kill -9 of a rank: exit code {code}\n{self.live.text()}")
        self.start()

    def pause_launcher(self):
        """Nothing happens: ranks do not need their launcher."""
        self.live.send(signal.SIGSTOP)
        fresh_pause(1)
        self.live.send(signal.SIGCONT)

    def spoil(self):
        """The newest checkpoint is damaged, then the job is killed: it goes on from the one before."""
        self.live.send(signal.SIGKILL)
        self.live.end(5)
        good = self.good()
        if len(good) > 1:
            path = os.path.join(self.out, f"checkpoint-{good[-1]}")
            name = random.choice(sorted(os.listdir(path)))
            size = os.path.getsize(os.path.join(path, name))
            how = random.choice(("cut", "flip", "remove"))
            if how == "remove":
                os.remove(os.path.join(path, name))
            elif how == "cut":
                os.truncate(os.path.join(path, name), random.randrange(size))
            else:
                with open(os.path.join(path, name), "r+b") as f:
                    at = random.randrange(size)
                    f.seek(at)
                    byte = f.read(1)[0]
                    f.seek(at)
                    f.write(bytes([byte ^ (1 << random.randrange(8))]))
            self.spoiled.add(good[-1])
            self.newest = good[-2]
        self.start()
        if len(good) > 1:
            wait_for(lambda: f"checkpoint-{good[-2]}: update" in self.live.text() or self.live.p.poll() is not None,
                     20, f"the resume from {good[-2]}; {good[-1]}/{name}: {how}\n{self.live.text()}")

    # ---- what piles up

    def look(self):
        ranks = self.live.ranks()
        if len(ranks) < RANKS:
            return
        for key, pid in [("launcher", self.live.pid)] + [(f"rank {k}", pid) for k, pid in ranks.items()]:
            now = of_process(pid)
            if not now:
                return
            first = self.first.setdefault(key, now)
            # Rank 0 may be writing a checkpoint, a thread and a few files more; the launcher starts ranks.
            files, threads, memory = {"launcher": (1, 0, 1024), "rank 0": (4, 1, 16384)}.get(key, (0, 0, 16384))
            spare = {"descriptors": files, "threads": threads, "memory": memory}
            if SLOW > 1:
                del now["memory"]  # a sanitizer's own
            for what, n in now.items():
                expect(n <= first[what] + spare[what], f"{key} has {n} {what}, the first one had {first[what]}")
        expect(len(os.listdir(self.out)) < 40 + len(self.spoiled), f"files pile up: {sorted(os.listdir(self.out))}")

    def run(self, seconds):
        before, end = of_machine(), time.monotonic() + seconds
        faults = [self.kill, self.kill, self.kill_two, self.stop, self.stop_then_kill, self.kill_launcher,
                  self.terminate, self.terminate_rank, self.terminate_then_kill, self.pause_launcher, self.spoil]
        self.start()
        try:
            self.progress("the start")
            while time.monotonic() < end:
                self.progress("the look")
                self.look()
                fault = random.choice(faults)
                name = fault.__name__
                fresh_pause(1)
                fault()
                self.counts[name] = self.counts.get(name, 0) + 1
                self.progress(name)
                good = self.good()
                expect(good and good[-1] >= self.newest - 200, f"after {name}: {good}, {self.newest} was there")
                self.spoiled &= {int(x[11:]) for x in os.listdir(self.out) if x.startswith("checkpoint-")}
            self.live.send(signal.SIGTERM)
            expect(self.live.end(10) == 9, self.live.text())
        finally:
            with self.live:
                pass
        self.good()
        left = [x for x in os.listdir(self.out) if ".tmp" in x or ".partial" in x]
        expect(not left, f"left behind: {left}")
        wait_for(lambda: of_machine() <= before, 2, f"names to go: {of_machine() - before}")


def soak():
    inside_namespaces()
    random.seed(SEED)
    with Folder() as f:
        s = Soak(f, f.compile(JOB, "train"))
        s.run(SECONDS)
        print(f"{sum(s.counts.values())} faults in {SECONDS:g} s, {s.incarnations} launchers, {s.newest} updates: " +
              ", ".join(f"{k} {v}" for k, v in sorted(s.counts.items())), flush=True)


def steady():
    """Saving, evaluating and logging all the time takes nothing more after a while."""
    with Folder() as f:
        binary, out = f.compile(JOB, "train"), f.file("out")
        with Live(f, command(binary, out, (5, 5, 5))) as live:
            def reached(n):
                expect(live.p.poll() is None, f"ended:\n{live.text()}")
                return updates(out) >= n
            wait_for(lambda: reached(200), 60, "update 200")
            first = {k: of_process(pid) for k, pid in live.ranks().items()}
            wait_for(lambda: reached(200 + int(20 * SECONDS)), (10 + SECONDS) * 4, "the end")
            for k, pid in live.ranks().items():
                now = of_process(pid)
                for what, more in (("descriptors", 4 * (k == 0)), ("threads", k == 0), ("memory", 1024)):
                    expect(now[what] <= first[k][what] + more, f"rank {k}: {what} {first[k][what]}, later {now[what]}")
            live.send(signal.SIGTERM)
            expect(live.end(10) == 9, live.text())


main(dict(soak=soak, steady=steady))
