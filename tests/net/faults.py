"""A network that breaks: whatever the ranks are doing, all of them end within ddp_timeout + 3 s, and each side names
the side that it cannot reach."""
import os
import re
import signal
import subprocess
import time

from cluster import PORT, Cluster
from ddptest import BUILD, SLOW, Failure, Folder, children, expect, main, reached, waited
from hosts import Hosts, ip

JOB = "tests/net/job.ddp"
TIMEOUT = 3
SLACK = 3  # seconds that all ranks have beyond ddp_timeout
ENDLESS = ["--max_steps", "1000000", "--logging_steps", "1", "--eval_steps", "1000000", "--ddp_timeout", str(TIMEOUT)]


def wait_for(condition, what, cluster, limit=30):
    end = time.monotonic() + limit * SLOW
    while not condition():
        dead = [r for r in cluster.all() if r.process.poll() is not None]
        if time.monotonic() > end or dead:
            raise Failure(f"waited for {what}\n{cluster.text()}")
        time.sleep(0.002)


def connections(net, host, address):
    """TCP connections that host has from that address."""
    out = subprocess.run(net.on(host, ["ss", "-tnH", "state", "established"]), stdout=subprocess.PIPE, text=True).stdout
    return sum(address in line.split()[-1] for line in out.splitlines())


def ends(c, cut, expected, well=(), records=None):
    """Everybody ends in time, with an error unless its host is one of `well`; expected: {host: texts or patterns,
    one of which must be there}. records: a folder whose flight records tell that somebody was waited for."""
    c.finish((TIMEOUT + SLACK + 15) * SLOW)
    seconds = c.seconds_since(cut)
    if os.environ.get("SHOW"):
        print(f"{seconds:.2f} s", c.text())
    most = TIMEOUT + SLACK * SLOW
    expect(seconds <= most, f"took {seconds:.1f} s, not {most:g}\n{c.text()}")
    if records:
        expect(waited(records) >= TIMEOUT, f"waited for {waited(records):.3f} s\n{c.text()}")
    for h, texts in expected.items():
        expect(all((r.code == 0) == (h in well) for r in c.parts[h]), f"host {h}: exit codes\n{c.text()}")
        patterns = [t if isinstance(t, re.Pattern) else re.compile(re.escape(t)) for t in texts]
        expect(any(p.search(c.out(h)) for p in patterns), f"host {h} does not say any of {texts}\n{c.text()}")


def broken(hosts, cut, expected, flags=None, ranks=2, ipv6=False):
    """Ends as expected when the network breaks at update 5."""
    with Folder() as f, Hosts(hosts, ipv6) as net:
        binary = f.compile(JOB, "job")
        out = f.file("out")
        values = {**dict(zip(ENDLESS[::2], ENDLESS[1::2])), "--output_dir": out, **(flags or {})}
        with Cluster(net, binary, [ranks] * hosts, [x for pair in values.items() for x in pair]) as c:
            c.start()
            wait_for(lambda: reached(out, 5), "update 5", c)
            at = time.monotonic()
            cut(net)
            ends(c, at, expected, records=out)


def missed(doing, host, rank, waited, silent):
    """What is said of a rank that does not come: whoever waits for it as long as ddp_timeout says so; whoever did not, since
    its processor was taken from it, has not heard of a rank of that host for so long. Both say in the midst of what."""
    return re.compile(rf"({doing}): (rank {rank} did not arrive within {TIMEOUT} s \(ddp_timeout\); {waited}"
                      rf"|rank \d+ \(pid \d+ on host{host}\) has not been heard of for more than {TIMEOUT} s "
                      rf"\(ddp_timeout\): {silent})")


def unreachable(host, doing=r"update \d+: (all-|broadcast of |barrier: ).*"):
    return missed(doing, host, 2 * host, f"nothing reaches its host host{host} for ",
                  "its host is gone, or the network to it is cut")


def training(hosts=2, culprit=1, cut=lambda net, h: net.cut(h), ipv6=False):
    """The first rank of a host that is cut off is named, there it is rank 0; where that is rank 0's own host, any."""
    expected = {h: [unreachable(culprit)] for h in range(hosts)}
    expected[culprit] = [unreachable(1 if culprit == 0 else 0)]
    broken(hosts, lambda net: cut(net, culprit), expected, ipv6=ipv6)


def interface(net, h):
    ip("-n", net.names[h], "link", "set", "wire", "down")


def never_reached():
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        net.cut(1)
        with Cluster(net, binary, [2, 2], ENDLESS + ["--output_dir", f.file("out")]) as c:
            at = time.monotonic()
            c.start()
            ends(c, at, {0: ["rank 2, 3 did not come"], 1: ["rank 0 was not found"]})
            expect(time.monotonic() - at >= TIMEOUT, c.text())


def rendezvous():
    """Host 1 is cut when its ranks have been admitted; host 2 never comes."""
    with Folder() as f, Hosts(3) as net:
        binary = f.compile(JOB, "job")
        with Cluster(net, binary, [2, 2, 2], ENDLESS + ["--output_dir", f.file("out")]) as c:
            c.start(0, 1)
            wait_for(lambda: connections(net, 0, net.address(1)) == 2 and net.quiet(0.2), "host 1", c)
            net.cut(1)
            ends(c, time.monotonic(), {0: ["rank 4, 5 did not come"], 1: ["rank 0"]})


def firewall():
    """Only MASTER_PORT gets through: Gloo does not connect, and it is said what may be in the way."""
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        net.blocked = lambda frame: (frame[12:14] == b"\x08\x00" and frame[23] == 6
                                     and PORT.to_bytes(2, "big") not in (frame[34:36], frame[36:38]))
        with Cluster(net, binary, [2, 2], ENDLESS + ["--output_dir", f.file("out")]) as c:
            at = time.monotonic()
            c.start()
            text = ["opening Gloo at 10.77.0.1 (Connect timeout", "opening Gloo at 10.77.0.2 (Connect timeout"]
            ends(c, at, {0: text, 1: text})
            expect("does a firewall let any port through" in c.out(0), c.text())


def does_not_open(net, text, env=None):
    """All ranks say why Gloo cannot be opened."""
    with Folder() as f:
        binary = f.compile(JOB, "job")
        with Cluster(net, binary, [2, 2], ENDLESS + ["--output_dir", f.file("out")], env) as c:
            c.start()
            ends(c, time.monotonic(), {0: [text], 1: [text]})


def link_local():
    """Gloo cannot use fe80:: addresses; all ranks say what to do."""
    with Hosts(2, ipv6=True) as net:
        net.address = lambda h: f"fe80::ff:fe00:{h + 1}%wire"
        does_not_open(net, "Gloo cannot use the link-local address fe80::ff:fe00:")


def no_interface():
    """An interface that does not exist is named, with the variable that says so."""
    with Hosts(2) as net:
        does_not_open(net, "opening Gloo on interface nope (GLOO_SOCKET_IFNAME): there is no such address here",
                      {"GLOO_SOCKET_IFNAME": "nope"})


def half_open():
    """A host is cut off, its ranks die, and it comes back: it knows nothing of the connections and says so."""
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        with Cluster(net, binary, [2, 2], ENDLESS + ["--output_dir", f.file("out")]) as c:
            c.start()
            wait_for(lambda: reached(f.file("out"), 5), "update 5", c)
            net.cut(1)
            os.killpg(c.parts[1][0].process.pid, signal.SIGKILL)
            c.parts[1][0].process.wait()
            net.mend()
            c.finish((TIMEOUT + SLACK) * SLOW)
            expect("lost rank 2" in c.out(0) or "lost rank 3" in c.out(0), c.text())
            expect(c.codes(0) == {4}, c.text())


def opening():
    """Host 1 is cut when its ranks have been admitted; then host 2 comes and the ranks begin to connect."""
    with Folder() as f, Hosts(3) as net:
        binary = f.compile(JOB, "job")
        with Cluster(net, binary, [2, 2, 2], ENDLESS + ["--output_dir", f.file("out")]) as c:
            c.start(0, 1)
            wait_for(lambda: connections(net, 0, net.address(1)) == 2 and net.quiet(0.2), "host 1", c)
            net.cut(1)
            at = time.monotonic()
            c.start(2)
            ends(c, at, {0: ["rank 2"], 1: ["rank 0"], 2: ["rank 2"]})



def one_way(to_first):
    """Only what goes to host 0 is lost, or only what comes from it: neither side hears an answer."""
    broken(2, lambda net: net.cut(int(to_first), int(not to_first), both=False),
           {0: [unreachable(1)], 1: [unreachable(0)]})


def between(ranks):
    """Hosts 1 and 2 do not reach each other any more, both reach host 0: nobody is silent."""
    a, b = ranks, 2 * ranks
    texts = [f"nothing gets through between rank {x} on host{x // ranks} and rank {y} on host{y // ranks}, though both"
             for x, y in ((a, b), (b, a))]
    broken(3, lambda net: net.cut(1, 2), {0: texts, 1: texts, 2: texts}, ranks=ranks)


def stopped(rank):
    """A rank that is stopped is told from a host that is gone, from afar too: its kernel still answers."""
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        with Cluster(net, binary, [2, 2], ENDLESS + ["--output_dir", f.file("out")]) as c:
            c.start()
            wait_for(lambda: reached(f.file("out"), 5), "update 5", c)
            os.kill(children(c.parts[rank // 2][0].process.pid)[rank], signal.SIGSTOP)
            text = missed(r"update \d+: .*", rank // 2, rank, "it has not answered for ", "it is stopped")
            ends(c, time.monotonic(), {0: [text], 1: [text]}, records=f.file("out"))
            for h in range(2):
                expect("it is stopped" in c.out(h) and "nothing reaches" not in c.out(h), c.text())


def evaluation():
    doing = "update 5: (broadcast of buffers|all-gather of the sums of the evaluation)"
    # rank 0 writes its log when it has all parts of the update's last sum; what it sent of it may be cut off on its way
    last = "update 4: all-reduce of loss and gradient norms"
    expected = {0: [unreachable(1, doing)], 1: [unreachable(0, doing), unreachable(0, last)]}
    broken(2, lambda net: net.cut(1), expected, {"--eval_steps": "5"})


def saving():
    """Rank 0 finishes what it was writing; nothing half-written stays."""
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job", ["width=3000"])
        out = f.file("out")
        with Cluster(net, binary, [2, 2], ENDLESS + ["--output_dir", out, "--save_strategy", "steps", "--save_steps", "5",
                                                      "--async_save", "false"]) as c:
            c.start()
            wait_for(lambda: os.path.exists(f"{out}/.checkpoint-5.partial"), "checkpoint 5", c)
            net.cut(1)
            ends(c, time.monotonic(), {0: ["rank 2"], 1: ["rank 0"]})
        expect(os.path.exists(f"{out}/checkpoint-5/manifest.json"), f"no checkpoint: {os.listdir(out)}")
        expect(not [n for n in os.listdir(out) if "partial" in n], f"half-written: {os.listdir(out)}")


def small_job(flags, text, expected, well=()):
    """Ranks without a job (tests/dist/rank.c): cut off when all have printed the text."""
    with Hosts(2) as net:
        env = {"DDP_PLUGIN_DIR": os.path.join(BUILD, "lib")}
        with Cluster(net, os.path.join(BUILD, "dist_rank"), [2, 2], [f"timeout={TIMEOUT}", *flags], env) as c:
            c.start()
            wait_for(lambda: sum(c.out(h).count(text) for h in range(2)) == 4, text, c)
            net.cut(1)
            ends(c, time.monotonic(), expected, well=well)


def computing():
    """Nobody waits for anybody: the silence itself is noticed."""
    small_job(["do=loop", "hang=all@3"], "computing", {
        0: [f"rank {r} (pid " for r in (2, 3)], 1: ["rank 0 (pid "]})


def end():
    """All but rank 3 are through; who waits at the end says who is missing."""
    small_job(["do=loop", "stay=3"], "at the end", {
        0: ["at the end of the job: rank 2 did not", "at the end of the job: rank 3 did not", "rank 2 (pid "],
        1: ["rank 0 (pid "]}, well=[0])


main(dict(training=training, training_ipv6=lambda: training(ipv6=True), training_first=lambda: training(culprit=0),
          training_three=lambda: training(3), training_three_first=lambda: training(3, 0),
          interface_down=lambda: training(cut=interface), one_way_in=lambda: one_way(True),
          one_way_out=lambda: one_way(False), between=lambda: between(2), between_single=lambda: between(1),
          stopped=lambda: stopped(3), stopped_first=lambda: stopped(0), evaluation=evaluation, saving=saving,
          computing=computing, end=end, never_reached=never_reached, rendezvous=rendezvous, opening=opening,
          firewall=firewall, no_interface=no_interface, half_open=half_open,
          link_local=link_local))
