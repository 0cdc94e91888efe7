"""bf16 and fp16: master weights, the scale of the loss and what a skipped update leaves alone: precision.ddp
against numbers worked out on paper. The number in front of a test is its row (README.md)."""
from reports import Folder, Job, expect, logged, main, near, read_log, weights


def probe(f, values):
    job = Job(f, "precision")
    job.data(train=[[x] for x in values])
    return job


def row_70_small_updates_count():
    with Folder() as f:
        job = probe(f, [1] * 8)
        for key, skips in (("bf16", 0), ("fp16", 1)): # 65536 is no float16
            _, out = job.train(f"--max_steps {100 + skips}", **{key: "true"})
            near(weights(out)["w"], 0.9, f"100 steps of 0.001 from 1 in {key}", 1e-4)


# A gradient of 10 in 16 bits on each of 2 ranks: 10 * 4096 = 40960 is the first that fits.
def row_56_exactly_four_skips():
    with Folder() as f:
        job = probe(f, [1] * 8)
        log, out = job.train(ranks=2, fp16="true", FACTOR="20.0", lr_scheduler_type="linear")
        near(logged(log, "loss_scale"), [32768, 16384, 8192] + [4096] * 9, "scales")
        near(logged(log, "skipped_updates"), [1, 2, 3] + [4] * 9, "skips")
        rates = [0.001 * (1 - k / 12) for k in range(8)]
        near(logged(log, "learning_rate"), [0.001] * 4 + rates, "a skip leaves the rate alone")
        near(weights(out)["w"], 1 - 20 * sum(rates), "the weight as in float32", 1e-3)
        expect(logged(log, "step") == list(range(1, 13)) + [12], "a skip is an update")
        log, out = job.train("--max_steps 5", ranks=2, fp16="true", FACTOR="20.0", optim="adamw_torch")
        near(weights(out)["w"], 0.999, "Adam's first step, after four skips, has the length of the rate")


def row_56_one_rank_overflows():
    with Folder() as f:
        job = probe(f, [1, 1e6] + [1, 1] * 11)
        log, out = job.train("--train_sampling_strategy sequential", ranks=2, fp16="true")
        near(logged(log, "skipped_updates"), [1] * 12, "the first update is skipped on both ranks")
        near(weights(out)["w"], 1 - 11 * 0.001, "as often as both ranks stepped")


def row_20_a_scale_that_is_too_large_is_no_fault():
    """on_nan = skip changes nothing of what fp16 does, and says nothing about it."""
    with Folder() as f:
        job = probe(f, [1] * 8)
        how = dict(ranks=2, fp16="true", FACTOR="20.0")
        want, _ = job.train(**how)
        r, out = job.start("--on_nan skip", **how)
        expect(r.code == 0 and "is skipped" not in r.out, r.out)
        got = read_log(out)
        for key in ("loss", "loss_scale", "skipped_updates", "learning_rate"):
            expect(logged(got, key) == logged(want, key), f"{key}: {logged(got, key)}")


def row_56_too_many_skips():
    with Folder() as f:
        job = probe(f, [1, 1e6])
        r = job.fails("not finite in float16 for 24 updates in a row, down to a loss scale of 1;",
                      "--max_steps 100", ranks=2, fp16="true")
        expect(r.code == 8, f"exit code {r.code}")


def row_56_the_scale_grows():
    with Folder() as f:
        job = probe(f, [1] * 8)
        log, _ = job.train("--max_steps 4001", fp16="true", FACTOR="0.001")
        scales = logged(log, "loss_scale")
        near([scales[k - 1] for k in (1, 1999, 2000, 3999, 4000)],
             [65536, 65536, 131072, 131072, 262144], "scales")



main({k: v for k, v in list(globals().items()) if k.startswith("row_")})
