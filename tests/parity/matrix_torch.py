"""The job of matrix.ddp in PyTorch: a DistributedDataParallel loop that counts items globally, with torch's and
accelerate's own samplers, and transformers.Trainer itself. One process group trains all cases of a number of ranks:

    torchrun --nproc-per-node RANKS matrix_torch.py CASES.json OUT.json INITIAL.safetensors FOLDER

CASES: [{samples, batch, accumulate, drop_last, sharding, average, trainer}]. OUT: for each, losses and norms of all updates,
and the weights after each epoch; none where there is nothing to train on.
"""
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from accelerate.data_loader import BatchSamplerShard, SeedableRandomSampler
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DistributedSampler

from matrix import table

SEED, RATE, EPOCHS = 42, 0.5, 2


class Tagger(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.words, self.tags = nn.Embedding(12, 8), nn.Linear(8, 5)
        self.seen = nn.Parameter(torch.zeros(32))
        self.load_state_dict(start)

    def forward(self, words, id):
        return dict(logits=self.tags(torch.tanh(self.words(words))), seen=self.seen[id])


def summed_loss(out, labels):
    counted = (labels != -100).sum(-1).float()
    return F.cross_entropy(out["logits"].flatten(0, 1), labels.flatten(), reduction="sum") - (out["seen"] * counted).sum()


def micro_batches(case, rank, world, epoch):
    """The rank's micro-batches of an epoch, as lists of samples."""
    n, batch, drop = case["samples"], case["batch"], case["drop_last"]
    if case["sharding"] == "distributed_sampler":
        s = DistributedSampler(range(n), world, rank, seed=SEED, drop_last=drop)
        s.set_epoch(epoch)
        return list(BatchSampler(s, batch, drop))
    order = SeedableRandomSampler(range(n), generator=torch.Generator(), data_seed=SEED)
    order.set_epoch(epoch)
    batches = BatchSampler(order, batch, drop)
    if world > 1:
        batches = BatchSamplerShard(batches, num_processes=world, process_index=rank)
    return [list(b) for b in batches]


def weights(net):
    return {k: v.tolist() for k, v in net.state_dict().items()}


def loop(case, start):
    rank, world = dist.get_rank(), dist.get_world_size()
    if not (case["sharding"] != "distributed_sampler" or case["samples"] >= world or not case["drop_last"]):
        return None  # torch has no meaning for it
    rows = list(table(case["samples"]))
    words, labels = (torch.tensor([r[k] for r in rows]) for k in (1, 2))
    net = Tagger(start)
    model = DDP(net)
    sgd = torch.optim.SGD(net.parameters(), RATE)
    losses, norms, after = [], [], []
    for epoch in range(EPOCHS):
        micro = micro_batches(case, rank, world, epoch)
        for at in range(0, len(micro), case["accumulate"]):
            window = micro[at:at + case["accumulate"]]
            items = torch.tensor(float(sum((labels[m] != -100).sum() for m in window)))
            if case["average"]:
                dist.all_reduce(items)
                items /= world  # DDP divides by the ranks
            part = torch.zeros(())
            for k, m in enumerate(window):
                with model.no_sync() if k + 1 < len(window) else torch.enable_grad():
                    loss = summed_loss(model(words[m], torch.tensor(m)), labels[m]) / items
                    loss.backward()
                part += loss.detach()
            norms.append(nn.utils.clip_grad_norm_(net.parameters(), float("inf")).item())
            sgd.step()
            sgd.zero_grad()
            dist.all_reduce(part)
            losses.append(part.item() / world)
        after.append(weights(net))
    return dict(losses=losses, norms=norms, after=after) if losses else None


def in_trainer(case, start, folder):
    import transformers as t
    how = t.TrainingArguments(
        output_dir=folder, use_cpu=True, ddp_backend="gloo", seed=case.get("seed", SEED),
        data_seed=case.get("data_seed"), optim="sgd", learning_rate=RATE, max_grad_norm=0,
        lr_scheduler_type="constant", num_train_epochs=EPOCHS, per_device_train_batch_size=case["batch"],
        gradient_accumulation_steps=case["accumulate"], dataloader_drop_last=case["drop_last"], logging_steps=1,
        average_tokens_across_devices=case["average"], save_strategy="no", report_to=[], disable_tqdm=True,
        remove_unused_columns=False, label_names=["labels"])
    data = [dict(id=k, words=torch.tensor(w), labels=torch.tensor(y)) for k, w, y in table(case["samples"])]
    net = Tagger(start)
    trainer = t.Trainer(net, how, train_dataset=data, compute_loss_func=lambda out, labels, num_items_in_batch:
                        summed_loss(out, labels) / num_items_in_batch)
    trainer.train()
    log = trainer.state.log_history
    return dict(losses=[r["loss"] for r in log if "loss" in r], norms=[r["grad_norm"] for r in log if "grad_norm" in r],
                after=[weights(net)])


def main(cases, out, start, folder):
    torch.set_num_threads(1)
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    dist.init_process_group("gloo")
    start = load_file(start)
    found = []
    with open(cases) as f:
        for case in json.load(f):
            found.append(in_trainer(case, start, folder) if case["trainer"] else loop(case, start))
    if dist.get_rank() == 0:
        with open(out, "w") as f:
            json.dump(found, f)
    sys.stdout.flush()
    dist.barrier()
    os._exit(0)  # everything is written; taking the group apart can abort on a busy machine


if __name__ == "__main__":
    main(*sys.argv[1:])
