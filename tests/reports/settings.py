"""Keys, numbers, booleans and imports: what is wrong is an error with a place, never another meaning.
The number in front of a test is its row in README.md."""
import os

from reports import DDPC, Folder, Job, expect, main, must, near, run, weights


def compiled(f, name, text, *flags):
    """Compiles a text; returns the Run. A program must exist exactly where it succeeded."""
    path = f.file(name + ".ddp")
    with open(path, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    r = run([DDPC, path, "-o", f.file(name), *flags], limit=20)
    expect((r.code == 0) == os.path.exists(f.file(name)), f"exit {r.code}, program: {os.path.exists(f.file(name))}")
    return r


def table(f):
    job = Job(f, "table")
    job.data(train="1,0\n2,1\n5,2\n")
    with open(f.file("table.ddp")) as file:
        return job, file.read()


def row_25_unknown_keys():
    with Folder() as f:
        job, text = table(f)
        end = text.rindex("}")
        faults = (("gradient_acumulation_steps = 2", "gradient_accumulation_steps"),
                  ("num-train-epochs = 3", "num_train_epochs"),
                  ("seed = 1\n  seed = 2", "seed"),
                  ("lr_scheduler_kwargs = none\n  optm = sgd", "optim"))
        for k, (line, suggestion) in enumerate(faults):
            wrong = text[:end] + "  " + line + "\n}\n"
            place = text[:end].count("\n") + line.count("\n") + 1
            r = compiled(f, f"wrong{k}", wrong)
            expect(r.code != 0 and f"wrong{k}.ddp:{place}:" in r.out and suggestion in r.out, f"{line}:\n{r.out}")
        r = compiled(f, "word", text.replace("= constant", "= cosin"))
        expect(r.code != 0 and "cosine" in r.out, r.out)
        r = compiled(f, "block", text.replace("  field x", "  learning_rate = 1\n  field x"))
        expect(r.code != 0 and "block.ddp:" in r.out and "learning_rate" in r.out, r.out)
        for flags, part in (("--gradient_acumulation_steps 2", "did you mean 'gradient_accumulation_steps'?"),
                            ("--save_strategy epochs", "expected one of"), ("--seed 1 --seed 2", "is given twice"),
                            ("--optim adam", "recompile with `ddpc -D train.optim=adam`"), ("extra", "'extra'")):
            job.fails(part, flags)


def row_53_numbers():
    with Folder() as f:
        job, text = table(f)
        seen = set()
        for spelling in ("1e-4", "1E-4", ".0001", "0.0001", "0.000_1"):
            _, out = job.train(f"--learning_rate {spelling}")
            seen.add(weights(out)["w"][0])
        for k, spelling in enumerate(("1e-4", "1E-4", "0.0001")):
            expect(compiled(f, f"n{k}", text.replace("learning_rate = 1\n", f"learning_rate = {spelling}\n")).code == 0,
                   spelling)
            must([f.file(f"n{k}"), "--output_dir", f.file(f"o{k}")])
            seen.add(weights(f.file(f"o{k}"))["w"][0])
        expect(len(seen) == 1, f"one rate, {len(seen)} meanings")
        for value in ("0", "-1", "2.5", "4294967296", "9223372036854775807", "99999999999999999999", '"8"'):
            r = run([DDPC, f.file("table.ddp"), "-o", f.file("x"), "-D", f"train.per_device_train_batch_size={value}"])
            expect(r.code != 0 and "error[" in r.out and not os.path.exists(f.file("x")), f"{value}:\n{r.out}")
        for flags in ("--learning_rate nan", "--learning_rate 1e400", "--learning_rate abc", "--ddp_timeout 30m",
                      "--ddp_timeout 0", "--ddp_timeout -1", "--ddp_timeout 1000000000000", "--max_steps 3x",
                      "--seed 9223372036854775808", "--warmup_steps -1", "--adam_beta1 2",
                      "--gradient_accumulation_steps 0", "--gradient_accumulation_steps 1.5",
                      "--gradient_accumulation_steps 9000000000000000000", "--threads 0", "--threads 100000"):
            key, value = flags[2:].split()
            job.fails(f"{key} = '{value}': expected", flags)


def row_84_booleans():
    with Folder() as f:
        job, text = table(f)
        for value, shown in (("true", "true"), ("True", "true"), ("false", "false"), ("none", "none")):
            r = must([job.binary(ddp_broadcast_buffers=value), "--print_config"])
            line = next(x for x in r.out.splitlines() if x.split()[:1] == ["ddp_broadcast_buffers"])
            expect(line.split()[1] == shown, f"{value}: {line}")
        for value in ("no", "0", '"false"', ""):
            r = run([DDPC, f.file("table.ddp"), "-o", f.file("x"), "-D", f"train.ddp_broadcast_buffers={value}"])
            expect(r.code != 0 and "ddp_broadcast_buffers" in r.out, f"'{value}':\n{r.out}")
        for value in ("no", "0", "off"):
            job.fails("expected true or false", f"--eval_on_start={value}")
        job.train("--save_strategy no")


def row_61_imports():
    with Folder() as f:
        job, text = table(f)
        for name, path, part in (("self", "self.ddp", "cycle"), ("zero", "/dev/zero", "bytes"),
                                 ("folder", ".", "Is a directory"), ("nothing", "nothing_there.ddp", "No such file")):
            r = compiled(f, name, text.replace("edition 1\n", f'edition 1\nimport "{path}" as other\n', 1))
            expect(r.code > 0 and part in r.out and r.seconds < 5, f"{path}: {r.seconds:.1f} s\n{r.out}")
        with open(f.file("b.ddp"), "w") as file:
            file.write('edition 1\nimport "a.ddp" as a\nconst two = a.one\n')
        r = compiled(f, "a", 'edition 1\nimport "b.ddp" as b\nconst one = b.two\n')
        expect(r.code > 0 and "a.ddp" in r.out and "b.ddp" in r.out and "cycle" in r.out, r.out)
        r = compiled(f, "deep", "edition 1\nconst a = " + "(" * 10 ** 6 + "1" + ")" * 10 ** 6 + "\n")
        expect(r.code > 0 and "nested too deeply" in r.out and r.seconds < 5, r.out[:500])
        r = compiled(f, "huge", "edition 1\n#" + " " * (17 << 20) + "\n")
        expect(r.code > 0 and "huge.ddp:1:1: error" in r.out and r.seconds < 5, r.out[:500])


def row_47_large_sizes():
    with Folder() as f:
        job = Job(f, "tied")
        job.data(train=[[0]])
        with open(f.file("tied.ddp")) as file:
            text = file.read()
        for old, new in (("Embedding(3, 2)", "Embedding(70_000, 32_768)"),
                         ("Linear(2, 3,", "Linear(32_768, 70_000,"), ("-> [B, 3]", "-> [B, 70_000]"),
                         ("in 0..3", "in 0..70_000")):
            expect(old in text, f"the job has no '{old}' any more")
            text = text.replace(old, new)
        with open(f.file("large.ddp"), "w") as file:
            file.write(text)
        r = must([DDPC, "plan", f.file("large.ddp")])
        expect("parameters: 2,293,760,000" in r.out and "9,175,040,000" in r.out, r.out[:1500])
        with open(f.file("larger.ddp"), "w") as file:
            file.write(text.replace("70_000", "700_000"))
        r = run([DDPC, "plan", f.file("larger.ddp"), "-D", "train.per_device_train_batch_size=1000000000"])
        expect(r.code == 1 and "more than 2^47 elements at a batch of 1000000000" in r.out, r.out[:1500])


def row_32_no_room():
    """What cannot fit is refused before data are read, with the sizes and a batch that would."""
    with Folder() as f:
        job = Job(f, "masked")
        job.data(train=[[0] * 12])
        with open(f.file("masked.ddp")) as file:
            text = file.read()
        with open(f.file("masked.ddp"), "w") as file:
            file.write(text.replace("DIM = 8", "DIM = 4_096"))  # hundreds of terabytes for a batch
        binary = job.binary(per_device_train_batch_size=10 ** 9)
        os.remove(f.file("train.csv"))
        r = run([binary, "--output_dir", f.file("out")], limit=30)
        expect(r.code > 0 and "not enough memory" in r.out and "would fit" in r.out, r.out)
        expect(not os.path.exists(f.file("out")), "an output folder was made")


def row_71_compile_time():
    """A model of ten times the layers: text, program and time grow no more than that."""
    with Folder() as f:
        job = Job(f, "wide")
        job.data(train=[[0] * 17])
        with open(f.file("wide.ddp")) as file:
            text = file.read()
        head = text[:text.index("module Net")] + 'import "std/models/mlp.ddp" as mlp\n'
        tail = text[text.index("dataset rows"):]
        sizes, seconds = [], []
        for layers in (6, 60):
            body = head + tail.replace("= Net()", f"= mlp.MLP(sizes = [16] + [64 for i in 0..{layers}] + [10], P = 0.0)")
            r = compiled(f, f"layers{layers}", body)
            expect(r.code == 0, r.out)
            seconds.append(r.seconds)
            sizes.append(os.path.getsize(f.file(f"layers{layers}")))
        expect(sizes[1] < 10 * sizes[0], f"bytes of the program: {sizes}")
        expect(seconds[1] < 15 * max(seconds[0], 0.5), f"seconds to compile: {seconds}")


main({k: v for k, v in list(globals().items()) if k.startswith("row_")})
