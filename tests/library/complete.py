"""Every definition of the library that is visible in a job is named in table.py. Standard library only."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
STDLIB = HERE.parent.parent / "stdlib"


def visible():
    """The files whose names every job sees, from compiler/sema/stdlib.c."""
    text = (HERE.parent.parent / "compiler/sema/stdlib.c").read_text()
    block = re.search(r"visible\[\] = \{(.*?)\};", text, re.S).group(1)
    return [STDLIB / name for name in re.findall(r'"std/([\w.]+)"', block)]


def defined():
    return [n for f in visible() for n in re.findall(r"^(?:def|module) (\w+)", f.read_text(), re.M)]


def rows():
    """Names in quotes, `{n}` standing for 1 to 3. library.py, which can run the table, looks at the rows themselves."""
    names = set(re.findall(r'"([\w{}]+)"', (HERE / "table.py").read_text()))
    names = {n.replace("{title}", k).replace("{kind}", k.lower()) for n in names for k in ("Avg", "Max")}
    return {n.replace("{n}", str(k)) for n in names for k in (1, 2, 3)}


def main():
    missing = sorted(set(defined()) - rows())
    if missing:
        sys.exit(f"no row in tests/library/table.py for {', '.join(missing)}")


if __name__ == "__main__":
    main()
