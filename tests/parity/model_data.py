"""The small files that the jobs of models/ train on. Only Python's standard library, and only random(),
whose numbers are promised to stay: the same bytes wherever this runs."""
import os
import random
import struct

COUNT = 203  # no multiple of 2 ranks x 8 samples: every epoch ends in a shorter window
PAD, UNLABELLED = 0, -100


def idx(path, shape, values):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + bytes(values))


def rows(path, table):
    with open(path, "w") as f:
        f.writelines(",".join(map(str, row)) + "\n" for row in table)


class Draw(random.Random):
    def below(self, n):
        return int(self.random() * n)


def pictures(folder):
    """Images of ten classes, each with a pattern of its own under noise."""
    draw = Draw(1)
    size = 3 * 32 * 32
    patterns = [[draw.below(128) for _ in range(size)] for _ in range(10)]
    labels = [draw.below(10) for _ in range(COUNT)]
    pixels = [p + draw.below(128) for label in labels for p in patterns[label]]
    idx(os.path.join(folder, "image.idx"), (COUNT, 3, 32, 32), pixels)
    idx(os.path.join(folder, "label.idx"), (COUNT,), labels)


def cells(folder):
    """Small images with a bright rectangle of class 1 and a dark one of class 2; the border has no class."""
    draw = Draw(2)
    pixels, masks = [], []
    for _ in range(COUNT):
        image = [90 + draw.below(70) for _ in range(12 * 16)]
        mask = [255 if r in (0, 11) or c in (0, 15) else 0 for r in range(12) for c in range(16)]
        for kind, change in ((1, 80), (2, -80)):
            top, left, height, width = (1 + draw.below(n) for n in (7, 10, 5, 5))
            for r in range(top, min(11, top + height)):
                for c in range(left, min(15, left + width)):
                    image[16 * r + c] = max(0, min(255, image[16 * r + c] + change))
                    mask[16 * r + c] = kind
        pixels += image
        masks += mask
    idx(os.path.join(folder, "small.idx"), (COUNT, 1, 12, 16), pixels)
    idx(os.path.join(folder, "mask.idx"), (COUNT, 12, 16), masks)


def tokens(folder):
    """24 ids that mostly follow a rule, and labels: the ids, with a prefix of another length masked."""
    draw = Draw(3)
    table = []
    for _ in range(COUNT):
        ids = [draw.below(100)]
        for _ in range(23):
            ids.append((3 * ids[-1] + 7) % 100 if draw.random() < 0.8 else draw.below(100))
        masked = draw.below(12)
        table.append(ids + [UNLABELLED] * masked + ids[masked:])
    rows(os.path.join(folder, "tokens.csv"), table)


def sentences(folder):
    """Padded pairs of sentences: ids, which are real, which belong to the second; the class is a sum."""
    draw = Draw(4)
    table = []
    for _ in range(COUNT):
        n = 5 + draw.below(12)
        first = 2 + draw.below(n - 3)
        ids = [1 + draw.below(99) for _ in range(n)]
        row = ids + [PAD] * (16 - n) + [1] * n + [0] * (16 - n) + [0] * first + [1] * (n - first) + [0] * (16 - n)
        table.append(row + [sum(i > 50 for i in ids) * 3 // (n + 1)])
    rows(os.path.join(folder, "sentences.csv"), table)


def tags(folder):
    """Words whose tag depends on them and on the word before; places without a word have no tag."""
    draw = Draw(5)
    table = []
    for _ in range(COUNT):
        n = 4 + draw.below(9)
        words = [1 + draw.below(59) for _ in range(n)]
        found = [(words[i] + (words[i - 1] if i else 0) // 30) % 7 for i in range(n)]
        table.append(words + [PAD] * (12 - n) + found + [UNLABELLED] * (12 - n))
    rows(os.path.join(folder, "tags.csv"), table)


def write(folder):
    for each in (pictures, cells, tokens, sentences, tags):
        each(folder)
