"""Accumulation, counting, clipping, schedules, logging and saving intervals: probe.ddp against numbers
worked out on paper. The number in front of a test is its row in the log of public reports (README.md)."""
import math
import os

from reports import Folder, Job, collectives, expect, logged, main, near, read_log, run, weights

ONE = (0, 1, 0, 1)  # c, x, y, n: moves w by 1


def probe(f, rows, eval_rows=((1, 0, 0, 1),)):
    job = Job(f, "probe")
    job.data(train=[list(r) for r in rows], eval=[list(r) for r in eval_rows])
    return job


def row_1_items_counted_globally():
    rows = [(4 * (k % 3), k % 4, 0, n) for k, n in enumerate((1, 3, 2, 5, 1, 1, 4, 2))]
    with Folder() as f:
        job = probe(f, rows)
        seen = []
        for ranks, batch, accumulate in ((1, 8, 1), (2, 1, 4), (4, 2, 1), (1, 2, 4)):
            log, out = job.train(f"--gradient_accumulation_steps {accumulate} --num_train_epochs 3 "
                                 "--learning_rate 0.1", ranks, per_device_train_batch_size=batch)
            seen.append(logged(log, "loss") + weights(out)["w"])
            expect(len(seen[-1]) == 3 + 2, f"{len(seen[-1]) - 2} updates, not 3")
            near(seen[-1], seen[0], f"{ranks} ranks, batch {batch}, {accumulate} micro-batches")
        job.data(train=[(4, 0, 0, 1), (1, 0, 0, 3)])
        log, _ = job.train(ranks=2)
        near(logged(log, "loss"), 1.75, "one item of loss 4, three of loss 1")
        job.data(train=[(4, 1, 1, 0), (1, 1, 1, 0)])
        log, out = job.train(ranks=2)
        near(logged(log, "loss") + weights(out)["w"], [0, 0, 0], "nothing counted")


def row_2_short_window():
    with Folder() as f:
        job = probe(f, [ONE] * 5)
        _, out = job.train("--gradient_accumulation_steps 2 --save_strategy steps --save_steps 1")
        near([weights(out, f"checkpoint-{k}")["w"][0] for k in (1, 2, 3)], [1, 2, 3], "5 samples in windows of 2")
        _, out = job.train("--gradient_accumulation_steps 2", ranks=2)
        near(weights(out)["w"][0], 2, "the same over 2 ranks")
        job.data(train=[ONE])
        log, out = job.train("--gradient_accumulation_steps 4")
        near(logged(log, "loss") + weights(out)["w"][:1], [0, 1], "1 sample in a window of 4")


def row_3_planned_updates():
    with Folder() as f:
        job = probe(f, [ONE] * 91)
        for ranks, total in ((1, 40), (2, 20)):
            log, out = job.train("--gradient_accumulation_steps 3 --num_train_epochs 10", ranks,
                                 lr_scheduler_type="linear", per_device_train_batch_size=10)
            near(logged(log, "learning_rate"), [1 - k / total for k in range(total)], f"rates, {ranks} ranks")
            expect(log[0]["max_steps"] == total, f"{log[0]['max_steps']} updates planned")
            near(weights(out)["w"][0], sum(1 - k / total for k in range(total)), "every update is a mean of ones")


def row_7_rate_of_the_update():
    wanted = [0, .5, 1, .9330127018922194, .75, .5, .25, .06698729810778066]
    with Folder() as f:
        job = probe(f, [ONE] * 12)
        for ranks in (1, 2, 4):
            for accumulate in (1, 3):
                log, _ = job.train(f"--max_steps 8 --warmup_steps 2 --gradient_accumulation_steps {accumulate}",
                                   ranks, lr_scheduler_type="cosine")
                near(logged(log, "learning_rate"), wanted, f"{ranks} ranks, {accumulate} micro-batches")


def row_55_warm_up():
    with Folder() as f:
        job = probe(f, [ONE] * 7)
        kind = dict(lr_scheduler_type="linear")
        log, _ = job.train("--max_steps 6 --warmup_steps 2", **kind)
        near(logged(log, "learning_rate"), [0, .5, 1, .75, .5, .25], "2 of 6")
        job.fails("warmup_steps = 10 is longer than the run of 4 updates", "--max_steps 4 --warmup_steps 10", **kind)
        log, _ = job.train("--max_steps 4 --warmup_steps 4", **kind)
        near(logged(log, "learning_rate"), [0, .25, .5, .75], "4 of 4")
        log, _ = job.train("--warmup_steps 0.1", **kind)
        near(logged(log, "learning_rate")[:3], [0, 1, 5 / 6], "a tenth of 7 is 1")


def row_16_clipping():
    with Folder() as f:
        job = probe(f, [(0, 3, 0, 1), (0, 0, 4, 1)])
        for ranks, flags in ((1, "--gradient_accumulation_steps 2"), (2, "")):
            log, out = job.train(flags + " --max_grad_norm 1", ranks)
            near(logged(log, "grad_norm"), 2.5, f"norm before clipping, {ranks} ranks")
            near(weights(out)["w"], [.6, .8], f"clipped gradient, {ranks} ranks")


def row_20_not_a_number():
    rows = [ONE] * 12
    rows[7] = (0, 1e38, 1e38, 1e3)  # reaches rank 1 of 2
    with Folder() as f:
        job = probe(f, rows)
        r = job.fails("update 4: the loss is", "--save_strategy steps --save_steps 1", 2)
        for part in ("rank 1", "data row 8 (counted from 1)"):
            expect(part in r.out, f"no '{part}' in:\n{r.out}")
        out = f.file("out-probe-1")
        saved = sorted(x for x in os.listdir(out) if x.startswith("checkpoint"))
        expect(saved == ["checkpoint-1", "checkpoint-2", "checkpoint-3"], f"saved: {saved}")
        near(weights(out, "checkpoint-3")["w"][0], 3, "the last good save")
        log, out = job.train("--on_nan ignore", 2)
        expect(log[-1]["step"] == 6, "with on_nan = ignore the run ended early")


def row_20_skipped():
    """Left out on both ranks: weights, steps of the optimizer and the schedule are those of the other updates."""
    rows = [ONE] * 12
    rows[7] = (0, 1e38, 1e38, 1e3)
    with Folder() as f:
        job = probe(f, rows)
        how = dict(lr_scheduler_type="linear")
        for ranks, flags in ((2, ""), (1, "--gradient_accumulation_steps 2"), (2, "--intra_node backend")):
            r, out = job.start(f"--on_nan skip --check_ranks 1 --save_strategy steps --save_steps 1 {flags}", ranks, **how)
            expect(r.code == 0, r.out)
            for part in ("update 4: the loss is", "data row 8 (counted from 1)", "the update is skipped"):
                expect(r.out.count(part) == 1, f"not once '{part}' in:\n{r.out}")
            expect(ranks == 1 or "first on rank 1" in r.out, r.out)
            log = read_log(out)
            near(logged(log, "learning_rate"), [1, 5 / 6, 4 / 6, 3 / 6, 3 / 6, 2 / 6], "the schedule")
            near(logged(log, "skipped_updates"), [0, 0, 0, 1, 1, 1], "counted")
            near(weights(out)["w"], [20 / 6, 0], f"{ranks} ranks {flags}")
        _, on = job.train(f"--on_nan skip --resume_from_checkpoint {out}/checkpoint-5", 2, **how)
        near(weights(on)["w"], [20 / 6, 0], "from a checkpoint behind the skipped update")
        job.data(train=[(0, 1, 0, 1)] + [(1e38, 1e38, 0, 1e3)] * 30)
        job.fails("not finite for 24 updates in a row", "--on_nan skip", **how)


def row_22_26_evaluation():
    with Folder() as f:
        job = probe(f, [(0, 0, 0, 1)] * 2, [(c, 0, 0, 1) for c in (1, 1, 1, 1, 6)])
        for batch in (1, 2, 3, 4, 5):
            for ranks in (1, 2):
                log, _ = job.train("--eval_strategy epoch", ranks, per_device_eval_batch_size=batch)
                near(logged(log, "eval_loss"), 2, f"eval batch {batch}, {ranks} ranks")
                near(logged(log, "eval_perplexity"), math.exp(2), "exp of the mean, not the mean of exps")
        job.data(eval=[(7, 0, 0, 1)] + [(k / 100, 0, 0, 1) for k in range(9)])
        first = None
        for ranks in (1, 2, 3, 4, 16):
            log, _ = job.train("--eval_strategy epoch", ranks)
            near(logged(log, "eval_sevens"), .1, f"1 of 10, {ranks} ranks")
            first = first or logged(log, "eval_loss")
            expect(logged(log, "eval_loss") == first, f"{ranks} ranks: other bits")


def row_28_logged_loss():
    with Folder() as f:
        job = probe(f, [(2, 0, 0, 1)] * 14)
        for ranks in (1, 2):
            for flags in ("--logging_steps 1", "--logging_steps 3", "--logging_steps 7",
                          "--gradient_accumulation_steps 4"):
                log, _ = job.train(flags, ranks)
                found = logged(log, "loss")
                near(found, [2] * max(1, len(found)), f"{ranks} ranks, {flags}")
        job.data(train=[(1, 0, 0, 1), (3, 0, 0, 1)])
        log, _ = job.train(ranks=2)
        near(logged(log, "loss"), 2, "1 on rank 0, 3 on rank 1")


def saved(out):
    return sorted(int(x.split("-")[1]) for x in os.listdir(out) if x.startswith("checkpoint-"))


def row_54_final_save():
    with Folder() as f:
        job = probe(f, [ONE] * 4)
        for flags, wanted in (("--max_steps 7 --save_steps 3", [3, 6, 7]), ("--max_steps 6 --save_steps 3", [3, 6]),
                              ("--max_steps 7 --save_steps 100", [7])):
            _, out = job.train("--save_strategy steps " + flags)
            expect(saved(out) == wanted, f"{flags}: saved {saved(out)}")
            near(weights(out)["w"], weights(out, f"checkpoint-{wanted[-1]}")["w"], "the last save and the end")


def row_58_one_reduction_per_window():
    with Folder() as f:
        job = probe(f, [(0, x, 0, 1) for x in (1, 2, 10, 20)])
        log, out = job.train("--gradient_accumulation_steps 2", 2)
        near(logged(log, "grad_norm") + weights(out)["w"][:1], [33 / 4, 33 / 4], "both micro-batches of both ranks")
        job.data(train=[(0, 2 ** k, 0, 1) for k in range(10)])
        log, out = job.train("--gradient_accumulation_steps 3", 2)  # 5 micro-batches a rank: windows of 3 and 2
        near(logged(log, "grad_norm"), [63 / 6, 960 / 4], "windows of 3 and 2 micro-batches")
        trace = f.file("trace.json")
        for accumulate in (1, 2, 3, 7):
            log, _ = job.train(f"--gradient_accumulation_steps {accumulate} --check_ranks 1 --profile {trace}", 2)
            for rank in range(2):
                sent, updates = collectives(trace).get((rank, "bucket 0")), math.ceil(5 / accumulate)
                expect(sent == updates, f"rank {rank}: {sent} all-reduces in {updates} updates of {accumulate}")


def row_72_meaning_of_batch():
    with Folder() as f:
        job = probe(f, [ONE] * 24)
        r, out = job.start("--gradient_accumulation_steps 2", 2, per_device_train_batch_size=3)
        expect("global batch 12 = 3 x 2 x 2" in r.out, f"the banner:\n{r.out}")
        expect("12 a rank" in r.out and "2 updates an epoch" in r.out, f"the banner:\n{r.out}")


def row_81_sharding_is_on():
    with Folder() as f:
        job = probe(f, [(0, 2 ** k, 0, 1) for k in range(8)])
        for ranks in (2, 4):
            log, out = job.train(ranks=ranks)
            near(weights(out)["w"][0], 255 / ranks, f"{ranks} ranks: each sample once")
            near(logged(log, "grad_norm"), [sum(2 ** k for k in range(i, i + ranks)) / ranks
                                            for i in range(0, 8, ranks)], "the samples of each update")


def row_83_order_of_epochs():
    with Folder() as f:
        job = probe(f, [(0, 2 ** k, 0, 1) for k in range(10)])
        log, _ = job.train("--train_sampling_strategy random --num_train_epochs 2 --seed 42", 2)
        pairs = [int(2 * g) for g in logged(log, "grad_norm")]
        for epoch, rank_0 in enumerate(([2, 1, 4, 0, 3], [8, 9, 5, 6, 2])):  # torch's DistributedSampler
            mine = pairs[5 * epoch:5 * epoch + 5]
            expect(sum(mine) == 1023, f"epoch {epoch} does not hold every sample once: {mine}")
            expect(all(p & 2 ** k for p, k in zip(mine, rank_0)), f"epoch {epoch}: {mine}")
        expect(pairs[:5] != pairs[5:], "the same order in both epochs")
        for flags, same in ("--seed 7 --data_seed 42", True), ("--seed 42 --data_seed 7", False), ("--seed 7", False):
            other, _ = job.train(f"--train_sampling_strategy random --num_train_epochs 2 {flags}", 2)
            expect((logged(other, "grad_norm") == logged(log, "grad_norm")) == same, f"the order with {flags}")


def row_40_nothing_to_train_on():
    with Folder() as f:
        job = probe(f, [])
        job.fails("split train is empty: 0 rows were read", ranks=2)
        job.data(train=[ONE] * 7)
        job.fails("7 samples over 2 ranks", "--dataloader_drop_last", 2, per_device_train_batch_size=4)
        job.data(eval="")
        job.fails("split validation is empty: 0 rows were read", "--eval_strategy epoch")


def row_5_52_saving():
    """Folders are made in one place; a file that is in the way is an error before training."""
    with Folder() as f:
        job = probe(f, [ONE] * 25)
        binary = job.binary()
        deep = f.file("a/b b/é")
        r = run([binary, "--output_dir", deep, "--save_strategy", "steps", "--save_steps", "1", "--nproc-per-node",
                 "4"], limit=30)
        expect(r.code == 0 and saved(deep) == list(range(1, 8)), f"exit {r.code}\n{r.out}")
        r = run([binary, "--output_dir", f.file("train.csv")], limit=30)
        expect(r.code > 0 and "cannot create folder" in r.out and "step 1" not in r.out, r.out)


main({k: v for k, v in list(globals().items()) if k.startswith("row_")})
