"""Which codes and which constructs have a case. Standard library only.
  coverage.py SOURCE_FOLDER           fails when something lacks one
  coverage.py SOURCE_FOLDER --table   prints: code, number of cases in each folder
A case of a code is a line of a job that the tests run, with `error CODE` or `warning CODE` in its comment;
or, where no such line can be written (bytes, files, programs), a test in C or Python that names the code.
Codes without a case stand in later.csv with the reason, and only those. constructs.csv lists the constructs
of the language: a pattern that must stand on an accepted line, one that must stand on a refused line."""

import collections
import csv
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
here = root / "tests/diag"
CODE = r"[EW]0[0-9]{3}"
MARK = re.compile(rf"#.*?\b(?:error|warning) ({CODE})")
EVERY = re.compile(rf"\b(?:error|warning) ({CODE})")

# Lines with marks: every test of these folders compares them with what is reported.
marked = [p for folder in ("diag", "sema", "syntax", "language", "fmt", "imports", "reports", "cimport")
          for p in sorted((root / "tests" / folder).rglob("*"))
          if p.suffix in (".ddp", ".txt", ".h") and p.is_file()]
marked.append(root / "docs/language.md")
named = [p for p in sorted((root / "tests").rglob("*"))
         if p.suffix in (".c", ".py", ".sh") and p != here / "coverage.py"]
accepted = marked + [p for folder in ("stdlib", "examples", "tests")
                     for p in sorted((root / folder).rglob("*.ddp"))]


def text(path):
    return path.read_text(encoding="utf-8", errors="replace")


def folder(path):
    return "/".join(path.relative_to(root).parts[:2])


def all_codes():
    table = text(root / "compiler/base/diag.def")
    return re.findall(rf'^DIAG\(({CODE}),', table, re.M)


def emitted_codes():
    found = set()
    for path in (root / "compiler").rglob("*"):
        if path.suffix in (".c", ".h", ".y", ".l"):
            found |= set(re.findall(rf"DIAG_({CODE})", text(path)))
            # type functions of ops give the number alone
            found |= {f"E0{n}" for n in re.findall(r"infer_fail\([^;]*?code, ([0-9]{3}),", text(path))}
    return found


def cases():
    found = collections.defaultdict(collections.Counter)
    for path in marked:
        for line in text(path).splitlines():
            for code in EVERY.findall(line):
                found[code][folder(path)] += 1
    for path in named:
        for code in re.findall(rf'"[^"\n]*\b({CODE})\b', text(path)):
            found[code][folder(path)] += 1
    return found


def rows(name):
    with open(here / name, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def check_codes(say):
    known, found, emitted = all_codes(), cases(), emitted_codes()
    later = {row["code"]: row["reason"] for row in rows("later.csv")}
    for code in known:
        if code in later:
            if not later[code]:
                say(f"{code} stands in later.csv without a reason")
            if code in found and code in emitted:
                say(f"{code} has a case and is emitted: take it out of later.csv")
        elif code not in found:
            say(f"{code} has no case, and later.csv does not say why")
        elif code not in emitted:
            say(f"{code} is never emitted, and later.csv does not say why")
    for code in [*later, *found]:
        if code not in known and not code.startswith("E9"):
            say(f"{code} is no code of diag.def")


def check_constructs(say):
    good, bad = [], []
    for path in dict.fromkeys(accepted):
        for line in text(path).splitlines():
            (bad if EVERY.search(line) else good).append(line)
    good, bad = "\n".join(good), "\n".join(bad)
    for row in rows("constructs.csv"):
        for kind, lines in (("accepted", good), ("refused", bad)):
            if not re.search(row[kind], lines, re.M):
                say(f"{row['construct']}: no {kind} line matches {row[kind]}")


def table():
    found = cases()
    folders = sorted({f for c in found.values() for f in c})
    print("code   " + " ".join(folders))
    for code in all_codes():
        print(f"{code}  " + " ".join(f"{found[code][f]:{len(f)}}" for f in folders))
    print(f"{len(all_codes())} codes, {sum(bool(found[c]) for c in all_codes())} with a case")


def main():
    if "--table" in sys.argv:
        table()
        return 0
    wrong = []
    check_codes(wrong.append)
    check_constructs(wrong.append)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


sys.exit(main())
