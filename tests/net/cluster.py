"""A compiled job on several hosts: its own launcher on each, output and end of each."""
import os
import signal
import subprocess
import tempfile
import time

import hosts
from ddptest import Failure, expect

PORT = 29517


class Ranks:
    """What one host ran: exit code, output, time of the end."""

    def __init__(self, process, log):
        self.process, self.log = process, log
        self.code, self.ended = None, None

    @property
    def out(self):
        self.log.seek(0)
        return self.log.read()


class Cluster:
    """BINARY with ranks[h] ranks on host h."""

    def __init__(self, net, binary, ranks, flags, env=None):
        self.net, self.binary, self.ranks, self.flags, self.env = net, binary, ranks, list(flags), env or {}
        self.parts = {}
        self.master = 0

    def __enter__(self):
        return self

    def start(self, *which):
        """Starts the launchers of these hosts (default: all). Uneven hosts start one rank each, as srun would."""
        for h in which or range(self.net.n):
            log = tempfile.TemporaryFile("w+")
            environment = dict(os.environ, **self.env)
            if len(set(self.ranks)) == 1:
                args = [self.binary, "--nproc-per-node", str(self.ranks[h]), "--nnodes", str(self.net.n),
                        "--node-rank", str(h), "--master-addr", self.net.address(self.master), "--master-port",
                        str(PORT)]
                commands = [(args, environment)]
            else:
                commands = []
                for local in range(self.ranks[h]):
                    one = dict(environment, RANK=str(sum(self.ranks[:h]) + local), WORLD_SIZE=str(sum(self.ranks)),
                               LOCAL_RANK=str(local), LOCAL_WORLD_SIZE=str(self.ranks[h]),
                               MASTER_ADDR=self.net.address(self.master), MASTER_PORT=str(PORT))
                    commands.append(([self.binary], one))
            self.parts[h] = [Ranks(subprocess.Popen(self.net.on(h, args + self.flags), stdout=log, stderr=log, env=e,
                                                    start_new_session=True), log) for args, e in commands]

    def all(self):
        return [r for h in sorted(self.parts) for r in self.parts[h]]

    def finish(self, limit):
        """Waits for everybody; after LIMIT seconds a failure with what was printed."""
        end = time.monotonic() + limit
        left = self.all()
        while left:
            for r in list(left):
                r.code = r.process.poll()
                if r.code is not None:
                    r.ended = time.monotonic()
                    left.remove(r)
            if time.monotonic() > end and left:
                raise Failure(f"{len(left)} still running after {limit} s\n{self.text()}")
            time.sleep(0.005)
        return self

    def out(self, h):
        return self.parts[h][0].out

    def codes(self, h):
        return {r.code for r in self.parts[h]}

    def text(self):
        return "\n".join(f"--- host {h}, exit {[r.code for r in self.parts[h]]}\n{self.out(h)}" for h in sorted(self.parts))

    def seconds_since(self, when):
        return max(r.ended for r in self.all()) - when

    def __exit__(self, *_):
        for r in self.all():
            if r.process.poll() is None:
                os.killpg(r.process.pid, signal.SIGKILL)
                r.process.wait()
            r.log.close()


def run(net, binary, ranks, flags, limit=60, env=None):
    """To a good end; returns the outputs of the hosts."""
    with Cluster(net, binary, ranks, flags, env) as c:
        c.start()
        c.finish(limit)
        expect(all(r.code == 0 for r in c.all()), c.text())
        return [c.out(h) for h in range(net.n)]
