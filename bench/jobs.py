"""The jobs of bench/compare: one row each, read by bench/compare and by bench/peer.py.

JOBS[name] = (job file, data, torch)
    job file  of ddpc; a file of bench/jobs is copied to a folder of its own, and `data(folder)` writes the data
              beside it (synthetic, the same bytes each time)
    torch     torch(folder): the same job in PyTorch as a dict; imports torch, so bench/compare does without

The dict: net (a class or function without arguments), x and y (all samples), loss(net, x, y) (a mean),
batch, optimizer(params, lr), lr, schedule, warmup, and clip where gradients are clipped. Losses of both are compared, so draws, order of samples and
updates must be the same."""
import os
import random
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tests", "parity"))


# ---------- idx files of unsigned bytes ----------
def write_idx(path, shape, data):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + data)


def read_idx(path):
    import torch
    with open(path, "rb") as f:
        raw = f.read()
    rank = raw[3]
    shape = struct.unpack(f">{rank}I", raw[4:4 + 4 * rank])
    return torch.frombuffer(bytearray(raw[4 + 4 * rank:]), dtype=torch.uint8).reshape(shape)


def random_bytes(n, below=256, seed=0):
    raw = random.Random(seed).randbytes(n)
    return raw if below == 256 else bytes(b % below for b in raw)


# ---------- decoders ----------
def gpt_data(name, rows, context):
    def write(folder):
        write_idx(os.path.join(folder, f"{name}.tokens"), (rows, context + 1), random_bytes(rows * (context + 1), 65))
    return write


def gpt_net(vocabulary, context, layers, width, heads):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (p.view(b, t, heads, width // heads).transpose(1, 2) for p in self.qkv(x).split(width, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.o(y.transpose(1, 2).reshape(b, t, width))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.attn, self.ln2 = nn.LayerNorm(width), Attention(), nn.LayerNorm(width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            x = x + self.attn(self.ln1(x))
            return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.ln = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x):
            return self.head(self.ln(self.blocks(self.tokens(x) + self.positions(torch.arange(context, device=x.device)))))

    return GPT


def gpt(name, vocabulary, context, layers, width, heads, batch):
    def job(folder):
        import torch
        import torch.nn.functional as F
        from torch_ddp import linear
        table = read_idx(os.path.join(folder, f"{name}.tokens")).long()
        return dict(net=gpt_net(vocabulary, context, layers, width, heads), x=table[:, :-1], y=table[:, 1:], batch=batch,
                    lr=3e-4, schedule=linear, warmup=0,
                    loss=lambda net, x, y: F.cross_entropy(net(x).view(-1, vocabulary), y.reshape(-1)),
                    optimizer=lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=0.0, fused=True))
    return job


# ---------- taggers ----------
def lstm_data(rows, length, words, tags):
    def write(folder):
        r = random.Random(1)
        table = [r.randrange(words) for _ in range(rows * length)]
        with open(os.path.join(folder, "lstm.words"), "wb") as f:  # idx of big-endian int32
            f.write(bytes([0, 0, 12, 2]) + struct.pack(f">2I{len(table)}i", rows, length, *table))
        write_idx(os.path.join(folder, "lstm.tags"), (rows, length), bytes(w % tags for w in table))
    return write


def lstm(words, width, hidden, tags, batch):
    def job(folder):
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from torch_ddp import linear

        class Tagger(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.rnn = nn.Embedding(words, width), nn.LSTM(width, hidden, batch_first=True)
                self.tags = nn.Linear(hidden, tags)

            def forward(self, x):
                return self.tags(self.rnn(self.words(x))[0])

        y = read_idx(os.path.join(folder, "lstm.tags")).long()
        with open(os.path.join(folder, "lstm.words"), "rb") as f:
            raw = f.read()[12:]
        x = torch.tensor(struct.unpack(f">{len(raw) // 4}i", raw)).reshape(y.shape)
        return dict(net=Tagger, x=x, y=y, batch=batch, lr=1e-3, schedule=linear, warmup=0,
                    loss=lambda net, x, y: F.cross_entropy(net(x).view(-1, tags), y.reshape(-1)),
                    optimizer=lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=0.0, fused=True))
    return job


# ---------- convolutional networks ----------
def image_data(name, rows, channels, size):
    def write(folder):
        write_idx(os.path.join(folder, f"{name}.images"), (rows, channels, size, size),
                  random_bytes(rows * channels * size * size))
        write_idx(os.path.join(folder, f"{name}.labels"), (rows,), random_bytes(rows, 10, seed=1))
    return write


def lenet_net():
    import torch.nn as nn
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10))


def resnet18_net():
    import torch.nn as nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
            self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
            self.short = nn.Identity()
            if stride != 1 or i != o:
                self.short = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

        def forward(self, x):
            return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.short(x))

    sizes = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
             (512, 512, 1))
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *[Block(*s) for s in sizes],
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def images(name, net, batch, lr):
    def job(folder):
        import torch
        import torch.nn.functional as F
        from torch_ddp import linear
        x = read_idx(os.path.join(folder, f"{name}.images")).float() / 255
        return dict(net=net, x=x, y=read_idx(os.path.join(folder, f"{name}.labels")).long(), batch=batch, lr=lr,
                    schedule=linear, warmup=0, loss=lambda net, x, y: F.cross_entropy(net(x), y),
                    optimizer=lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9))
    return job


# ---------- examples ----------
def char_gpt(folder, vocabulary=65, context=64, layers=4, width=128, heads=4):
    """nanoGPT's model in its setting for CPUs, on the text of the example."""
    import gzip
    import math
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (p.view(b, t, heads, width // heads).transpose(1, 2) for p in self.c_attn(x).split(width, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(b, t, width))

    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_fc, self.c_proj = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

        def forward(self, x):
            return self.c_proj(F.gelu(self.c_fc(x)))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn = nn.LayerNorm(width, bias=False), Attention()
            self.ln_2, self.mlp = nn.LayerNorm(width, bias=False), MLP()

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.h = nn.Sequential(*[Block() for _ in range(layers)])
            self.ln_f = nn.LayerNorm(width, bias=False)
            for name, p in self.named_parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)
                if name.endswith("c_proj.weight"):
                    nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers))
            self.lm_head = nn.Linear(width, vocabulary, bias=False)
            self.lm_head.weight = self.wte.weight

        def forward(self, x):
            return self.lm_head(self.ln_f(self.h(self.wte(x) + self.wpe(torch.arange(context)))))

    def optimizer(params, lr):
        params = list(params)
        return torch.optim.AdamW([dict(params=[p for p in params if p.dim() > 1], weight_decay=0.1),
                                  dict(params=[p for p in params if p.dim() < 2], weight_decay=0.0)],
                                 lr, betas=(0.9, 0.99), fused=True)

    def schedule(step, warmup, total, least=0.1):
        if step < warmup:
            return step / max(1, warmup)
        half = 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))
        return max(0.0, half * (1 - least) + least)

    with gzip.open(os.path.join(ROOT, "examples/char_gpt/tinyshakespeare.txt.gz"), "rt") as f:
        text = f.read()
    place = {c: i for i, c in enumerate(sorted(set(text)))}
    data = torch.tensor([place[c] for c in text[:int(0.9 * len(text))]])
    samples = data.unfold(0, context + 1, 1)
    return dict(net=GPT, x=samples[:, :-1], y=samples[:, 1:], batch=6, lr=1e-3, schedule=schedule, warmup=100, clip=1.0,
                loss=lambda net, x, y: F.cross_entropy(net(x).view(-1, vocabulary), y.reshape(-1)), optimizer=optimizer)


def example(name):
    def job(folder):
        import torch.nn.functional as F
        import torch_ddp
        return dict(torch_ddp.JOBS[name](), loss=lambda net, x, y: F.cross_entropy(net(x), y))
    return job


JOBS = {
    "char_gpt": ("examples/char_gpt/job.ddp", None, char_gpt),
    "mnist": ("examples/mnist/job.ddp", None, example("mnist")),
    "nanogpt": ("bench/jobs/nanogpt.ddp", gpt_data("nanogpt", 4000, 64), gpt("nanogpt", 65, 64, 4, 128, 4, 12)),
    "babygpt": ("bench/jobs/babygpt.ddp", gpt_data("babygpt", 1000, 256), gpt("babygpt", 65, 256, 6, 384, 6, 8)),
    "lstm": ("bench/jobs/lstm.ddp", lstm_data(4000, 64, 8000, 20), lstm(8000, 128, 256, 20, 32)),
    "lenet": ("bench/jobs/lenet.ddp", image_data("lenet", 4000, 1, 28), images("lenet", lenet_net, 64, 0.01)),
    "resnet18": ("bench/jobs/resnet18.ddp", image_data("resnet18", 1000, 3, 32), images("resnet18", resnet18_net, 32, 1e-4)),
}
