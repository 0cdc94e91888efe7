"""Two models in one job: a teacher that another job trained stays as it was and a student learns from it."""
import os

from ddptest import ROOT, Folder, expect, losses, main, same

JOB = os.path.join(ROOT, "tests/e2e/distill.ddp")


def tensors(path):
    import json
    with open(path, "rb") as f:
        data = f.read()
    head = 8 + int.from_bytes(data[:8], "little")
    table = json.loads(data[8:head])
    return {k: data[head + v["data_offsets"][0]:head + v["data_offsets"][1]] for k, v in table.items() if k != "__metadata__"}


def teachers_job(text):
    """The same job with the teacher alone, which is trained."""
    begin, end = text.index("model student"), text.index("train {")
    return text[:begin] + """model net = MLP(64, P = 0.5)

objective {
  logits = net(digits.pixels)
  loss = cross_entropy(logits, digits.digit)
  metric accuracy = accuracy(logits, digits.digit)
}

""" + text[end:]


def two_models():
    with open(JOB) as file:
        text = file.read().replace("../../examples", os.path.join(ROOT, "examples"))
    with Folder() as f:
        for name, job in (("teacher", teachers_job(text)), ("student", text)):
            with open(f.file(name + ".ddp"), "w") as file:
                file.write(job)
        _, log = f.train(f.compile(f.file("teacher.ddp"), "t"), "teacher")
        reached = [r["eval_accuracy"] for r in log if "eval_accuracy" in r][-1]
        taught = tensors(f.file("teacher/model.safetensors"))
        expect(sorted(taught) == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"], f"names {sorted(taught)}")
        os.rename(f.file("teacher/model.safetensors"), f.file("teacher.safetensors"))
        program = f.compile(f.file("student.ddp"), "s")
        _, log = f.train(program, "one")
        got = tensors(f.file("one/model.safetensors"))
        names = sorted(f"{m}.{k}" for m in ("student", "teacher") for k in taught)
        expect(sorted(got) == names, f"names {sorted(got)}")
        expect(all(got["teacher." + k] == v for k, v in taught.items()), "the teacher has changed")
        for record in log:
            if "eval_teachers" in record:  # dropout does not act in it
                expect(record["eval_teachers"] == reached, f"the teacher reached {reached}, here {record['eval_teachers']}")
        accuracy = [r["eval_accuracy"] for r in log if "eval_accuracy" in r][-1]
        expect(accuracy > 0.85, f"the student reaches {accuracy}")
        # Plain descent: Adam divides by gradients that are rounding alone.
        runs = []
        for ranks in (1, 2):
            settings = ["optim=sgd", "learning_rate=0.01", f"per_device_train_batch_size={16 // ranks}"]
            program = f.compile(f.file("student.ddp"), f"s{ranks}", ["train." + x for x in settings])
            runs.append(losses(f.train(program, f"ranks{ranks}", ranks)[1]))
        same(runs[0][:60], runs[1][:60], 1e-5, "1 and 2 ranks")


main(dict(two_models=two_models))
