"""spec_hash: what does not change it, and what does."""
import re

from tools import *


def spec_hash(text, *options):
    write("variant.ddp", text)
    return as_json("plan", "variant.ddp", "--json", *options).get("spec_hash")


original = spec_hash(JOB)
if not re.fullmatch("[0-9a-f]{16}", original or ""):
    failures.append(f"no hash: {original}")


def equal(what, text, *options):
    same(what, spec_hash(text, *options), original)


def other(what, text, *options):
    if spec_hash(text, *options) in (original, None):
        failures.append(f"{what} does not change the hash")


def swap(text, a, b):
    return text.replace(a, "\0").replace(b, a).replace("\0", b)


def change(old, new):
    assert old in JOB, old
    return JOB.replace(old, new)


settings = re.search(r"train \{\n(.*?)\}", JOB, re.S).group(1)
blocks = [b for b in JOB.split("\n\n") if b.strip()]
param = blocks.index("param hidden: int = 8")

# layout
equal("a comment", JOB.replace("param", "# how wide\nparam") + "# the end\n")
equal("blanks and line ends", JOB.replace("\n", "\r\n").replace(" = ", "  =   "))
equal("redundant parentheses", change("relu(fc1(x))", "(relu((fc1(x))))"))
equal("a comma", change("learning_rate = 0.1", "learning_rate = 0.1,"))
# order
equal("order of settings", JOB.replace(settings, "".join(line + "\n" for line in reversed(settings.splitlines()))))
equal("order of declarations", JOB.replace(blocks[param] + "\n\n", "") + "\n" + blocks[param] + "\n")
equal("order of blocks", swap(JOB, "model net = Net(hidden)\n", settings and re.search(r"train \{.*?\}\n", JOB, re.S).group(0)))
# spelling
equal("spelling of a number", change("learning_rate = 0.1", "learning_rate = 1e-1"))
equal("another", change("learning_rate = 0.1", "learning_rate = 0.10"))
equal("an int with _", change("per_device_train_batch_size = 8", "per_device_train_batch_size = 0x8"))
equal("an int for a float", change("num_train_epochs = 2", "num_train_epochs = 2.0"))
equal("quotes around a word", change("optim = sgd", 'optim = "sgd"'))
equal("a computed value", change("num_train_epochs = 2", "num_train_epochs = 1 + 1"))
equal("a default that is written", change("  optim = sgd", "  optim = sgd\n  weight_decay = 0.0\n  seed = 42"))
same("True and true", spec_hash(change("optim = sgd", "optim = sgd\n  dataloader_drop_last = True")),
     spec_hash(change("optim = sgd", "optim = sgd\n  dataloader_drop_last = true")))
same("1e-5 and 0.00001", spec_hash(change("0.1", "1e-5")), spec_hash(change("0.1", "0.00001")))
# settings that mean nothing here
equal("full_determinism", change("optim = sgd", "optim = sgd\n  full_determinism = true"))
equal("ddp_static_graph", change("optim = sgd", "optim = sgd\n  ddp_static_graph = true"))
equal("loader processes", change("optim = sgd", "optim = sgd\n  dataloader_num_workers = 4"))
# where a value comes from
equal("-D with the value of the file", JOB, "-D", "hidden=8")
equal("-D of a setting with its default", JOB, "-D", "train.weight_decay=0")
equal("-D of a setting with the file's value", JOB, "-D", "train.learning_rate=0.1")
same("-D and the file", spec_hash(JOB, "-D", "hidden=16"), spec_hash(change("int = 8", "int = 16")))
same("-D and the file, a setting", spec_hash(JOB, "-D", "train.seed=1"),
     spec_hash(change("  optim = sgd", "  seed = 1\n  optim = sgd")))
same("order of -D", spec_hash(JOB, "-D", "hidden=16", "-D", "train.seed=1"),
     spec_hash(JOB, "-D", "train.seed=1", "-D", "hidden=16"))
write("base.ddp", "edition 1\n\n" + re.search(r"train \{.*?\}\n", JOB, re.S).group(0))
one = spec_hash(JOB.replace("edition 1\n", 'edition 1\n\nimport "base.ddp" as base\n').replace(
    "train {\n" + settings, "train extends base.train {\n  seed = 1\n"))
two = spec_hash(JOB.replace("edition 1\n", 'edition 1\n\nimport "base.ddp" as base\n').replace(
    "train {\n" + settings, "train extends base.train {\n" + settings + "  seed = 1\n"))
same("a value that `extends` gives or that is written", one, two)
group = 'model net = Net(hidden) {\n  group fc1 { %s }\n}\n'
same("order and quotes in a group",
     spec_hash(change("model net = Net(hidden)\n", group % "learning_rate = 0.2  weight_decay = 1e-2")),
     spec_hash(change("model net = Net(hidden)\n", group % "weight_decay = 0.01  learning_rate = 0.20")))

# what is another job
other("a param", JOB, "-D", "hidden=9")
other("a setting", change("learning_rate = 0.1", "learning_rate = 0.11"))
other("a setting by -D", JOB, "-D", "train.seed=7")
other("`final`", change("learning_rate = 0.1", "final learning_rate = 0.1"))
other("another operator", change("relu(fc1(x))", "tanh(fc1(x))"))
other("a split", change("rows[:60]", "rows[:59]"))
other("a range of labels", change("0..3", "0..4").replace("Linear(H, 3)", "Linear(H, 4)").replace("-> [B, 3]", "-> [B, 4]"))
other("a file of data", change("rows.csv", "bad.csv")) if write("bad.csv", (WORK / "rows.csv").read_text()) else None
other("order of members (it is the order of draws)",
      swap(JOB, "  fc1 = Linear(4, H)\n", "  fc2 = Linear(H, 3)\n"))
other("order of statements that differ", change("metric accuracy", "metric right"))
other("a group", change("model net = Net(hidden)\n", group % "learning_rate = 0.2"))
finish()
