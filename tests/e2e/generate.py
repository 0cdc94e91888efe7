"""--generate: every character is the one that the logits of --predict and the draw of its number give, whatever the
number of ranks; what a job or a flag lacks is said."""
import json
import math
import os
import struct
import sys

from ddptest import Folder, ROOT, expect, main, must, run

sys.path.insert(0, os.path.join(ROOT, "tests", "parity"))
from losses import tensors  # noqa: E402

T = 8
JOB = '''edition 1

module Net(V: int, T: int, D: int) {
  wte = Embedding(V, D)
  wpe = Embedding(T, D)
  qkv = Linear(D, 3 * D)
  head = Linear(D, V)

  forward(ids: int[B, T]) -> [B, T, V] {
    x = wte(ids) + wpe(arange(T))
    q, k, v = chunk(qkv(x), 3, dim = -1)
    y = attention(split_heads(q, 2), split_heads(k, 2), split_heads(v, 2), causal = true)
    return head(x + merge_heads(y))
  }
}

dataset words {
  let text = text("words.txt")
  field chars: uint8[9]RANGE
  split train = windows(text, stride = 1)

  transform {
    ids = chars[:8]
    labels = chars[1:]
  }
}

model net = Net(V = VOCABULARY, T = 8, D = 16)

objective {
  logits = net(words.ids)
  loss = cross_entropy(logits, words.labels)
  OUTPUT
}

train {
  max_steps = 60
  learning_rate = 0.01
  logging_steps = 60
  save_strategy = no
}
'''
TEXT = "Größe kostet 5 €, weiß jeder.\nSo groß wie wir: 15 € für süße Äpfel!\n" * 4
ALPHABET = sorted(set(TEXT))


def job(f, output="output logits = logits", name="job", text=None, bound="", vocabulary="classes(words.chars)"):
    with open(f.file("words.txt"), "w", encoding="utf-8") as out:
        out.write(TEXT)
    text = text or JOB.replace("OUTPUT", output).replace("RANGE", bound).replace("VOCABULARY", vocabulary)
    with open(f.file(name + ".ddp"), "w") as out:
        out.write(text)
    return f.compile(f.file(name + ".ddp"), name)


def logits_of(f, binary, text, classes):
    """Logits behind each character of the text, from --predict over its windows: for the first ones those of the
    first window, later those at the end of a window."""
    os.makedirs(f.file("other"), exist_ok=True)
    with open(f.file("other/words.txt"), "w", encoding="utf-8") as out:
        out.write(text)
    must([binary, "--predict", f.file("p"), "--predict_split", "train", "--data_root", f.file("other"),
          "--output_dir", f.file("run")])
    flat = struct.unpack(f"<{(len(text) - T) * T * classes}f", tensors(f.file("p"))["logits"])
    for have in range(1, len(text)):
        window, place = (0, have - 1) if have <= T else (have - T, T - 1)
        first = (window * T + place) * classes
        yield flat[first:first + len(ALPHABET)]


def mix(x):
    mask = 2 ** 64 - 1
    x = (x + 0x9e3779b97f4a7c15) & mask
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & mask
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & mask
    return x ^ (x >> 31)


def chance(seed, number):
    """The draw of one character, in [0, 1): runtime/kernels/random.h at the site "generate"."""
    mask = 2 ** 32 - 1
    k = mix(mix(mix(mix(seed)) ^ int.from_bytes(b"generate", "big")) ^ number)
    x = k & mask
    x = ((x ^ (x >> 16)) * 0x21f0aaad) & mask
    x = ((x ^ (x >> 15)) + (k >> 32)) & mask
    x = (x * 0xd35a2d97) & mask
    return (x ^ (x >> 15)) / 2 ** 32


def drawn(logits, temperature, top_k, u):
    if temperature == 0:
        return logits.index(max(logits))
    least = sorted(logits, reverse=True)[top_k - 1]
    weights = [math.exp((x - max(logits)) / temperature) if x >= least else 0 for x in logits]
    left = u * sum(weights)
    for k, w in enumerate(weights):
        left -= w
        if w and left < 0:
            return k
    raise AssertionError("nothing drawn")


def follows(f, binary, classes=len(ALPHABET)):
    def generate(*flags):
        return must([binary, "--generate", "40", "--output_dir", f.file("run"), *flags]).out

    _, log = f.train(binary, "run")
    seen = set()
    for prompt, temperature, top_k, seed in (("So ", 0, 0, 42), ("Größe kostet 15", 0, 0, 42), ("€", 1, 0, 42),
                                             ("€", 1, 0, 7), ("ß", 1.7, 3, 42), ("", 0.5, 0, 42)):
        flags = ["--prompt", prompt] * bool(prompt) + ["--temperature", str(temperature)] * (temperature != 1)
        flags += ["--top_k", str(top_k)] * (top_k > 0) + ["--seed", str(seed)] * (seed != 42)
        out = generate(*flags)
        expect(out == generate(*flags, "--nproc-per-node", "2"), f"2 ranks write something else: {flags}")
        expect(out.startswith(prompt) and len(out) == len(prompt) + 41 and out[-1] == "\n", f"{flags}: {out!r}")
        expect(out not in seen, f"{flags} change nothing")
        seen.add(out)
        start, text = len(prompt) or 1, (prompt or "\n") + out[len(prompt):-1]
        for have, logits in enumerate(logits_of(f, binary, text, classes), 1):
            if have < start:
                continue
            k = drawn(logits, temperature, top_k or len(ALPHABET), chance(seed, have - start))
            expect(ALPHABET[k] == text[have], f"{flags}: character {have} is {text[have]!r}, not {ALPHABET[k]!r}")


def characters():
    with Folder() as f:
        follows(f, job(f))
        # A range with numbers that no character has: they are never drawn.
        follows(f, job(f, bound=" in 0..96"), 96)


def sample():
    """The end of training writes what --generate writes with the same weights."""
    with Folder() as f:
        binary = job(f)
        for ranks in (1, 2):
            r, log = f.train(binary, "run", ranks, ["--sample_length", "30"])
            again = must([binary, "--generate", "30", "--output_dir", f.file("run")]).out
            expect(log[-1]["sample"] + "\n" == again and len(again) == 31, f"{log[-1]}, then {again!r}")
            expect(r.out.endswith(again) and "train_loss" in log[-2], f"the terminal has {r.out!r}")
        r, log = f.train(binary, "run", 2, ["--sample_length", "30", "--log_format", "jsonl"])
        expect([json.loads(line) for line in r.out.splitlines() if line.startswith("{")] == log, r.out)
        _, log = f.train(binary, "run")
        expect("sample" not in log[-1], f"nobody asked: {log[-1]}")


def refused():
    with Folder() as f:
        binary = job(f)

        def says(flags, *parts, binary=binary):
            r = run([binary, "--output_dir", f.file("none"), *flags])
            expect(r.code == 2 and all(p in r.out for p in parts), f"{flags}: exit {r.code}: {r.out}")

        says(["--generate", "5"], "--generate", "no weights", "--init_from")
        says(["--generate", "0"], "'0'", "from 1 on")
        says(["--generate", "many"], "'many'")
        says(["--generate", "5", "--prompt", "So x"], "'x'", f"{len(ALPHABET)}")
        says(["--generate", "5", "--prompt", "Größe Ü"], "'Ü'")
        says(["--generate", "5", "--temperature", "-1"], "--temperature '-1'")
        says(["--generate", "5", "--temperature", "nan"], "--temperature 'nan'")
        says(["--generate", "5", "--top_k", "0"], "--top_k '0'")
        says(["--prompt", "So"], "--prompt has no effect without --generate")
        says(["--top-k", "3"], "--top_k has no effect without --generate")
        says(["--generate", "5", "--predict", "p"], "--predict and --generate")
        says(["--generate", "5", "--init_only"], "--generate and --init_only")
        says(["--generate", "5", "--nproc-per-node", "2", "--prompt", "x"], "'x'")
        says(["--generate", "5"], "output logits", binary=job(f, "", "silent"))
        says(["--generate", "5"], "output logits", binary=job(f, "output logit = logits", "other"))
        says(["--generate", "5"], "[B, T, V]", binary=job(f, "output logits = logits[:, 0, :]", "flat"))
        says(["--generate", "5"], "[B, T, V]", binary=job(f, "output logits = logits[:, :, 1:]", "less"))
        digits = '''edition 1
dataset d {
  let rows = synthetic(64)
  field x: float[4]
  field y: uint8 in 0..3
  split train = rows
}
model net = Linear(4, 3)
objective {
  logits = net(d.x)
  loss = cross_entropy(logits, d.y)
  output logits = logits
}
train { max_steps = 1 }
'''
        says(["--generate", "5"], "`text` source", binary=job(f, name="digits", text=digits))
        says(["--sample_length", "5"], "sample_length (--sample_length)", "output logits", binary=f.file("silent"))
        r = run([binary, "--help"])
        expect("--generate N" in r.out and "--top-k K" in r.out, r.out)


main(dict(characters=characters, sample=sample, refused=refused))
