"""Files as people have them: line ends, byte order marks, missing values, labels out of range, gzip, paths.
The number in front of a test is its row in README.md."""
import gzip
import os
import shutil
import signal
import subprocess
import time

from reports import DDPC, Failure, Folder, Job, expect, logged, main, must, near, run, weights

GOOD = "1,0\n2,1\n5,2\n"  # mean of the products: 4


def product(out):
    return -weights(out)["w"][0]


def row_62_labels_out_of_range():
    with Folder() as f:
        job = Job(f, "table")
        for text in ("3", "-1", "2.5", "cat", "1e20", "-100"):
            job.data(train=f"1,0\n2,1\n3,{text}\n")
            r = job.fails(f"train.csv:3:3: column 2 (label): '{text}' is not a whole number from 0 to 2", ranks=2)
            expect("table.ddp:" in r.out, f"the field is not named:\n{r.out}")
        job.data(train="1,1\n2,2\n3,3\n")
        r = job.fails("do the values start at 1?")
        job.data(train="1,0.0\n2,1.0\n5,2.0\n")
        _, out = job.train()
        near(product(out), 4, "labels written as 2.0")


def row_49_missing_values():
    with Folder() as f:
        job = Job(f, "table")
        for text in ("", "NA", "?", "nan", "inf", "1e999", "0x1A", "12abc"):
            job.data(train=f"1,0\n{text},1\n")
            job.fails(f"train.csv:2:1: column 1 (x): '{text}' is not a finite number")
        job.data(train="1,0\n 2 ,1\n5,2\n")
        _, out = job.train()
        near(product(out), 4, "blanks around a number")
        text = open(f.file("table.ddp")).read().replace('csv("train.csv")', 'csv("train.csv", missing = "NA")')
        with open(f.file("table.ddp"), "w") as file:
            file.write(text)
        job.data(train="1,0\nNA,1\n2,1\n5,2\nNA,0\n")
        r, out = job.start(per_device_train_batch_size=32)
        expect(r.code == 0 and "2 rows with missing values were left out" in r.out, r.out)
        near(product(out), 4, "rows with missing values left out")


def row_42_ragged_rows():
    with Folder() as f:
        job = Job(f, "table")
        job.data(train='1,0\n"2","1"\n"5",2\n')
        _, out = job.train()
        near(product(out), 4, "quoted numbers")
        for text, error in (("1,0\n2\n", "train.csv:2 (record 2): 1 column, expected 2"),
                            ("1,0\n2,1,3\n", "train.csv:2 (record 2): 3 columns, expected 2"),
                            ('1,0\n"2,1\n', "train.csv:2: the quote that opens here is never closed"),
                            ('"1\n",0\n2\n', "train.csv:3 (record 2): 1 column, expected 2")):
            job.data(train=text)
            job.fails(error)


def row_74_line_ends():
    with Folder() as f:
        job = Job(f, "table")
        for text in (GOOD, GOOD.replace("\n", "\r\n"), "\ufeff" + GOOD.replace("\n", "\r\n"), GOOD[:-1]):
            job.data(train=text)
            _, out = job.train()
            near(product(out), 4, repr(text))
        job.data(train=GOOD.replace("\n", "\r"))
        job.fails("carriage return")
        job.data(train=GOOD.encode("utf-16"))
        job.fails("UTF-16")
        text = "\ufeff" + open(f.file("table.ddp")).read().replace("\n", "\r\n")
        with open(f.file("table.ddp"), "wb") as file:
            file.write(text.encode())
        job.data(train=GOOD)
        _, out = job.train(per_device_train_batch_size=32)
        near(product(out), 4, "a job file with BOM and CRLF")
        with open(f.file("table.ddp"), "wb") as file:
            file.write(text.replace("learning_rate", "learning_rte").encode())
        r = run([DDPC, f.file("table.ddp"), "-o", f.file("x")])
        line = text.split("learning_rate")[0].count("\n") + 1
        expect(r.code != 0 and f"table.ddp:{line}:3:" in r.out, f"place in a file with CRLF:\n{r.out}")


def row_82_gzip_by_content():
    with Folder() as f:
        job = Job(f, "table")
        packed = gzip.compress(GOOD.encode())
        job.data(train=packed)  # its name says CSV
        _, out = job.train()
        near(product(out), 4, "gzip")
        job.data(train=packed[:-6])
        job.fails("train.csv' is damaged: gzip: the data end too early")
        job.data(train=packed[:-8] + b"\0\0\0\0" + packed[-4:])
        job.fails("train.csv' is damaged: gzip: incorrect data check")


def row_40_empty_file():
    with Folder() as f:
        job = Job(f, "table")
        for data in ("", "\n", "\n\n"):
            job.data(train=data)
            job.fails("split train is empty: 0 rows were read from 'train.csv'")
        binary = job.binary()
        os.remove(f.file("train.csv"))
        r = run([binary, "--output_dir", f.file("out")])
        expect(r.code > 0 and f.file("train.csv") in r.out, f"a missing file:\n{r.out}")


def row_63_76_77_paths():
    with Folder() as f:
        job = Job(f, "table")
        job.data(train=GOOD)
        deep = f.file("a b/é漢")
        os.makedirs(deep)
        for name in ("table.ddp", "train.csv"):
            shutil.move(f.file(name), deep)
        must([DDPC, os.path.join(deep, "table.ddp"), "-o", f.file("bin")], cwd="/")
        must([f.file("bin"), "--output_dir", "o u/t é"], cwd=f.path)
        near(product(f.file("o u/t é")), 4, "compiled from /, run from elsewhere")
        must([DDPC, "table.ddp", "-o", f.file("bin")], cwd=deep)
        os.makedirs(f.file("moved"))
        shutil.move(f.file("bin"), f.file("moved/bin"))
        must([f.file("moved/bin"), "--output_dir", f.file("again")], cwd="/tmp")
        near(product(f.file("again")), 4, "relative job, binary moved")
        shutil.move(os.path.join(deep, "train.csv"), f.file("train.csv"))
        r = run([f.file("moved/bin"), "--output_dir", f.file("third")])
        expect(r.code > 0 and os.path.join(deep, "train.csv") in r.out, f"data moved away:\n{r.out}")
        must([f.file("moved/bin"), "--output_dir", f.file("fourth"), "--data_root", f.path])
        near(product(f.file("fourth")), 4, "--data_root")
        text = open(os.path.join(deep, "table.ddp")).read()
        with open(f.file("job.ddp"), "w") as file:
            file.write(text.replace("train {", 'train {\n  output_dir = "${OUT}/run"'))
        r = run([DDPC, f.file("job.ddp"), "-o", f.file("x")])
        line = text.split("train {")[0].count("\n") + 2
        expect(r.code != 0 and f"job.ddp:{line}:" in r.out and "--output_dir" in r.out, f"${{OUT}}:\n{r.out}")


def row_68_split_of_one_file():
    with Folder() as f:
        job = Job(f, "split")
        job.data(train=[[2 ** k] for k in range(10)])
        seen = set()
        for ranks in (1, 2, 4):
            for flags in ("", " --seed 9"):
                log, out = job.train("--train_sampling_strategy random" + flags, ranks)
                trained = round(weights(out)["w"][0] * ranks)
                held = round(2 * logged(log, "eval_held_out")[0])
                expect(trained + held == 1023, f"{ranks} ranks: {trained} trained on, {held} held out")
                seen.add(held)
        expect(len(seen) == 1, f"the split depends on ranks or seed: {seen}")


def wait_for_updates(process, log, limit=30):
    """Until the log has a line; the file is made by the program."""
    end = time.monotonic() + limit
    while process.poll() is None and time.monotonic() < end:
        if os.path.exists(log) and os.path.getsize(log):
            return
        time.sleep(0.01)
    raise Failure("no update was logged")


def row_57_truncated_while_training():
    with Folder() as f:
        job = Job(f, "tokens")
        path = f.file("tokens.bin")
        with open(path, "wb") as file:
            file.write(bytes(2 * 8 * 64) + b"\1\0")
        args = [job.binary(), "--nproc-per-node", "2", "--output_dir", f.file("out")]
        p = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            wait_for_updates(p, f.file("out/log.jsonl"))
            os.truncate(path, 100)
            out, _ = p.communicate(timeout=30)
        except (subprocess.TimeoutExpired, Failure) as e:
            os.killpg(p.pid, signal.SIGKILL)
            raise Failure(f"{e}:\n{p.communicate()[0]}")
        expect(p.returncode == 3 and f"data file '{path}' has become shorter since the start" in out,
               f"exit {p.returncode}:\n{out}")


def row_44_token_beyond_the_vocabulary():
    with Folder() as f:
        job = Job(f, "tokens")
        for tokens, error in ((17 * b"\1\0" + b"\144\0" + 15 * b"\1\0",
                               "tokens.bin: token 17 (from 0): 100 is not a whole number from 0 to 99"),
                              (16 * b"\1\0" + b"\1", "33 bytes of tokens are not a multiple of 2"),
                              (8 * b"\1\0", "there are 8 tokens, and one sample of field ids takes 9")):
            with open(f.file("tokens.bin"), "wb") as file:
                file.write(tokens)
            job.fails(error)


main({k: v for k, v in list(globals().items()) if k.startswith("row_")})
