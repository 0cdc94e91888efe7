"""Locales with a decimal comma, names that are not UTF-8, long and winding imports. The number in front of a
test is its row in README.md; 0: no public report, the same kind of fault."""
import os
import shutil
import subprocess

from reports import DDPC, Folder, Job, expect, main, must, near, run, weights

GOOD = "1,0\n2,1\n5,2\n"


def comma_locale(folder):
    """Environment with a decimal comma, where one can be made; numbers must not depend on it."""
    made = shutil.which("localedef") and subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", folder.file("de_DE.UTF-8")], capture_output=True).returncode in (0, 1)
    env = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}
    return dict(env, LOCPATH=folder.path) if made else env


def row_53_decimal_comma():
    with Folder() as f:
        job = Job(f, "table")
        job.data(train=GOOD)
        _, plain = job.train("--learning_rate 0.25")
        env = comma_locale(f)
        _, comma = job.train("--learning_rate 0.25", env=env)
        near(weights(comma)["w"], weights(plain)["w"], "a run under de_DE", 0)
        texts = [must([DDPC, f.file("table.ddp"), "--emit=c", "-o", "-"], env=e).out for e in (None, env)]
        expect(texts[0] == texts[1], "the program depends on the locale")
        r = run([DDPC, "check", f.file("table.ddp"), "-D", "train.learning_rate=0,5"], env=env)
        expect(r.code != 0 and "error[" in r.out, f"0,5:\n{r.out}")


def row_76_names_of_bytes():
    with Folder() as f:
        job = Job(f, "table")
        job.data(train=GOOD)
        odd = os.path.join(os.fsencode(f.path), b"a b\xff\xfe'c")
        os.makedirs(odd)
        for name in ("table.ddp", "train.csv"):
            shutil.move(f.file(name), os.path.join(odd, name.encode()))
        binary = os.path.join(odd, b"bin")
        r = subprocess.run([DDPC, os.path.join(odd, b"table.ddp"), "-o", binary], capture_output=True, timeout=60)
        expect(r.returncode == 0, f"compiled in a folder that is not UTF-8: {r.stderr!r}")
        r = subprocess.run([binary, b"--output_dir", os.path.join(odd, b"out")], capture_output=True, timeout=60)
        expect(r.returncode == 0, f"run in a folder that is not UTF-8: {r.stderr!r}")
        expect(os.path.exists(os.path.join(odd, b"out", b"model.safetensors")), "no weights")


def check(f, name):
    r = run([DDPC, "check", f.file(name)], limit=20)
    expect(r.seconds < 5, f"{name}: {r.seconds:.1f} s")
    return r


def row_61_winding_imports():
    with Folder() as f:
        os.makedirs(f.file("x"))
        with open(f.file("a.ddp"), "w") as file:
            file.write('edition 1\nimport "./x/../a.ddp" as again\nconst one = again.one\n')
        r = check(f, "a.ddp")
        expect(r.code > 0 and "cycle" in r.out, f"a file by another path:\n{r.out}")
        for i in range(300):
            with open(f.file(f"d{i}.ddp"), "w") as file:
                file.write("edition 1\n" + (f'import "d{i + 1}.ddp" as next\nconst one = next.one\n' if i < 299
                                            else "const one = 1\n"))
        r = check(f, "d0.ddp")
        expect(r.code in (0, 1) and "internal" not in r.out, f"300 imports in a row:\n{r.out[:600]}")


main({k: v for k, v in list(globals().items()) if k.startswith("row_")})
