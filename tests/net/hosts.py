"""Hosts for tests: network namespaces, joined by a wire that this process is. Each namespace has a TAP
device whose other end is read here, so a test can delay, lose, cut and mend what goes from one host to another,
in one direction or both, without the other side being told (no RST, no carrier lost). The kernel's netem
would need a module that many kernels lack."""
import fcntl
import heapq
import os
import random
import selectors
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))

from ddptest import Skip  # noqa: E402

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
MTU = 9000


class CannotMake(Exception):
    pass


def ip(*words):
    p = subprocess.run(["ip", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if p.returncode:
        raise CannotMake(f"ip {' '.join(words)}: {p.stdout.strip()}")
    return p.stdout


class Hosts:
    """N hosts with the addresses address(0) ... on one network."""
    count = 0

    def __init__(self, n, ipv6=False):
        Hosts.count += 1
        self.n, self.ipv6 = n, ipv6
        self.names, self.taps = [], []
        self.delay = 0.0  # seconds, one way
        self.loss = 0.0  # share of frames
        self.dead = set()  # (from, to): nothing gets through
        self.lost = 0
        self.last = time.monotonic()  # when a frame came
        self.blocked = None  # whether a frame is thrown away
        self.watch = None  # called with (from, frame) for every frame
        self.chance = random.Random(1)
        self.lock = threading.Lock()
        self.wake_read, self.wake_write = os.pipe()
        self.thread = threading.Thread(target=self.carry, daemon=True)

    def __enter__(self):
        try:
            for h in range(self.n):
                self.make(h)
        except (OSError, CannotMake) as e:
            self.__exit__()
            raise Skip(f"cannot make hosts: {e}") from None
        self.thread.start()
        return self

    def make(self, h):
        name = f"ddp{os.getpid()}-{Hosts.count}-{h}"
        ip("netns", "add", name)
        self.names.append(name)
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.taps.append(fd)
        device = f"ddp{os.getpid() % 100000}x{Hosts.count}x{h}"
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
        ip("link", "set", device, "netns", name)
        here = ("-n", name)
        ip(*here, "link", "set", device, "name", "wire", "address", f"02:00:00:00:00:{h + 1:02x}", "mtu", str(MTU))
        ip(*here, "link", "set", "lo", "up")
        if self.ipv6:
            ip(*here, "addr", "add", f"{self.address(h)}/64", "dev", "wire", "nodad")
        else:
            ip(*here, "addr", "add", f"{self.address(h)}/24", "dev", "wire")
        ip(*here, "link", "set", "wire", "up")
        if not self.ipv6:
            subprocess.run(self.on(h, ["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"]), check=False)

    def __exit__(self, *_):
        os.write(self.wake_write, b"x")
        if self.thread.is_alive():
            self.thread.join()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        for fd in self.taps + [self.wake_read, self.wake_write]:
            os.close(fd)

    def address(self, h):
        return f"fd77::{h + 1}" if self.ipv6 else f"10.77.0.{h + 1}"

    def on(self, h, args):
        """The command that runs ARGS on host h, which is called host<h>."""
        return ["ip", "netns", "exec", self.names[h], "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"',
                f"host{h}", *args]

    # ---- what the network does ----

    def cut(self, a, b=None, both=True):
        """Nothing goes from host a to b any more (None: to any host), and back unless both is false."""
        with self.lock:
            for other in [b] if b is not None else [h for h in range(self.n) if h != a]:
                self.dead.add((a, other))
                if both:
                    self.dead.add((other, a))

    def quiet(self, seconds):
        return time.monotonic() - self.last > seconds

    def mend(self):
        with self.lock:
            self.dead.clear()

    def carry(self):
        """Frames from host to host: group addresses to all others."""
        loop, queue, number = selectors.DefaultSelector(), [], 0
        for h, fd in enumerate(self.taps):
            loop.register(fd, selectors.EVENT_READ, h)
        loop.register(self.wake_read, selectors.EVENT_READ, -1)
        while True:
            wait = max(0, queue[0][0] - time.monotonic()) if queue else None
            for key, _ in loop.select(wait):
                if key.data < 0:
                    return
                for frame in self.frames(key.fd):
                    for to in self.targets(key.data, frame):
                        number += 1
                        heapq.heappush(queue, (time.monotonic() + self.delay, number, to, frame))
            while queue and queue[0][0] <= time.monotonic():
                _, _, to, frame = heapq.heappop(queue)
                try:
                    os.write(self.taps[to], frame)
                except OSError:
                    pass  # its interface is down, or it cannot take more

    @staticmethod
    def frames(fd):
        for _ in range(64):
            try:
                yield os.read(fd, MTU + 64)
            except OSError:
                return

    def targets(self, source, frame):
        group = frame[0] & 1
        if not group:
            self.last = time.monotonic()
        if self.watch:
            self.watch(source, frame)
        to = [h for h in range(self.n) if h != source and (group or frame[5] == h + 1)]
        if self.blocked and self.blocked(frame):
            return []
        with self.lock:
            to = [h for h in to if (source, h) not in self.dead]
        if self.loss and not group and self.chance.random() < self.loss:
            self.lost += 1
            return []
        return to
