"""A network that breaks: whatever the ranks are doing, all of them end within ddp_timeout + 3 s, and each side names
the side that it cannot reach."""
import os
import time

from cluster import Cluster
from ddptest import Failure, Folder, expect, main, read_log
from hosts import Hosts

JOB = "tests/net/job.ddp"
TIMEOUT = 3
SLACK = 3  # seconds that all ranks have beyond ddp_timeout
ENDLESS = ["--max_steps", "1000000", "--logging_steps", "1", "--eval_strategy", "no", "--ddp_timeout", str(TIMEOUT)]


def wait_for(condition, what, cluster, limit=30):
    end = time.monotonic() + limit
    while not condition():
        dead = [r for r in cluster.all() if r.process.poll() is not None]
        if time.monotonic() > end or dead:
            raise Failure(f"waited for {what}\n{cluster.text()}")
        time.sleep(0.002)


def reached(folder, step):
    try:
        return any(r.get("step", 0) >= step for r in read_log(folder))
    except (OSError, ValueError):
        return False


def connections(net, host, address):
    """TCP connections that host has from that address."""
    import subprocess
    out = subprocess.run(net.on(host, ["ss", "-tnH", "state", "established"]), stdout=subprocess.PIPE, text=True).stdout
    return sum(address in line.split()[-1] for line in out.splitlines())


def ends(c, cut, expected, at_least=0):
    """Everybody ends in time with an error; expected: {host: texts, one of which must be there}."""
    c.finish(TIMEOUT + SLACK + 15)
    seconds = c.seconds_since(cut)
    if os.environ.get("SHOW"):
        print(f"{seconds:.2f} s", c.text())
    expect(seconds <= TIMEOUT + SLACK, f"took {seconds:.1f} s, not {TIMEOUT + SLACK}\n{c.text()}")
    expect(seconds >= at_least, f"took {seconds:.1f} s\n{c.text()}")
    for h, texts in expected.items():
        expect(all(r.code not in (0, None) for r in c.parts[h]), f"host {h} ended well\n{c.text()}")
        expect(any(t in c.out(h) for t in texts), f"host {h} does not say any of {texts}\n{c.text()}")


def training(hosts=2, culprit=1, cut=lambda net, h: net.cut(h)):
    with Folder() as f, Hosts(hosts) as net:
        binary = f.compile(JOB, "job")
        out = f.file("out")
        with Cluster(net, binary, [2] * hosts, ENDLESS + ["--output_dir", out]) as c:
            c.start()
            wait_for(lambda: reached(out, 5), "update 5", c)
            cut(net, culprit)
            at = time.monotonic()
            expected = {h: [f"rank {r} did not arrive" for r in (2 * culprit, 2 * culprit + 1)] for h in range(hosts)}
            expected[culprit] = ["rank 0 did not arrive"] if culprit else [
                f"rank {r} did not arrive" for r in range(2, 2 * hosts)]
            ends(c, at, expected, TIMEOUT)


def interface(net, h):
    import hosts as m
    m.ip("-n", net.names[h], "link", "set", "wire", "down")


def never_reached():
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        net.cut(1)
        with Cluster(net, binary, [2, 2], ENDLESS + ["--output_dir", f.file("out")]) as c:
            at = time.monotonic()
            c.start()
            ends(c, at, {0: ["rank 2, 3 did not come"], 1: ["rank 0 was not found"]}, TIMEOUT)


def rendezvous():
    """Host 1 is cut when its ranks have been admitted; host 2 never comes."""
    with Folder() as f, Hosts(3) as net:
        binary = f.compile(JOB, "job")
        with Cluster(net, binary, [2, 2, 2], ENDLESS + ["--output_dir", f.file("out")]) as c:
            c.start(0, 1)
            wait_for(lambda: connections(net, 0, net.address(1)) == 2, "host 1", c)
            net.cut(1)
            ends(c, time.monotonic(), {0: ["rank 4, 5 did not come"], 1: ["rank 0"]})


def opening():
    """Host 1 is cut when its ranks have been admitted; then host 2 comes and the ranks begin to connect."""
    with Folder() as f, Hosts(3) as net:
        binary = f.compile(JOB, "job")
        with Cluster(net, binary, [2, 2, 2], ENDLESS + ["--output_dir", f.file("out")]) as c:
            c.start(0, 1)
            wait_for(lambda: connections(net, 0, net.address(1)) == 2, "host 1", c)
            net.cut(1)
            at = time.monotonic()
            c.start(2)
            ends(c, at, {0: ["rank 2"], 1: ["rank 0"], 2: ["rank 2"]})


main(dict(training=training, training_first=lambda: training(culprit=0), training_three=lambda: training(3),
          training_three_first=lambda: training(3, 0), interface_down=lambda: training(cut=interface),
          never_reached=never_reached, rendezvous=rendezvous, opening=opening))
