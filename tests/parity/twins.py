#!/usr/bin/env python3
"""Models of stdlib/models that models.py does not train, each against a twin in PyTorch on one batch: the names of
what is saved, the loss, and the gradients as what one update of SGD changes. ddpc starts from the twin's weights.

The reference is the twin in float64; each gradient may be FACTOR times as far from it as float32 PyTorch's is, with a
floor of 1e-5 of its norm.      twins.py [NAME...]"""
import os
import random
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from ddptest import Folder, expect, losses, main  # noqa: E402

FACTOR = 4
RATE = 1024.0  # a power of two: the change of a weight is then little else than its gradient
JOB = """edition 1

import "std/models/{file}.ddp" as m

dataset d {{
  let rows = csv("rows.csv")
{fields}
  split train = rows
}}

model net = {model}

objective {{
  {loss}
}}

train {{
  max_steps = 1
  per_device_train_batch_size = {count}
  optim = sgd
  learning_rate = {rate}
  lr_scheduler_type = constant
  max_grad_norm = 0.0
}}
"""
REAL = "float32"


class MLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = MLP([12, 9, 4]), MLP([4, 9, 12])

    def forward(self, x):
        return self.decoder(F.relu(self.encoder(x)))


class VAE(nn.Module):
    """The draws of the posterior differ; log-variances near -100 leave nothing of them."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = MLP([12, 9, 8]), MLP([4, 9, 12])
        with torch.no_grad():
            self.encoder.layers[-1].bias[4:] -= 100

    def forward(self, x):
        mu, log_var = self.encoder(x).chunk(2, -1)
        return self.decoder(mu), mu, log_var


def vae_loss(net, x):
    z, mu, log_var = net(x)
    kl = -0.5 * (1 + log_var - mu ** 2 - log_var.exp()).sum() / len(x)
    return F.mse_loss(z, x) + 0.01 * kl


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = MLP([10, 16, 12])
        self.projector = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 8))

    def forward(self, a, b):
        return self.projector(self.encoder(a)), self.projector(self.encoder(b))


class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.both = Siamese()
        self.predictor = nn.Sequential(nn.Linear(8, 2, bias=False), nn.BatchNorm1d(2), nn.ReLU(), nn.Linear(2, 8))

    def forward(self, a, b):
        za, zb = self.both(a, b)
        left = F.cosine_similarity(self.predictor(za), zb.detach()).mean()
        return -(left + F.cosine_similarity(self.predictor(zb), za.detach()).mean()) / 2


def info_nce(net, a, b):
    a, b = (F.normalize(x) for x in net(a, b))
    scores, own = a @ b.T / 0.07, torch.arange(len(a))
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2


class DLRM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(n, 6) for n in (9, 4, 7))
        self.bot_l, self.top_l = MLP([5, 10, 6]), MLP([6 + 6, 11, 8, 1])

    def forward(self, dense, sparse):
        x = F.relu(self.bot_l(dense))
        z = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.emb)], 1)
        i, j = torch.tril_indices(4, 4, -1)
        return self.top_l(torch.cat([x, (z @ z.transpose(1, 2))[:, i, j]], -1))[:, 0]


class Experts(nn.Module):
    def __init__(self, count, width, inner):
        super().__init__()
        self.w1 = nn.Parameter(0.3 * torch.randn(count, width, inner))
        self.w2 = nn.Parameter(0.3 * torch.randn(count, inner, width))


class MoE(nn.Module):
    """Token by token: the first choices of all tokens of a sample take their places before the second."""

    def __init__(self, width, inner, count, chosen):
        super().__init__()
        self.gate, self.experts = nn.Linear(width, count, bias=False), Experts(count, width, inner)
        self.chosen = chosen

    def forward(self, x):
        count = self.gate.out_features
        capacity = -(-125 * self.chosen * x.shape[1] // (100 * count))
        p = self.gate(x).softmax(-1)
        weight, choice = p.topk(self.chosen, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        y = [[0 * token for token in sample] for sample in x]
        for b in range(len(x)):
            taken = [0] * count
            for k in range(self.chosen):
                for i in range(x.shape[1]):
                    e = int(choice[b, i, k])
                    if taken[e] < capacity:
                        out = F.gelu(x[b, i] @ self.experts.w1[e]) @ self.experts.w2[e]
                        y[b][i] = y[b][i] + weight[b, i, k] * out
                    taken[e] += 1
        share = F.one_hot(choice[..., 0], count).to(p).mean(1)
        return torch.stack([torch.stack(row) for row in y]), count * (share * p.mean(1)).sum(-1)


class MoEBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(12), nn.LayerNorm(12)
        self.attn, self.moe = nn.MultiheadAttention(12, 2, batch_first=True), MoE(12, 48, 4, 2)

    def forward(self, x):
        a = self.ln_1(x)
        later = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        x = x + self.attn(a, a, a, attn_mask=later, is_causal=True, need_weights=False)[0]
        y, balance = self.moe(self.ln_2(x))
        return x + y, balance


class MoETransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(20, 12), nn.Embedding(16, 12)
        self.h, self.ln_f = nn.ModuleList(MoEBlock() for _ in range(2)), nn.LayerNorm(12)

    def forward(self, ids):
        x, balances = self.wte(ids) + self.wpe.weight[:ids.shape[1]], []
        for block in self.h:
            x, balance = block(x)
            balances.append(balance)
        return F.linear(self.ln_f(x), self.wte.weight), torch.stack(balances).mean()


def moe_loss(net, ids):
    logits, balance = net(ids)
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:]) + 0.01 * balance


def torchvision_resnet(name):
    """Each ReLU is open or shut by a wide margin: where rounding opens one, the gradients before it jump by 2 percent."""
    def make():
        import torchvision
        net = getattr(torchvision.models, name)(num_classes=10)
        last = ("bn3", "downsample.1") if name == "resnet50" else ("bn2", "downsample.1")
        with torch.no_grad():
            for key, norm in net.named_modules():
                if isinstance(norm, nn.BatchNorm2d):
                    norm.bias.fill_(4)
                    if not key.endswith(last):
                        norm.bias[::2] = -4
        return net
    return make


def classified(net, x, y):
    return F.cross_entropy(net(x), y)


def resnet(name):
    return dict(file="resnet", model=f"m.{name}(CLASSES = 10)", net=torchvision_resnet(name), loss=CLASSES,
                torch=classified, fields=[("x", (3, 64, 64), REAL), ("y", (), 10)])


# fields: name, shape, and float32 or the number of classes.
CLASSES = "loss = cross_entropy(net(d.x), d.y)"
MODELS = dict(
    mlp=dict(file="mlp", model="m.MLP([20, 16, 12, 5])", net=lambda: MLP([20, 16, 12, 5]), loss=CLASSES,
             torch=classified, fields=[("x", (20,), REAL), ("y", (), 5)]),
    lenet=dict(file="lenet", model="m.LeNet5()", net=LeNet5, loss=CLASSES, torch=classified,
               fields=[("x", (1, 28, 28), REAL), ("y", (), 10)]),
    resnet34=resnet("resnet34"),
    resnet50=resnet("resnet50"),
    autoencoder=dict(file="vae", model="m.Autoencoder(12, 9, 4)", net=Autoencoder, fields=[("x", (12,), REAL)],
                     loss="loss = mse_loss(net(d.x), d.x)", torch=lambda net, x: F.mse_loss(net(x), x)),
    vae=dict(file="vae", model="m.VAE(12, 9, 4)", net=VAE, fields=[("x", (12,), REAL)], torch=vae_loss,
             loss="z, mu, log_var = net(d.x)\n  loss = mse_loss(z, d.x) + 0.01 * gaussian_kl(mu, log_var)"),
    two_towers=dict(file="siamese", model="m.Siamese(mlp.MLP([10, 16, 12]), 12, 8)", net=Siamese, torch=info_nce,
                    loss="a, b = net(d.a, d.b)\n  loss = info_nce(a, b)",
                    fields=[("a", (10,), REAL), ("b", (10,), REAL)]),
    simsiam=dict(file="siamese", model="m.SimSiam(mlp.MLP([10, 16, 12]), 12, 8)", net=SimSiam,
                 torch=lambda net, a, b: net(a, b), loss="loss = net(d.a, d.b)",
                 fields=[("a", (10,), REAL), ("b", (10,), REAL)]),
    dlrm=dict(file="dlrm", model="m.DLRM([9, 4, 7], 5, 6, [10], [11, 8])", net=DLRM,
              loss="loss = bce_with_logits(net(d.dense, d.sparse), d.y)",
              torch=lambda net, dense, sparse, y: F.binary_cross_entropy_with_logits(net(dense, sparse), y),
              fields=[("dense", (5,), REAL), ("sparse", (3,), 4), ("y", (), REAL)]),
    moe=dict(file="moe", model="m.MoETransformer(20, 16, 12, 2, 2, E = 4)", net=MoETransformer, torch=moe_loss,
             loss="logits, balance = net(d.ids)\n  loss = causal_lm_loss(logits, d.ids) + 0.01 * balance",
             fields=[("ids", (16,), 20)]),
)
COUNT = 8


def rows(fields):
    """A line for each sample, and the tensors of the fields."""
    draw, table, tensors, at = random.Random(5), [], [], 0
    widths = [torch.Size(shape).numel() for _, shape, _ in fields]
    for _ in range(COUNT):
        table.append([round(draw.gauss(0, 1), 3) if kind == REAL else draw.randrange(kind)
                      for (_, _, kind), width in zip(fields, widths) for _ in range(width)])
    for (_, shape, kind), width in zip(fields, widths):
        values = [row[at:at + width] for row in table]
        tensors.append(torch.tensor(values, dtype=torch.float32 if kind == REAL else torch.int64).reshape(COUNT, *shape))
        at += width
    return table, tensors


def declared(name, shape, kind):
    dims = f"[{', '.join(map(str, shape))}]" if shape else ""
    return f"  field {name}: {REAL}{dims}" if kind == REAL else f"  field {name}: int64{dims} in 0..{kind}"


def gradients(how, state, inputs, dtype):
    net = how["net"]().to(dtype)
    net.load_state_dict(state)
    loss = how["torch"](net, *[x.to(dtype) if x.is_floating_point() else x for x in inputs])
    loss.backward()
    return loss.item(), {k: p.grad.double() for k, p in net.named_parameters()}, net.state_dict()


def text(how):
    job = JOB.format(file=how["file"], model=how["model"], loss=how["loss"], count=COUNT, rate=RATE,
                     fields="\n".join(declared(*field) for field in how["fields"]))
    return job.replace("as m\n", 'as m\nimport "std/models/mlp.ddp" as mlp\n') if "mlp." in how["model"] else job


def check(name):
    how = MODELS[name]
    torch.manual_seed(1)
    start = how["net"]().state_dict()
    table, inputs = rows(how["fields"])
    with Folder() as f:
        save_file(start, f.file("start.safetensors"))
        with open(f.file("rows.csv"), "w") as out:
            out.writelines(",".join(map(str, row)) + "\n" for row in table)
        with open(f.file("job.ddp"), "w") as out:
            out.write(text(how))
        binary = f.compile(f.file("job.ddp"), "train")
        _, log = f.train(binary, "out", flags=["--init_from", f.file("start.safetensors"), "--logging_steps", "1"])
        end = load_file(f.file("out/model.safetensors"))
    expect(sorted(end) == sorted(start), f"other names: {sorted(set(end) ^ set(start))}")
    loss, theirs, state = gradients(how, start, inputs, torch.float32)
    _, exact, _ = gradients(how, start, inputs, torch.float64)
    got = losses(log)[0]
    expect(abs(got - loss) <= 1e-5 * abs(loss), f"a loss of {got}, PyTorch has {loss}")
    floor = 1e-3 * max(g.norm() for g in exact.values())
    worst = own = 0.0
    for key, want in exact.items():
        mine = (start[key].double() - end[key].double()) / RATE
        scale = max(want.norm(), floor)
        error, other = ((mine - want).norm() / scale).item(), ((theirs[key] - want).norm() / scale).item()
        worst, own = max(worst, error), max(own, other)
        expect(error <= max(1e-5, FACTOR * other), f"gradient of {key} is {error:.2g} off, PyTorch's {other:.2g}")
    for key in set(start) - set(exact):
        off = (end[key].double() - state[key].double()).norm() / state[key].double().norm()
        expect(off <= 1e-5, f"{key} is {off:.2g} off")
    print(f"{name}: loss {got:.6f}, {abs(got / loss - 1):.1e} from PyTorch's; {len(exact)} gradients within {worst:.1e}"
          f" of float64's (PyTorch's own {own:.1e})")


if __name__ == "__main__":
    main({name: lambda name=name: check(name) for name in MODELS})
