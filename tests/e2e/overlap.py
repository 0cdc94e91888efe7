"""The optimizer steps each bucket as it arrives, unless something needs all gradients first: the same bits either way;
what the log and the plan say about it; and exposed communication."""
import json
import re

from ddptest import DDPC, ROOT, Folder, expect, main, must, run

JOB = "tests/e2e/invariance.ddp"
LATE = ["--max_grad_norm", "1e30"]  # the norm of all gradients is needed, and scales nothing
EARLY = ["--max_grad_norm", "0"]
SHORT = ["--max_steps", "12", "--eval_strategy", "no", "--logging_steps", "4"]


def weights(folder, name):
    with open(folder.file(f"{name}/model.safetensors"), "rb") as f:
        return f.read()


def same_bits():
    """Shared memory and Gloo, 2 and 3 ranks, several sizes of buckets, an optimizer of elements and one of whole
    tensors, float32 and 16 bits on the wire."""
    with Folder() as f:
        for optim in ("adamw_torch_fused", "adafactor"):
            binary = f.compile(JOB, optim, ["train.per_device_train_batch_size=16", f"train.optim={optim}"])
            for k, (ranks, flags) in enumerate(((2, []), (3, ["--gradient_accumulation_steps", "2"]),
                                                (2, ["--intra_node", "backend"]),
                                                (3, ["--allreduce_dtype", "bf16"]))):
                seen = set()
                for name, how in (("early", EARLY), ("late", LATE)):
                    _, log = f.train(binary, f"{optim}{k}{name}", ranks, SHORT + flags + how)
                    seen.add(weights(f, f"{optim}{k}{name}"))
                    step = log[0]["optimizer_step"]
                    want = "per bucket" if name == "early" else "after all gradients: max_grad_norm"
                    expect(step == want, f"the log says {step}")
                expect(len(seen) == 1, f"{optim}, {ranks} ranks, {flags}: other bits when buckets are stepped as they come")


def sizes_of_buckets():
    with Folder() as f:
        binary = f.compile("examples/mnist/job.ddp", "mnist")
        flags = ["--max_steps", "12", "--eval_strategy", "no", "--logging_steps", "1"]
        seen, counts = set(), []
        for cap in (None, 1, 2, 100):
            _, log = f.train(binary, f"cap{cap}", 2, flags + (["--ddp_bucket_cap_mb", str(cap)] if cap else []))
            expect(log[0]["optimizer_step"] == "per bucket", "mnist does not clip")
            counts.append(log[0]["buckets"])
            seen.add(weights(f, f"cap{cap}"))
        expect(len(seen) == 1, "the size of buckets changes bits")
        # 784-512-512-10: 1 MiB closes after the two layers that are ready first, then one of 25 MiB is never full
        expect(counts == [2, 2, 1, 1], f"buckets: {counts}")


def needs_all():
    with Folder() as f:
        binary = f.compile(JOB, "job-half", ["train.fp16=true", "train.per_device_train_batch_size=16"])
        _, log = f.train(binary, "half", 2, SHORT + EARLY)
        expect("fp16" in log[0]["optimizer_step"], f"the log says {log[0]['optimizer_step']}")
        plain = f.compile(JOB, "job-plain", ["train.per_device_train_batch_size=16"])
        _, log = f.train(plain, "plain", 1, SHORT + EARLY)
        expect("optimizer_step" not in log[0] and "buckets" not in log[0], "one rank has no buckets")
        for define, words in ((["train.max_grad_norm=0"], "steps each bucket as soon as its sum is there"),
                              ([], "steps after the last bucket: max_grad_norm = 1.0 needs all gradients first"),
                              (["train.max_grad_norm=0", "train.fp16=true"], "fp16 = true needs all gradients first")):
            args = [DDPC, "plan", f"{ROOT}/{JOB}"]
            for d in define:
                args += ["-D", d]
            text = must(args).out
            expect(words in text, f"{define}: the plan does not say '{words}'")
        r = must([DDPC, "plan", "--json", f"{ROOT}/{JOB}"])
        expect(json.loads(r.out)["steps_after_all"] == "max_grad_norm", "the plan's JSON")


def exposed():
    """In every line of training and in the last one; no more than the updates took."""
    with Folder() as f:
        binary = f.compile(JOB, "job", ["train.per_device_train_batch_size=16"])
        for name, flags in (("shm", []), ("gloo", ["--intra_node", "backend"])):
            r, log = f.train(binary, name, 2, SHORT + flags)
            lines = [x["exposed_communication_ms"] for x in log if "loss" in x]
            expect(len(lines) == 3 and all(x > 0 for x in lines), f"exposed communication of the lines: {lines}")
            last = next(x for x in log if "train_runtime" in x)
            mean = last["exposed_communication_ms"]
            expect(0 < mean <= last["step_ms_mean"] and min(lines) <= mean <= max(lines), f"{mean} ms, lines {lines}")
            expect(mean * 12 >= last["communication_wait"] * 1e3, "waits for gradients are part of it")
            expect(re.search(r"exposed communication: \S+ ms of \S+ ms an update \(\S+ %\)", r.out), r.out)
        r, log = f.train(binary, "alone", 1, SHORT)
        expect(not any("exposed_communication_ms" in x for x in log) and "exposed" not in r.out, "one rank sends nothing")


ROWS = """edition 1
dataset d {
  let rows = csv("rows.csv")
  field x: float[2]
  field y: uint8 in 0..2
  split train = rows
  split validation = rows
}
module Net() {
  fc1 = Linear(2, 8)
  fc2 = Linear(8, 2)
  init fc1.weight = zeros()
  forward(x: [B, 2]) -> [B, 2] {
    return fc2(tanh(fc1(x)))
  }
}
model net = Net()
objective {
  loss = 1e6 * cross_entropy(net(d.x), d.y)
}
train {
  output_dir = "out"
  per_device_train_batch_size = 1
  learning_rate = 0.0
  lr_scheduler_type = constant
  optim = sgd
  max_grad_norm = 0
  save_strategy = no
  train_sampling_strategy = sequential
  num_train_epochs = 1
  logging_steps = 100
}
"""


def not_finite():
    """A gradient that is not finite is found before it reaches the weights, though the loss is finite: the weights of
    the first layer are 0, and 3e38 times the rest of the chain rule is too large."""
    with Folder() as f:
        with open(f.file("rows.csv"), "w") as out:
            out.write("1,2,1\n" * 9 + "3e38,3e38,0\n" + "1,2,0\n" * 2)
        with open(f.file("job.ddp"), "w") as out:
            out.write(ROWS)
        binary = f.file("train")
        must([DDPC, f.file("job.ddp"), "-o", binary])
        flags = ["--nproc-per-node", "2", "--output_dir", f.file("o")]
        r = run([binary] + flags)
        expect(r.code == 8 and re.search(r"update 5: the loss is \d+(\.\d+)?(e\+\d+)? and the gradient of fc1.weight is not "
                                         r"finite; nothing was saved", r.out), f"exit {r.code}:\n{r.out}")
        r = run([binary] + flags + ["--on_nan", "ignore"])
        expect(r.code == 0, r.out)


def wire():
    with Folder() as f:
        binary = f.compile(JOB, "job")
        r = run([binary, "--nproc-per-node", "2", "--comm_hook", "bf16_compress", "--allreduce_dtype", "fp16",
                 "--output_dir", f.file("o")])
        expect(r.code == 2 and "name two types for gradients on the wire" in r.out, f"exit {r.code}:\n{r.out}")
        f.train(binary, "both", 2, SHORT + ["--comm_hook", "bf16_compress", "--allreduce_dtype", "bfloat16"])


if __name__ == "__main__":
    main(dict(same_bits=same_bits, sizes_of_buckets=sizes_of_buckets, needs_all=needs_all, exposed=exposed,
              not_finite=not_finite, wire=wire))
