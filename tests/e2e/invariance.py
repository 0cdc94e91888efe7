"""The same global batch gives the same losses at 1, 2 and 4 ranks and with 4 accumulated micro-batches,
dropout included; any bucket size gives the same bits."""
from ddptest import Folder, expect, losses, main, same

JOB = "tests/e2e/invariance.ddp"
MNIST = "examples/mnist/job.ddp"


def weights(folder, name):
    with open(folder.file(f"{name}/model.safetensors"), "rb") as f:
        return f.read()


def world_sizes():
    with Folder() as f:
        runs = {}
        for ranks, batch, accumulate in ((1, 64, 1), (2, 32, 1), (4, 16, 1), (1, 16, 4), (2, 8, 4)):
            binary = f.compile(JOB, f"b{batch}", [f"train.per_device_train_batch_size={batch}"])
            for sharding in ("distributed_sampler", "accelerate"):  # the same samples at the same places of the batch
                name = f"{ranks}x{batch}x{accumulate}" + ("" if sharding[0] == "d" else " in whole batches")
                _, runs[name] = f.train(binary, name, ranks, ["--gradient_accumulation_steps", str(accumulate),
                                                              "--sharding", sharding])
        base = runs.pop("1x64x1")
        for name, log in runs.items():
            same(losses(base), losses(log), 1e-5, name)
            for key in ("eval_loss", "eval_accuracy"):
                same([r[key] for r in base if key in r], [r[key] for r in log if key in r], 1e-4, f"{name} {key}")


def dropout_acts():
    """The masks are really drawn: without dropout the losses are others."""
    with Folder() as f:
        _, plain = f.train(f.compile(JOB, "job-plain", ["dropout=0.0"]), "plain")
        _, dropped = f.train(f.compile(JOB, "job-dropped"), "dropped")
        expect(losses(plain)[0] != losses(dropped)[0], "dropout changes nothing")


def buckets():
    with Folder() as f:
        binary = f.compile(MNIST, "mnist")
        flags = ["--max_steps", "12", "--eval_strategy", "no", "--logging_steps", "1"]
        seen = {}
        for ranks in (2, 4):
            for cap in (None, 1, 2, 100):
                name = f"cap{cap}x{ranks}"
                f.train(binary, name, ranks, flags + (["--ddp_bucket_cap_mb", str(cap)] if cap else []))
                seen[cap] = weights(f, name)
            for cap, bits in seen.items():
                expect(bits == seen[None], f"{ranks} ranks, ddp_bucket_cap_mb = {cap}: other bits")


def gloo():
    """runtime { intra_node = backend } forces Gloo: 2 ranks same bits as shared memory, 4 ranks to 1e-6."""
    with Folder() as f:
        binary = f.compile(JOB, "b16", ["train.per_device_train_batch_size=16"])
        for ranks in (2, 4):
            _, shm = f.train(binary, f"shm{ranks}", ranks)
            run, log = f.train(binary, f"gloo{ranks}", ranks, ["--intra_node", "backend"])
            expect("gloo" in run.out, "the start banner does not name gloo")
            if ranks == 2:
                expect(weights(f, "shm2") == weights(f, "gloo2"), "2 ranks over Gloo: other bits")
            same(losses(shm), losses(log), 1e-6, f"gloo, {ranks} ranks")
            caps = []
            for cap in (1, 100):
                _, log = f.train(binary, f"gloo{ranks}cap{cap}", ranks,
                                 ["--intra_node", "backend", "--ddp_bucket_cap_mb", str(cap)])
                caps.append(losses(log))
            same(caps[0], caps[1], 1e-6 if ranks == 4 else 0, f"gloo, {ranks} ranks, buckets")


main(dict(world_sizes=world_sizes, dropout_acts=dropout_acts, buckets=buckets, gloo=gloo))
