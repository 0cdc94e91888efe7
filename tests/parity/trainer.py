#!/usr/bin/env python3
"""The transformers of models/*.ddp trained by transformers.Trainer itself: 100 updates on 2 ranks (torchrun, gloo)
from ddpc's initial weights, where every micro-batch is full, since the Trainer repeats samples to fill the last.
Accelerate deals the samples of a global batch to the ranks in another way; the batch has the same samples. Bounds
as in models.py.

    trainer.py NAME ACCUMULATE
    trainer.py NAME ACCUMULATE --rank FOLDER     one rank, as torchrun starts it
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import model_data  # noqa: E402
from ddptest import Failure, Folder, must  # noqa: E402
from models import STEPS, compare_losses, compile_job, initial, ours  # noqa: E402

COUNT = 192  # full micro-batches and windows: 2 ranks x 8 samples x 3, four times
# What the Trainer's GPT-2 calls its loss divides by the labels before they are shifted.
JOBS = dict(gpt2="hf_gpt2")
INPUTS = dict(gpt2=["input_ids"], llama=["input_ids"], vit=["pixel_values"],
              bert=["input_ids", "attention_mask", "token_type_ids"])
# transformers' classification heads take `num_items_in_batch` and divide by their own number of samples instead, so
# that the Trainer's loss and gradient are (ranks x micro-batches) times the mean; its `compute_loss_func` is the way.
HEADS = ["bert", "vit"]


def mean_loss(outputs, labels, num_items_in_batch):
    import torch.nn.functional as F
    return F.cross_entropy(outputs.logits, labels, reduction="sum") / num_items_in_batch


def check(name, accumulate):
    model_data.COUNT = COUNT
    with Folder() as f:
        binary, _ = compile_job(f, JOBS.get(name, name))
        initial(f, binary)
        must([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
              os.path.abspath(__file__), name, str(accumulate), "--rank", f.path], limit=400,
             env=dict(OMP_NUM_THREADS="1"))
        with open(f.file("losses.json")) as log:
            want = json.load(log)
        got, _ = ours(f, binary, accumulate, STEPS)
    compare_losses(f"{name} in the Trainer, accumulation {accumulate}", got, want)


def rank(name, accumulate, folder):
    import torch_ddp
    import transformers as t
    job = torch_ddp.job_named(name, os.path.join(folder, "data"))
    net = torch_ddp.start(torch_ddp.own_net(job), os.path.join(folder, "initial"))
    data = [dict(zip([*INPUTS[name], "labels"], row)) for row in zip(*job["x"], job["y"])]
    how = t.TrainingArguments(
        output_dir=os.path.join(folder, "trainer"), use_cpu=True, ddp_backend="gloo", seed=torch_ddp.SEED,
        optim="adamw_torch_fused", learning_rate=job["lr"], weight_decay=job["decay"], max_grad_norm=job["clip"],
        lr_scheduler_type=job["schedule"], warmup_steps=job["warmup"], max_steps=STEPS,
        per_device_train_batch_size=job["batch"], gradient_accumulation_steps=accumulate, logging_steps=1,
        save_strategy="no", report_to=[], disable_tqdm=True)
    trainer = t.Trainer(net, how, train_dataset=data, compute_loss_func=mean_loss if name in HEADS else None)
    trainer.train()
    if trainer.is_world_process_zero():
        with open(os.path.join(folder, "losses.json"), "w") as log:
            json.dump([r["loss"] for r in trainer.state.log_history if "loss" in r], log)


if __name__ == "__main__":
    try:
        if "--rank" in sys.argv:
            rank(sys.argv[1], int(sys.argv[2]), sys.argv[4])
        else:
            check(sys.argv[1], int(sys.argv[2]))
    except Failure as e:
        sys.exit(f"FAIL {e}")
