"""Losses, normalisation, tied and frozen parameters, decay, dropout, buckets: small jobs against numbers
worked out on paper or with PyTorch. The number in front of a test is its row in README.md."""
import os

from reports import DDPC, Folder, Job, expect, logged, main, must, near, run, tensors, weights


def row_1_masked_labels():
    words = [[(7 * k + 3 * i) % 20 for i in range(6)] for k in range(8)]
    rows = [w + [(w[i] % 7) if i < n else -100 for i in range(6)]
            for w, n in zip(words, (1, 3, 2, 5, 1, 1, 4, 2))]
    with Folder() as f:
        job = Job(f, "masked")
        job.data(train=rows)
        seen = []
        for ranks, batch, accumulate in ((1, 8, 1), (2, 1, 4), (4, 2, 1)):
            log, out = job.train(f"--gradient_accumulation_steps {accumulate}", ranks,
                                 per_device_train_batch_size=batch)
            w = weights(out)
            seen.append(logged(log, "loss") + sum((w[k] for k in sorted(w)), []))
            expect(len(logged(log, "loss")) == 3, "not 3 updates")
            near(seen[-1], seen[0], f"{ranks} ranks, batch {batch}, {accumulate} micro-batches", 2e-6)
        job.data(train=[r[:6] + [-100] * 6 for r in rows])
        log, out = job.train(ranks=2)
        near(logged(log, "loss"), [0] * 12, "nothing counted is no division by zero")


def row_9_batch_norm_buffers():
    with Folder() as f:
        job = Job(f, "batch_norm")
        job.data(train=[[x] for x in (0, 10, 2, 12, 0, 10, 2, 12)], eval=[[x] for x in (3, 1, 4, 1, 5)])
        for share in ("true", "false"):
            kind = dict(ddp_broadcast_buffers=share)
            log, out = job.train(ranks=2, **kind)
            w = weights(out)
            near(w["norm.running_mean"] + w["norm.running_var"], [.19, 1.19], f"rank 0's buffers, {share}")
            expect(w["norm.num_batches_tracked"] == [2], f"{w['norm.num_batches_tracked']} batches tracked")
            for ranks in (1, 2, 4):
                again, _ = job.train(f"--init_from {out}/model.safetensors --eval_on_start", ranks, **kind)
                expect(logged(again, "eval_square")[0] == logged(log, "eval_square")[-1],
                       f"{share}, {ranks} ranks: the saved model evaluates to other numbers")


def row_20_skipped_buffers():
    """Statistics of a batch that was not finite go with its update."""
    with Folder() as f:
        job = Job(f, "batch_norm")
        job.data(train=[[x] for x in (0, 10, 2, 12, 3e38, 10, 3e38, 12, 0, 10, 2, 12)], eval=[[3]])
        for share in ("true", "false"):
            _, out = job.train("--on_nan skip", ranks=2, ddp_broadcast_buffers=share)
            w = weights(out)
            near(w["norm.running_mean"] + w["norm.running_var"], [.19, 1.19], f"rank 0's buffers, {share}")
            expect(w["norm.num_batches_tracked"] == [2], f"{w['norm.num_batches_tracked']} batches tracked")


def row_51_sync_batch_norm():
    with Folder() as f:
        job = Job(f, "batch_norm")
        job.data(train=[[x] for x in (1, 3, 5, 11)], eval=[[3]])
        for ranks in (1, 2, 4):
            log, out = job.train(ranks=ranks, SYNC="true", per_device_train_batch_size=4 // ranks, learning_rate=0.1)
            w = weights(out)
            near(w["norm.running_mean"] + w["norm.running_var"], [.5, .9 + .1 * 56 / 3], f"{ranks} ranks", 1e-6)
            expect(w["norm.num_batches_tracked"] == [1], f"{w['norm.num_batches_tracked']} batches tracked")
        job = Job(f, "sync")
        rows = [[(7 * i * k + 3 * i) % 11 / 4 for k in range(1, 5)] + [i % 3] for i in range(48)]
        job.data(train=rows, eval=rows[:1])
        seen = []
        for ranks, cap, extra in ((1, 25, ""), (2, 25, ""), (4, 1, ""), (2, 1, "--intra_node backend")):
            log, out = job.train(f"--ddp_bucket_cap_mb {cap} {extra}", ranks, per_device_train_batch_size=8 // ranks)
            w = weights(out)
            seen.append(logged(log, "loss") + sum((w[k] for k in sorted(w)), []))
            expect(len(logged(log, "loss")) == 6, "not 6 updates")
            near(seen[-1], seen[0], f"{ranks} ranks {extra}", 2e-6)
        a, _ = job.train("--gradient_accumulation_steps 2", 2, per_device_train_batch_size=2)
        b, _ = job.train("--gradient_accumulation_steps 2", 1, per_device_train_batch_size=4)
        near(logged(a, "loss"), logged(b, "loss"), "micro-batches that only accumulate", 2e-6)


def row_80_evaluation_asks_nobody():
    with Folder() as f:
        job = Job(f, "sync")
        rows = [[i % 5, i % 3, i % 7, 1, i % 3] for i in range(16)]
        job.data(train=rows, eval=rows[:1])
        log, _ = job.train("--eval_strategy steps --eval_steps 1 --eval_on_start", 2, per_device_train_batch_size=4)
        expect(len(logged(log, "eval_loss")) == 3, f"{len(logged(log, 'eval_loss'))} evaluations of one sample")


def row_46_batch_norm_of_one_sample():
    with Folder() as f:
        job = Job(f, "batch_norm")
        job.data(train=[[x] for x in range(9)], eval=[[1], [2]])
        kind = dict(per_device_train_batch_size=4)
        for ranks in (1, 2):
            if ranks == 2:
                job.data(train=[[x] for x in range(10)])
            r = job.fails("the last batch of an epoch is one sample", ranks=ranks, **kind)
            expect("--dataloader_drop_last" in r.out and "batch_norm.ddp:12 divides by zero" in r.out, r.out)
        plan = must([DDPC, "plan", f.file("batch_norm.ddp"), "-D", "train.per_device_train_batch_size=4"]).out
        expect("is one sample (10 samples over 2 ranks are 5 each" in plan, plan)
        log, _ = job.train("--dataloader_drop_last", **kind)
        expect(logged(log, "eval_loss")[-1] is not None, "the evaluation is not a number")


def row_12_39_tied_weights():
    with Folder() as f:
        job = Job(f, "tied")
        job.data(train=[[0], [1]])
        log, out = job.train(ranks=2)
        stored, meta = tensors(os.path.join(out, "model.safetensors"))
        expect(list(stored) == ["words.weight"], f"stored: {list(stored)}")
        expect(meta.get("head.weight") == "words.weight", f"the alias is not in the file: {meta}")
        near([1 - x for x in stored["words.weight"]], [2.5, 2.5, 2.5, 2.5, 1, 1], "gradient of both uses")
        plan = must([DDPC, "plan", f.file("tied.ddp")]).out
        expect("parameters: 6, of which 6 are trained" in plan, f"parameters counted twice:\n{plan}")
        log, again = job.train(f"--init_from {out}/model.safetensors --learning_rate 0")
        expect(weights(again) == stored, "weights there and back")


def row_29_dropout_masks():
    with Folder() as f:
        job = Job(f, "masks")
        job.data(train=[[i] for i in range(16)])

        def masks(ranks, batch, flags="", repeat=1):
            _, out = job.train(flags, ranks, per_device_train_batch_size=batch)
            w = weights(out)["rows.weight"]
            expect(set(w) == {0.0, 0.5}, f"mask values {set(w)}")
            return [tuple(w[32 * i:32 * i + 32]) for i in range(16)]

        first = masks(4, 1)
        expect(len(set(first)) == 16, "two samples have one mask")
        expect(100 < sum(x > 0 for m in first for x in m) < 412, "not about half is kept")
        expect(masks(4, 1) == first, "two runs differ")
        expect(masks(1, 4) == first and masks(2, 1, "--gradient_accumulation_steps 2") == first,
               "masks depend on the number of ranks")
        expect(masks(4, 1, "--seed 43") != first, "the seed changes nothing")


def row_60_label_smoothing():
    two = [[2, 0, -1], [.5, 1.5, 0]]
    with Folder() as f:
        job = Job(f, "softmax")
        for labels, kind, wanted in (((0, -100), dict(label_smoothing_factor="0.1"), .336513),
                                     ((0,), dict(label_smoothing_factor="0.1"), .336513),
                                     ((0, -100), {}, .169846),
                                     ((0, 1), dict(label_smoothing_factor="0.1"), .442107),
                                     ((0, -100), dict(label_smoothing_factor="0.1", WEIGHTED="true"), .620164)):
            job.data(train=[x + [y] for x, y in zip(two, labels)])
            log, _ = job.train(**kind)
            near(logged(log, "loss"), wanted, f"labels {labels}, {kind}", 1e-6)


def row_85_softmax_range():
    with Folder() as f:
        job = Job(f, "softmax")
        for label, loss, gradient in ((0, 0, [0, 0, 0]), (2, 2000, [1, 0, -1])):
            job.data(train=[[1000, 0, -1000, label]])
            log, out = job.train()
            near(logged(log, "loss"), loss, f"label {label}")
            near([-x for x in weights(out)["w"]], gradient, f"gradient, label {label}")


def row_66_79_decay_and_frozen():
    with Folder() as f:
        job = Job(f, "decay")
        job.data(train=[[1, 2, 0], [3, 4, 0]])
        for ranks in (1, 2):
            r, start = job.start("--init-only", ranks)
            expect(r.code == 0, r.out)
            before = weights(start)
            _, out = job.train(ranks=ranks)
            after = weights(out)
            for name, w in after.items():
                factor = .95 ** 10 if name in ("fc.weight", "out.weight") else 1
                near(w, [x * factor for x in before[name]], f"{name}, {ranks} ranks", 1e-6)
            expect(after["frozen.weight"] == before["frozen.weight"], "a frozen weight moved")
        plan = must([DDPC, "plan", f.file("decay.ddp")]).out
        expect("of which 33 are trained" in plan, f"trained parameters:\n{plan}")
        trained = 4 * 4 + 4 + 4 + 4 + 4 + 1
        line = next(x for x in plan.splitlines() if x.startswith("buckets:"))
        sent = int(line.split(";")[1].split()[0].replace(",", ""))
        expect(4 * trained <= sent <= 4 * (trained + 16 * 6), f"{sent} bytes sent for {trained} parameters")
        text = open(f.file("decay.ddp")).read()
        with open(f.file("all.ddp"), "w") as out:
            out.write(text.replace("freeze frozen", "freeze frozen, fc, norm, out"))
        r = run([DDPC, f.file("all.ddp"), "-o", f.file("all")])
        expect(r.code != 0 and "all.ddp:" in r.out and not os.path.exists(f.file("all")), f"nothing to train:\n{r.out}")


def row_78_buckets():
    with Folder() as f:
        job = Job(f, "wide")
        job.data(train=[[(k * i) % 7 / 7 for i in range(16)] + [k % 10] for k in range(48)])
        seen = {}
        for cap in (1, 2, 25, 10000):
            log, out = job.train(f"--gradient_accumulation_steps 3 --ddp_bucket_cap_mb {cap}", 2)
            expect(log[-1]["step"] == 5, "not 5 updates")
            with open(os.path.join(out, "model.safetensors"), "rb") as file:
                seen[cap] = file.read()
        expect(len(set(seen.values())) == 1, "other bits with other buckets")
        job.fails("0.001", "--ddp_bucket_cap_mb 0.001", 2)


def row_38_same_bits():
    with Folder() as f:
        job = Job(f, "wide")
        job.data(train=[[(k * i) % 7 / 7 for i in range(16)] + [k % 10] for k in range(48)])
        seen = set()
        for threads in ("1", "1", "4"):
            _, out = job.train(ranks=4, env={"OMP_NUM_THREADS": threads})
            with open(os.path.join(out, "model.safetensors"), "rb") as file:
                seen.add(file.read())
        expect(len(seen) == 1, "runs of the same job differ")


main({k: v for k, v in list(globals().items()) if k.startswith("row_")})
