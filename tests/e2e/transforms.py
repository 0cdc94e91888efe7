"""What transforms draw belongs to the sample and the epoch: not to the order, the rank or the micro-batch. And
it is distributed as in torchvision. The losses of transforms.ddp say what was drawn."""
import math
import os
import random
import shutil

from ddptest import ROOT, Folder, expect, losses, main, same

N = 400


def prepared(f, kind, samples=N):
    shutil.copy(os.path.join(ROOT, "tests/e2e/transforms.ddp"), f.path)
    with open(f.file("numbers.csv"), "w") as file:
        file.write("".join(f"{k}\n" for k in range(samples)))
    return f.compile(f.file("transforms.ddp"), kind, defines=[f"kind={kind}"])


def decode(code):
    """(sample, top, left, mirrored)"""
    code = round(code)
    first, difference = (code + 3) // 8, (code + 3) % 8 - 3
    sample, place = divmod(first, 36)
    expect(difference in (-3, 3), f"the columns of {code} are no crop")
    return sample, place // 6, place % 6 - (3 if difference < 0 else 0), difference < 0


def of_epochs(f, program, name, flags, epochs=1, samples=N):
    """For each epoch {sample: (top, left, mirrored)}."""
    _, log = f.train(program, name, flags=["--num_train_epochs", str(epochs)] + flags)
    codes = [decode(x) for x in losses(log)]
    out = [{c[0]: c[1:] for c in codes[k * samples:(k + 1) * samples]} for k in range(epochs)]
    expect(all(len(e) == samples for e in out), "a sample is missing")
    return out


def chi_square(counts, cells):
    expected = sum(counts.values()) / cells
    return sum((counts.get(k, 0) - expected) ** 2 for k in counts) / expected + (cells - len(counts)) * expected


def crop_and_flip():
    with Folder() as f:
        program = prepared(f, "crop")
        epochs = of_epochs(f, program, "ordered", ["--train_sampling_strategy", "sequential"], epochs=5)
        counts = {}
        for epoch in epochs:
            for drawn in epoch.values():
                counts[drawn] = counts.get(drawn, 0) + 1
        places = {(top, left) for top, left, _ in counts}
        expect(places == {(t, l) for t in range(3) for l in range(3)}, f"places {places}")
        # 17 degrees of freedom: 45 is exceeded by chance once in 4,000 times
        value = chi_square(counts, 18)
        expect(value < 45, f"chi-square {value:.1f}: {counts}")
        again = sum(epochs[0][k] == epochs[1][k] for k in range(N)) / N
        expect(again < 0.12, f"{again:.0%} of the samples are as in the epoch before")
        shuffled = of_epochs(f, program, "shuffled", [], epochs=2)
        expect(shuffled == epochs[:2], "the order of the samples changes what is drawn for them")
        other = of_epochs(f, program, "seed", ["--seed", "7"])
        expect(sum(other[0][k] == epochs[0][k] for k in range(N)) / N < 0.12, "the seed changes nothing")


def ranks_and_micro_batches():
    with Folder() as f:
        program = prepared(f, "crop", 64)
        runs = {}
        for ranks, acc in ((1, 4), (2, 2), (4, 1)):
            flags = ["--gradient_accumulation_steps", str(acc), "--num_train_epochs", "2"]
            _, log = f.train(program, f"out{ranks}", ranks=ranks, flags=flags)
            runs[ranks] = losses(log)
        same(runs[1], runs[2], 1e-6, "1 and 2 ranks")
        same(runs[1], runs[4], 1e-6, "1 and 4 ranks")
        expect(runs[1][:16] != runs[1][16:], "the second epoch is the first")


def evaluation_is_not_random():
    with Folder() as f:
        program = prepared(f, "crop")
        _, log = f.train(program, "out", flags=["--eval_strategy", "epoch"])
        value = [r["eval_loss"] for r in log if "eval_loss" in r][0]
        middle = sum(8 * (36 * k + 7) + 3 for k in range(N)) / N
        expect(abs(value - middle) < 1e-3 * middle, f"{value}, and the middle of the images is {middle}")


def torchvision_erased(rng, size=32, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3)):
    """Share of the area; torchvision.transforms.RandomErasing.get_params."""
    if rng.random() >= p:
        return 0.0
    for _ in range(10):
        area = size * size * rng.uniform(*scale)
        aspect = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if h < size and w < size:
            return h * w / size / size
    return 0.0


def erasing():
    with Folder() as f:
        program = prepared(f, "erase")
        _, log = f.train(program, "out", flags=["--num_train_epochs", "5"])
    got = losses(log)
    rng = random.Random(5)
    wanted = [torchvision_erased(rng) for _ in range(20 * len(got))]
    for what, of in (("erased", lambda x: float(x > 0)), ("share", lambda x: x), ("square", lambda x: x * x)):
        a, b = [of(x) for x in got], [of(x) for x in wanted]
        mean = sum(b) / len(b)
        spread = math.sqrt(sum((x - mean) ** 2 for x in b) / len(b))
        far = abs(sum(a) / len(a) - mean) / (spread / math.sqrt(len(a)))
        expect(far < 4, f"{what}: {sum(a) / len(a):.4f}, torchvision's rule gives {mean:.4f}: {far:.1f} deviations")
    expect(max(got) < 0.36, f"{max(got)} of an image erased")


main({k: v for k, v in list(globals().items())
      if k in ("crop_and_flip", "ranks_and_micro_batches", "evaluation_is_not_random", "erasing")})
