"""The keys of `train` are the fields of TrainingArguments: names, types, whether None is a value, defaults, words.
  settings.py                 tables/settings.def and ddpc against fixtures/training_arguments.csv
  settings.py --live          the fixture against the installed transformers, then the same
  settings.py --write         writes the fixture from the installed transformers
The pinned release stands in requirements.txt. DDP_BUILD names the build folder (default: build)."""

import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent
fixture = here / "fixtures/training_arguments.csv"
ddpc = pathlib.Path(os.environ.get("DDP_BUILD", root / "build")) / "ddpc"
COLUMNS = ["field", "type", "nullable", "default", "words"]
# Fields whose type in ddpc says more than their annotation.
NARROWER = {
    "lr_scheduler_kwargs": "map", "activation_checkpointing_kwargs": "map", "gradient_checkpointing_kwargs": "map",
    "fsdp_config": "map", "accelerator_config": "map", "deepspeed": "map", "parallelism_config": "map",
    "report_to": "list", "debug": "list", "optim_target_modules": "list",
    "include_num_input_tokens_seen": "word", "log_level": "word", "log_level_replica": "word",
    "train_sampling_strategy": "word", "ddp_backend": "word",
    "trackio_static_space_id": "text",
}
# Defaults that ddpc writes in another way; each with its reason.
OTHER_DEFAULTS = {
    "optim": ("adamw_torch", "adamw_torch_fused"),  # adamw_torch_fused where PyTorch is 2.8 or later
    "report_to": ("none", "none"),  # the word for no tracker
}


def words_of(annotation):
    import enum
    import typing
    for one in (annotation, *typing.get_args(annotation)):
        if isinstance(one, type) and issubclass(one, enum.Enum) and one.__name__ != "DebugOption":
            return [str(member.value) for member in one]
    return []


def type_of(field):
    import enum
    import types
    import typing
    union = isinstance(field.type, types.UnionType) or typing.get_origin(field.type) is typing.Union
    parts = list(typing.get_args(field.type)) if union else [field.type]
    nullable = type(None) in parts or "None" in map(str, parts) or field.type is typing.Any
    names = {bool: "bool", int: "int", float: "float", str: "text"}
    kind = None
    for part in parts:
        if isinstance(part, type) and issubclass(part, enum.Enum):
            kind = kind or "word"
        elif typing.get_origin(part) is list or part is list:
            kind = kind or "list"
        elif typing.get_origin(part) is dict or part is dict:
            kind = kind or "map"
    for part in parts:
        kind = kind or names.get(part)
    return NARROWER.get(field.name, kind or "?"), nullable


def live_rows():
    import dataclasses
    import transformers
    pinned = re.search(r"^transformers==(.*)$", (here / "requirements.txt").read_text(), re.M).group(1)
    if transformers.__version__ != pinned:
        sys.exit(f"transformers {transformers.__version__} is installed, {pinned} is pinned")
    rows = []
    for field in dataclasses.fields(transformers.TrainingArguments):
        kind, nullable = type_of(field)
        default = field.default
        if default is dataclasses.MISSING:
            default = field.default_factory()
        if hasattr(default, "value"):
            default = default.value
        if field.name in OTHER_DEFAULTS and field.name == "optim":
            default = "adamw_torch_fused"  # what a PyTorch of today gives
        rows.append({"field": field.name, "type": kind, "nullable": str(int(nullable)), "default": str(default),
                     "words": "|".join(words_of(field.type))})
    return rows


def fixture_rows():
    with open(fixture, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def write():
    with open(fixture, "w", newline="", encoding="utf-8") as f:
        out = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(live_rows())


def table_rows():
    text = (root / "tables/settings.def").read_text()
    pattern = r'SETTING\(train, (\w+), (\w+), ([01]), "([^"]*)",\s*((?:"[^"]*"\s*)+),\s*([CRAX]), (yes|later),'
    return {m[0]: m for m in re.findall(pattern, text)}


def same_default(kind, theirs, ours):
    if theirs in ("None", "none") or ours == "none":
        return theirs.lower() == ours
    if kind in ("float", "int"):
        return float(theirs) == float(ours)
    if kind == "bool":
        return theirs.lower() == ours
    return theirs == ours


def compare(rows, say):
    table = table_rows()
    for name in table.keys() - {r["field"] for r in rows}:
        say(f"{name} is no field of TrainingArguments")
    for r in rows:
        name = r["field"]
        if name not in table:
            say(f"{name} has no row in tables/settings.def")
            continue
        _, kind, nullable, default, _, cls, state = table[name]
        if kind != r["type"] and {kind, r["type"]} != {"text", "word"}:
            say(f"{name} is {kind}; TrainingArguments has {r['type']}")
        if nullable != r["nullable"] and not (name == "report_to" and nullable == "1"):
            say(f"{name}: none is {'' if nullable == '1' else 'not '}accepted; TrainingArguments differs")
        if not same_default(kind, r["default"], default):
            say(f"{name} has the default {default}; TrainingArguments has {r['default']}")


HEAD = """edition 1

dataset d {
  let rows = csv("rows.csv")
  field x: float[4]
  field y: uint8 in 0..3
  split train = rows[:80%]
  split validation = rows[80%:]
}
model net = Sequential(Linear(4, 3))
objective {
  loss = cross_entropy(net(d.x), d.y)
}
train {
"""


def check(folder, line, extra=""):
    """What ddpc says about a job with these settings, as (line number of the block, code)."""
    job = pathlib.Path(folder, "job.ddp")
    job.write_text(f"{HEAD}{line}\n}}\n{extra}")
    run = subprocess.run([ddpc, "check", job], capture_output=True, text=True)
    first = HEAD.count("\n")
    return [(int(n) - first, code) for n, code in
            re.findall(r"^[^:\n]*:(\d+):\d+: \w+\[(\w+)\]", run.stderr, re.M)]


def check_words(rows, folder, say):
    """Every word that TrainingArguments takes is known to ddpc: carried out, or refused as what it is."""
    for r in rows:
        for word in filter(None, r["words"].split("|")):
            codes = {code for _, code in check(folder, f'  {r["field"]} = "{word}"')}
            if codes & {"E0703", "E0301", "E0201"}:
                say(f'{r["field"]} = "{word}" is unknown to ddpc: {codes}')


def pasted(r):
    """The default as Python's keyword arguments have it."""
    quoted = r["type"] in ("text", "word") or r["default"] in ("none", "")
    return f'"{r["default"]}"' if quoted and r["default"] != "None" else r["default"]


def check_pasted(rows, folder, say):
    """All keys with their defaults, as they paste in: nothing but notes about keys without effect."""
    lines = "\n".join(f"    {r['field']}={pasted(r)}," for r in rows)
    for number, code in check(folder, lines):
        if code != "W0717":
            name = rows[number - 1]["field"] if 0 < number <= len(rows) else "?"
            say(f"{name}={pasted(rows[number - 1])}, is answered with {code}")


def check_refusals(rows, folder, say):
    """Each key refuses what is no value of it, on its line, and a second line of the same key."""
    wrong = {"int": '"many"', "float": '"many"', "bool": '"maybe"', "text": "[3]", "word": '"nonsense"',
             "list": "3", "map": "3"}
    for r in rows:
        value = wrong[r["type"]]
        codes = check(folder, f"  {r['field']} = {value}")
        if not any(n == 1 and re.match("E05|E07|E03", code) for n, code in codes):
            say(f"{r['field']} = {value} is answered with {codes}")
        codes = check(folder, f"  {r['field']} = {pasted(r)}\n  {r['field']} = {pasted(r)}")
        if (2, "E0704") not in codes:
            say(f"{r['field']} twice is answered with {codes}")


def main():
    if "--write" in sys.argv:
        write()
        return 0
    wrong = []
    rows = fixture_rows()
    if "--live" in sys.argv and live_rows() != rows:
        wrong.append("fixtures/training_arguments.csv differs from the installed transformers; "
                     "settings.py --write writes it anew")
    compare(rows, wrong.append)
    if not wrong:
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "rows.csv").touch()
            for each in (check_words, check_pasted, check_refusals):
                each(rows, folder, wrong.append)
    print("\n".join(wrong) or f"{len(rows)} fields")
    return 1 if wrong else 0


sys.exit(main())
