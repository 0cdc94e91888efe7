"""What the evaluation draws from a named stream depends on the seed and the sample: not on the update, the epoch, the
batch or the number of ranks."""
import os
import shutil

from ddptest import ROOT, Folder, expect, losses, main

N = 2000


def prepared(f, batch):
    shutil.copy(os.path.join(ROOT, "tests/e2e/streams.ddp"), f.path)
    with open(f.file("places.csv"), "w") as file:
        file.write("place\n" + "".join(f"{k % 97 / 97}\n" for k in range(96 + N)))
    return f.compile(f.file("streams.ddp"), f"b{batch}", [f"train.per_device_eval_batch_size={batch}"])


def evaluations(log):
    keys = ("loss", "squared", "same", "product", "shared", "heads", "dice")
    return [[r[f"eval_{k}"] for k in keys] for r in log if "eval_loss" in r]


def evaluation():
    with Folder() as f:
        first = None
        for batch in (64, 7, 2000):
            program = prepared(f, batch)
            for ranks in (1, 2, 3) if batch == 64 else (1,):
                _, log = f.train(program, f"out{batch}x{ranks}", ranks=ranks)
                got = evaluations(log)
                expect(len(got) == 3, f"{len(got)} evaluations")
                expect(got[0] == got[1] == got[2], f"batches of {batch}, {ranks} ranks: {got} at three updates")
                first = first or got[0]
                worst = max(abs(a - b) for a, b in zip(first, got[0]))
                # other batches add the same numbers, of about 1, in another order
                expect(worst <= (0 if batch == 64 else 1e-6), f"batches of {batch}, {ranks} ranks: {first}, {got[0]}")
        training = losses(log)
        expect(len(set(training)) == len(training), f"updates draw the same: {training}")
        _, log = f.train(prepared(f, 64), "seed", flags=["--seed", "7"])
        expect(all(a != b for k, (a, b) in enumerate(zip(first, evaluations(log)[0])) if k != 2), "the seed changes nothing")
    loss, squared, same_, product, shared, heads, dice = first
    # Five deviations of a mean over 2,000 samples (times 4 numbers where there are 4).
    expect(same_ == 0, "two calls with one stream name differ")
    expect(abs(squared - 1) < 5 * (2 / 4 / N) ** 0.5, f"mean of squares {squared}")
    expect(0 < abs(product) < 5 * (1 / 4 / N) ** 0.5, f"two streams go together: {product}")
    expect(abs(loss) < 5 * (1 / 3 / 4 / N) ** 0.5, f"samples draw alike: {loss}")
    expect(0 < shared < 1, f"{shared}")
    expect(abs(heads - 0.25) < 5 * (0.1875 / N) ** 0.5, f"share of heads {heads}")
    expect(abs(dice - 3.5) < 5 * (35 / 12 / N) ** 0.5, f"mean of dice {dice}")


main(dict(evaluation=evaluation))
