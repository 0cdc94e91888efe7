"""Several hosts compute what one host computes: 2 hosts x 2 ranks, 3 hosts, uneven hosts, IPv6 alone, a slow and
a lossy network."""
import json
import os
import struct
import time

import cluster
from hosts import Hosts
from ddptest import Folder, expect, losses, main, read_log, same

JOB = "tests/net/job.ddp"
FLAGS = ["--ddp_timeout", "20"]


def weights(path):
    """{name: floats} of a file of safetensors."""
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            begin, end = t["data_offsets"]
            out[name] = struct.unpack(f"<{(end - begin) // 4}f", data[8 + n + begin:8 + n + end])
    return out


class Results:
    def __init__(self, folder):
        self.log = read_log(folder)
        with open(f"{folder}/model.safetensors", "rb") as f:
            self.bits = f.read()
        self.weights = weights(f"{folder}/model.safetensors")


def close(a, b, what):
    """To 1e-6: losses and metrics of every line, relative; weights relative to the largest of their tensor."""
    same(losses(a.log), losses(b.log), 1e-6, what)
    for key in ("eval_loss", "eval_accuracy", "grad_norm"):
        same([r[key] for r in a.log if key in r], [r[key] for r in b.log if key in r], 1e-6, f"{what}: {key}")
    for name, x in a.weights.items():
        y, scale = b.weights[name], max(map(abs, x)) or 1
        worst = max(abs(p - q) for p, q in zip(x, y)) / scale
        expect(worst <= 1e-6, f"{what}: {name} differs by {worst:.3g}")


def one_host(f, binary, ranks):
    f.train(binary, f"one{ranks}", ranks, FLAGS)
    return Results(f.file(f"one{ranks}"))


def on_hosts(f, net, binary, ranks, name, path="shared memory + gloo", flags=(), limit=60):
    out = cluster.run(net, binary, ranks, FLAGS + ["--output_dir", f.file(name), *flags], limit)
    expect(path in out[0], f"not by {path}:\n{out[0]}")
    return Results(f.file(name))


def two_hosts():
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        first = on_hosts(f, net, binary, [2, 2], "first")
        close(one_host(f, binary, 4), first, "2 x 2 and 4 ranks")
        expect(on_hosts(f, net, binary, [2, 2], "second").bits == first.bits, "the second run has other bits")


def three_hosts():
    with Folder() as f, Hosts(3) as net:
        binary = f.compile(JOB, "job")
        first = on_hosts(f, net, binary, [1, 1, 1], "first", "gloo")
        close(one_host(f, binary, 3), first, "3 x 1 and 3 ranks")
        expect(on_hosts(f, net, binary, [1, 1, 1], "second", "gloo").bits == first.bits, "other bits")


def uneven_hosts():
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        base = one_host(f, binary, 4)
        for ranks in ([3, 1], [1, 3]):
            first = on_hosts(f, net, binary, ranks, f"a{ranks[0]}")
            close(base, first, f"{ranks} and 4 ranks")
            expect(on_hosts(f, net, binary, ranks, f"b{ranks[0]}").bits == first.bits, f"{ranks}: other bits")


def ipv6():
    with Folder() as f, Hosts(2, ipv6=True) as net:
        binary = f.compile(JOB, "job")
        close(one_host(f, binary, 4), on_hosts(f, net, binary, [2, 2], "six"), "IPv6")


def ways():
    """Steps bucket by bucket (no global norm), gradients in 16 bits, Gloo inside the hosts too: the same bits twice, and
    what one host computes in the same way."""
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        for i, (path, flags, near) in enumerate((
                ("shared memory + gloo", ["--max_grad_norm", "0", "--ddp_bucket_cap_mb", "1"], 1e-6),
                ("(own launcher, gloo)", ["--intra_node", "backend"], 1e-6),
                ("shared memory + gloo", ["--allreduce_dtype", "bfloat16"], None))):
            first = on_hosts(f, net, binary, [2, 2], f"first{i}", path, flags)
            again = on_hosts(f, net, binary, [2, 2], f"again{i}", path, flags)
            expect(first.bits == again.bits, f"{flags}: other bits the second time")
            f.train(binary, f"one{i}", 4, FLAGS + flags)
            if near:
                close(Results(f.file(f"one{i}")), first, str(flags))
            else:  # sums of hosts are rounded once more, by 2^-9 of a gradient: over 30 steps of 0.02 of norm 1 at most
                same(losses(Results(f.file(f"one{i}")).log), losses(first.log), 30 * 0.02 * 2**-9, str(flags))


def slow():
    """10 ms each way."""
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        quick = on_hosts(f, net, binary, [2, 2], "quick")
        net.delay = 0.01
        late = on_hosts(f, net, binary, [2, 2], "slow", limit=120)
        expect(quick.bits == late.bits, "latency changes bits")


def lossy():
    """One frame of thirty is lost."""
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        quick = on_hosts(f, net, binary, [2, 2], "quick")
        net.loss = 0.03
        late = on_hosts(f, net, binary, [2, 2], "lossy", limit=120)
        expect(quick.bits == late.bits, "loss changes bits")
        expect(net.lost > 0, "nothing was lost")


def outage():
    """Nothing gets through for two seconds, in the middle of training: the run goes on with the same bits."""
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(JOB, "job")
        quick, cut = on_hosts(f, net, binary, [2, 2], "quick"), []

        def watch(*_):
            if not cut and os.path.exists(f.file("cut/log.jsonl")) and len(read_log(f.file("cut"))) > 5:
                cut.append(time.monotonic())
                net.cut(1)
            if cut and time.monotonic() > cut[0] + 2:
                net.mend()

        net.watch = watch
        late = on_hosts(f, net, binary, [2, 2], "cut")
        expect(cut and quick.bits == late.bits, "an outage changes bits")


def late_answer():
    """Rank 0's answer to the greeting of host 1 takes 4 s: nobody takes the rank for a stranger, lost, or twice there."""
    with Folder() as f, Hosts(2) as net:
        binary, heard = f.compile(JOB, "job"), []

        def watch(source, frame):
            if source == 1 and len(frame) > 300 and not heard:  # longer than any handshake of TCP
                heard.append(time.monotonic())
                net.cut(0, 1, both=False)
            if heard and time.monotonic() > heard[0] + 4:
                net.mend()

        net.watch = watch
        out = cluster.run(net, binary, [2, 2], FLAGS + ["--output_dir", f.file("out"), "--max_steps", "2"])
        expect("shared memory + gloo" in out[0], out[0])
        expect(heard, "no greeting was seen")


main(dict(two_hosts=two_hosts, three_hosts=three_hosts, uneven_hosts=uneven_hosts, ipv6=ipv6, slow=slow, lossy=lossy, ways=ways,
          outage=outage, late_answer=late_answer))
