#!/usr/bin/env python3
"""trainer_state.json, which checkpoints are kept and which weights are left at the end, compared with
transformers.Trainer on the same job: the same folders, in each the same fields of the same types, and the same
values but for what a clock measured. And ema_decay against torch's AveragedModel, bit for bit."""
import json
import os
import random
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import DDPC, Failure, Folder, expect, must  # noqa: E402

CLOCK = ("_runtime", "_per_second")
SETUPS = {
    "best of equal steps": dict(num_train_epochs=2.5, eval_strategy="steps", eval_steps=2, save_strategy="steps",
                                save_steps=2, logging_steps=3, logging_first_step=True, load_best_model_at_end=True,
                                save_total_limit=2, include_num_input_tokens_seen="all"),
    "the first is the best": dict(max_steps=7, eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2,
                                  logging_steps=1, load_best_model_at_end=True, metric_for_best_model="eval_loss",
                                  greater_is_better=True, save_total_limit=2),
    "saved when best": dict(num_train_epochs=3, eval_strategy="steps", eval_steps=1, save_strategy="best",
                            logging_steps=4, metric_for_best_model="accuracy"),
    "epochs": dict(num_train_epochs=3, eval_strategy="epoch", eval_delay=1.5, save_strategy="epoch",
                   logging_strategy="epoch", metric_for_best_model="loss", save_total_limit=1),
    "shares": dict(max_steps=9, save_strategy="steps", save_steps=0.3, logging_steps=0.2, eval_strategy="no"),
    "between saves": dict(max_steps=6, eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=3,
                          logging_steps=2, metric_for_best_model="loss", greater_is_better=True),
}


def rows(n, seed):
    draw = random.Random(seed)
    return [([draw.randrange(11) for _ in range(5)], draw.randrange(3)) for _ in range(n)]


def write_rows(path, data):
    with open(path, "w") as f:
        f.writelines(",".join(map(str, ids + [label])) + "\n" for ids, label in data)


def bag():
    import torch

    class Bag(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = torch.nn.Embedding(11, 8)
            self.head = torch.nn.Linear(8, 3)

        def forward(self, input_ids, labels=None):
            logits = self.head(self.tokens(input_ids).mean(1))
            return torch.nn.functional.cross_entropy(logits, labels), logits
    return Bag()


def theirs(folder, initial, train, evaluation, how):
    import torch
    import transformers as t
    from safetensors.torch import load_file
    net = bag()
    net.load_state_dict(load_file(initial))
    args = t.TrainingArguments(output_dir=folder, use_cpu=True, report_to=[], disable_tqdm=True, optim="sgd",
                               learning_rate=0.5, per_device_train_batch_size=4, per_device_eval_batch_size=4,
                               gradient_accumulation_steps=2, train_sampling_strategy="sequential", seed=42, **how)

    def data(rows):
        return [dict(input_ids=torch.tensor(ids), labels=torch.tensor(label)) for ids, label in rows]

    def accuracy(p):
        return dict(accuracy=float((p.predictions.argmax(-1) == p.label_ids).mean()))
    trainer = t.Trainer(net, args, train_dataset=data(train), eval_dataset=data(evaluation), compute_metrics=accuracy)
    trainer.train()
    trainer.save_state()
    return {k: v for k, v in net.state_dict().items()}


def state(folder):
    with open(os.path.join(folder, "trainer_state.json")) as f:
        text = f.read()
    s = json.loads(text)
    return s, text


def saved(folder):
    return sorted((x for x in os.listdir(folder) if x.startswith("checkpoint-")), key=lambda x: int(x[11:]))


def compare(where, got, want, whole=True):
    """Types, keys and values; with whole = False `got` may have more keys."""
    expect(type(got) is type(want), f"{where}: {got!r}, the Trainer has {want!r}")
    if isinstance(want, dict):
        more, less = got.keys() - want.keys(), want.keys() - got.keys()
        expect(not less and not (whole and more), f"{where}: too many {sorted(more)}, missing {sorted(less)}")
        for k in want:
            if not k.endswith(CLOCK):
                compare(f"{where}.{k}", got[k], want[k])
            else:
                expect(isinstance(got[k], float) and got[k] > 0, f"{where}.{k} is {got[k]!r}")
    elif isinstance(want, list):
        expect(len(got) == len(want), f"{where}: {len(got)} entries, the Trainer has {len(want)}:\n{got}\n{want}")
        for i, (a, b) in enumerate(zip(got, want)):
            ours = {k: v for k, v in a.items() if not k.endswith("_ms")}  # where the time went
            compare(f"{where}[{i}]", ours, b, whole="train_loss" not in b)
    elif isinstance(want, float):
        expect(abs(got - want) <= 2e-5 * max(1, abs(want)), f"{where}: {got!r}, the Trainer has {want!r}")
    elif isinstance(want, str):
        expect(os.path.basename(got) == os.path.basename(want), f"{where}: {got!r}, the Trainer has {want!r}")
    else:
        expect(got == want, f"{where}: {got!r}, the Trainer has {want!r}")


def theirs_of_ranks(f, other, how, ranks):
    """The Trainer under torchrun; the weights at the end go to a file, for the test."""
    from safetensors.torch import load_file
    task = f.file("task.json")
    with open(task, "w") as t:
        json.dump(dict(folder=other, initial=f.file("initial/model.safetensors"), how=how), t)
    must([sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
          os.path.abspath(__file__), "--rank", task], limit=120, env=dict(OMP_NUM_THREADS="1"))
    return load_file(task + ".safetensors")


def rank(task):
    from safetensors.torch import save_file
    with open(task) as t:
        job = json.load(t)
    state = theirs(job["folder"], job["initial"], rows(24, 1), rows(12, 2), dict(job["how"], ddp_backend="gloo"))
    if os.environ["RANK"] == "0":
        save_file(state, task + ".safetensors")


def setup(f, name, how, binary, ranks=1):
    from safetensors.torch import load_file
    name = f"{name}, {ranks} ranks" if ranks > 1 else name
    ours, other = f.file(f"{name}/ours"), f.file(f"{name}/theirs")
    flags = [x for k, v in how.items() for x in (f"--{k}", str(v).lower() if isinstance(v, bool) else str(v))]
    if ranks > 1:
        flags += ["--nproc-per-node", str(ranks), "--sharding", "accelerate"]
    must([binary, "--output_dir", ours, "--init_from", f.file("initial/model.safetensors")] + flags)
    want = theirs_of_ranks(f, other, how, ranks) if ranks > 1 else \
        theirs(other, f.file("initial/model.safetensors"), rows(24, 1), rows(12, 2), how)
    expect(saved(ours) == saved(other), f"{name}: {saved(ours)}, the Trainer has {saved(other)}")
    for part in saved(ours) + [""]:
        got, text = state(os.path.join(ours, part))
        compare(f"{name}: {part}", got, state(os.path.join(other, part))[0])
        expect(text == json.dumps(got, indent=2, sort_keys=True) + "\n", f"{name}: {part}: not as json.dumps writes it")
    for k, v in load_file(os.path.join(ours, "model.safetensors")).items():
        worst = (v - want[k]).abs().max().item()
        expect(worst <= 1e-5, f"{name}: {k} at the end differs by {worst}")
    print(f"ok    {name}: {len(saved(ours))} checkpoints", flush=True)


def average(f, binary, decay):
    """The average in every checkpoint, from the weights in every checkpoint."""
    import torch
    from safetensors.torch import load_file
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    out = f.file(f"ema-{decay}")
    must([binary, "--output_dir", out, "--max_steps", "20", "--save_strategy", "steps", "--save_steps", "1",
          "--logging_steps", "5", "--ema_decay", str(decay)])
    net = bag()
    mean = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(decay))
    for step in range(1, 21):
        part = os.path.join(out, f"checkpoint-{step}")
        net.load_state_dict(load_file(os.path.join(part, "model.safetensors")))
        mean.update_parameters(net)
        got = load_file(os.path.join(part, "ema.safetensors"))
        for k, v in mean.module.state_dict().items():
            expect(torch.equal(v, got[k]), f"decay {decay}, update {step}: {k} differs by {(v - got[k]).abs().max()}")
    got = load_file(os.path.join(out, "model.safetensors"))
    expect(all(torch.equal(v, got[k]) for k, v in mean.module.state_dict().items()), "not the average at the end")
    print(f"ok    ema_decay = {decay}", flush=True)


def check():
    os.environ["DDP_LOG"] = "warning"
    with Folder() as f:
        write_rows(f.file("train.csv"), rows(24, 1))
        write_rows(f.file("eval.csv"), rows(12, 2))
        shutil.copy(os.path.join(HERE, "trainer_state.ddp"), f.path)
        binary = f.file("train")
        must([DDPC, f.file("trainer_state.ddp"), "-o", binary])
        must([binary, "--init-only", "--output_dir", f.file("initial")])
        for name, how in SETUPS.items():
            setup(f, name, how, binary)
        # what is not logged at the end counts in the Trainer's train_loss as on rank 0 alone: here nothing is left
        setup(f, "best of equal steps", dict(SETUPS["best of equal steps"], logging_steps=1), binary, 2)
        for decay in (0.9, 0.999, 0.3):
            average(f, binary, decay)


if __name__ == "__main__":
    try:
        rank(sys.argv[2]) if "--rank" in sys.argv else check()
    except Failure as e:
        sys.exit(f"FAIL {e}")
