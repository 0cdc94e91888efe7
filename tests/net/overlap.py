"""Communication that is hidden, on 2 hosts of 2 ranks joined by a slow wire: the optimizer steps the first bucket while the
last one travels; 16 bits on the wire; one time line of all hosts."""
import json

import cluster
from ddptest import Folder, expect, losses, main, read_log, same
from hosts import Hosts

MNIST = "examples/mnist/job.ddp"
FLAGS = ["--ddp_timeout", "20", "--max_steps", "12", "--eval_strategy", "no", "--logging_steps", "4", "--ddp_bucket_cap_mb", "1"]


def train(f, net, binary, name, *flags):
    cluster.run(net, binary, [2, 2], FLAGS + ["--output_dir", f.file(name), *flags], 60)
    with open(f.file(f"{name}/model.safetensors"), "rb") as file:
        return read_log(f.file(name)), file.read()


def buckets():
    """The same bits whether buckets are stepped as they come or after the norm of all gradients."""
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(MNIST, "job")
        net.delay = 0.002
        log, early = train(f, net, binary, "early", "--max_grad_norm", "0")
        expect(log[0]["optimizer_step"] == "per bucket" and log[0]["buckets"] == 2, str(log[0]))
        log, late = train(f, net, binary, "late", "--max_grad_norm", "1e30")
        expect("after all" in log[0]["optimizer_step"], str(log[0]))
        expect(early == late, "other bits")


def wire():
    """Two levels add in 16 bits as one does: other roundings of sums of four, and the same in every run."""
    with Folder() as f, Hosts(2) as net:
        binary = f.compile(MNIST, "job")
        plain, _ = train(f, net, binary, "plain")
        half = ["--allreduce_dtype", "bf16"]
        first, bits = train(f, net, binary, "first", *half)
        expect(train(f, net, binary, "second", *half)[1] == bits, "the second run has other bits")
        _, one = f.train(binary, "one", 4, FLAGS + half)
        expect(losses(first) != losses(plain), "bf16 changes nothing")
        same(losses(one), losses(first), 2e-3, "2 x 2 and 4 ranks in bf16")  # gradients differ by 2^-8 at most


def time_line():
    """All four ranks in one file with one clock, and steps of the optimizer while a later bucket is under way."""
    with Folder() as f, Hosts(2) as net:
        binary, path = f.compile(MNIST, "job"), f.file("t.json")
        net.delay = 0.01
        train(f, net, binary, "run", "--profile", path)
        with open(path) as file:
            events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
        expect({e["pid"] for e in events} == {0, 1, 2, 3}, "ranks of the trace")
        for rank in (0, 2):  # who talks to the other host
            mine = [e for e in events if e["pid"] == rank]
            last = [e for e in mine if e["cat"] == "collective" and e["name"] == "bucket 1"]
            steps = [e for e in mine if e["cat"] == "part" and e["name"] == "optimizer"]
            hidden = [s for s in steps if any(b["ts"] < s["ts"] and s["ts"] + s["dur"] < b["ts"] + b["dur"] for b in last)]
            # both are over the wire, one after the other; a rank that does not get a CPU for so long steps late
            expect(len(last) == 12 and hidden, f"rank {rank}: {len(hidden)} steps beside {len(last)} buckets")
        # a sum that no rank can have before the last one has entered it, by the clock of rank 0
        for update in range(1, 13):
            sums = [e for e in events if e["cat"] == "collective" and e["name"] == "bucket 1" and e["args"]["update"] == update]
            entered, ended = max(e["ts"] for e in sums), min(e["ts"] + e["dur"] for e in sums)
            expect(len(sums) == 4 and entered < ended + 4e6 * net.delay, f"update {update}: entered at {entered}, ended at {ended}")


main(dict(buckets=buckets, wire=wire, time_line=time_line))
