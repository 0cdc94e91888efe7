#!/usr/bin/env python3
"""Makes sentences.csv.gz from the text of ../char_gpt: is a sentence of Shakespeare a question? Sentences of 12 to 72
characters that end with a question mark or with a full stop, the mark itself taken away; as many of each kind; each
sentence once. Python's standard library only; the same file every time."""
import gzip
import os
import random
import re

here = os.path.dirname(os.path.abspath(__file__))
with gzip.open(os.path.join(here, "../char_gpt/tinyshakespeare.txt.gz"), "rt") as f:
    text = f.read()

kinds = {"?": [], ".": []}
seen = set()
for part in text.split("\n\n"):
    lines = part.split("\n")
    speech = " ".join(lines[1:] if lines[0].endswith(":") else lines)
    for sentence, mark in re.findall(r"([^.?!]+)([.?!])", speech):
        sentence = re.sub(r"\s+", " ", sentence).strip(" -'")
        if mark in kinds and 12 <= len(sentence) <= 72 and sentence not in seen:
            seen.add(sentence)
            kinds[mark].append((sentence, "question" if mark == "?" else "statement"))

rng = random.Random(1)
n = min(len(rows) for rows in kinds.values())
rows = [row for mark in kinds for row in rng.sample(kinds[mark], n)]
rng.shuffle(rows)
with open(os.path.join(here, "sentences.csv.gz"), "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as f:
    f.write(b"sentence,kind\n")
    for sentence, kind in rows:
        f.write(('"%s",%s\n' % (sentence.replace('"', '""'), kind)).encode())
print(f"{len(rows)} sentences, half of them questions")
