"""What `ddpc plan` says about memory is what a run takes: every arena and the activation block to the
byte, resident memory within 10 %; and after the first update nothing more is taken."""
import os
import re
import shutil

from ddptest import DDPC, ROOT, Folder, expect, main, must

HERE = os.path.join(ROOT, "tests", "e2e")


def planned(job, defines=()):
    """{name as in the log: bytes} of the table "memory of one rank"."""
    args = [DDPC, "plan", job]
    for d in defines:
        args += ["-D", d]
    table = must(args).out.split("memory of one rank\n", 1)[1].split("\n\n", 1)[0]
    sums = {"activations": 0, "optimizer state": 0, "frozen parameters": 0, "buffers": 0}
    for line in table.splitlines()[1:]:
        name, rest = re.match(r"  (.*?)  +(.*)", line).groups()
        number = int(next(w for w in reversed(rest.split()[:-2]) if w[0].isdigit()).replace(",", ""))
        if name in ("parameters", "gradients", "buffers"):
            sums[name] = number
        elif name == "frozen":
            sums["frozen parameters"] = number
        elif name.startswith("activations"):
            sums["activations"] = max(sums["activations"], number)  # one block serves both
        elif name == "samples of one batch":
            sums["batch"] = number
        elif name.startswith("all of"):
            sums["all"] = number
        else:
            sums["optimizer state"] += number
    return sums


def exact():
    """The runtime counts what it allocates, by purpose, in the first record of log.jsonl."""
    for job, defines in (("examples/digits/job.ddp", []), ("examples/digits/job.ddp", ["runtime.ema_decay=0.9"]),
                         ("examples/mnist/job.ddp", []),
                         ("examples/breast_cancer/job.ddp", []), ("tests/e2e/invariance.ddp", [])):
        with Folder() as f:
            plan = planned(os.path.join(ROOT, job), defines)
            binary = f.compile(job, "job", defines)
            for ranks in (1, 2):
                _, log = f.train(binary, f"out{ranks}", ranks,
                                 ["--max_steps", "2", "--warmup_steps", "0", "--eval_strategy", "no"])
                counted = dict(log[0]["memory_bytes"])
                counted.pop("data")  # the file decides that
                expect(sum(counted.values()) == plan["all"],
                       f"{job}, {ranks} ranks: {plan['all']} bytes planned, {counted} counted")
                for name, n in counted.items():
                    expect(plan.get(name) == n, f"{job}, {ranks} ranks, {name}: {plan.get(name)} planned, {n} counted")


def wide(f):
    """The wide perceptron with its data, in the folder."""
    with open(f.file("memory.csv"), "w") as out:
        for i in range(320):
            out.write(",".join(str((i * 7 + k * 13) % 101 / 100) for k in range(64)) + f",{i % 10}\n")
    return shutil.copy(os.path.join(HERE, "memory.ddp"), f.path)


def resident():
    """Resident memory that the process filled itself: anonymous pages and its part of the shared ones
    (proportional set size: the gradients of all ranks lie in one shared mapping), from the start of main
    to the end of training. Against: what the plan says, and the data. The rest, under 10 %, is oneDNN's
    generated code, stacks of threads, and buffers of the C library."""
    with Folder() as f:
        job = wide(f)
        plan = planned(job)
        binary = f.compile(job, "job")
        for ranks in (1, 2):
            _, log = f.train(binary, f"out{ranks}", ranks)
            end, most = log[-1], plan["all"] + log[0]["memory_bytes"]["data"]
            if "init_mem_cpu_alloc_delta" not in end:
                print("this kernel does not tell resident memory")
                return
            grown = end["init_mem_cpu_alloc_delta"] + end["train_mem_cpu_alloc_delta"]
            if ranks > 1:
                most += 2 * 256 << 10  # this rank's stage of the shared memory group
            expect(abs(grown - most) <= 0.1 * most,
                   f"{ranks} ranks: {most} bytes planned, resident memory grew by {grown}")


def heap_calls(f, binary, name, ranks, steps, flags):
    """Calls on the training thread of each rank, sorted."""
    r, _ = f.train(binary, f"{name}{ranks}x{steps}", ranks, ["--max_steps", str(steps), *flags])
    found = sorted(int(n) for n in re.findall(r"heap calls: training (\d+)", r.out))
    if ranks > 1:
        found.pop(0)  # the launcher, which has done least
    expect(len(found) == ranks, f"{len(found)} ranks counted:\n{r.out}")
    return found


def steady():
    """As many heap calls for 2 updates as for 60, with a second epoch, log lines and evaluations. The text of
    trainer_state.json is counted apart: it holds the log so far."""
    with Folder() as f:
        os.environ["DDPC_CC"] = "cc -Wl,--wrap=ddp_history_text " + os.path.join(HERE, "allocations.c")
        try:
            binary = f.compile("examples/digits/job.ddp", "job", ["train.per_device_train_batch_size=64"])
        finally:
            del os.environ["DDPC_CC"]
        bare = ["--warmup_steps", "0", "--logging_strategy", "no", "--eval_strategy", "no"]
        busy = ["--warmup_steps", "0", "--logging_steps", "1", "--eval_strategy", "steps", "--eval_steps", "1",
                "--gradient_accumulation_steps", "2"]
        for ranks in (1, 2):
            for name, flags in (("bare", bare), ("busy", busy)):
                few, many = (heap_calls(f, binary, name, ranks, n, flags) for n in (2, 60))
                expect(few == many, f"{ranks} ranks, {name}: {few} calls with 2 updates, {many} with 60")


main(dict(exact=exact, resident=resident, steady=steady))
