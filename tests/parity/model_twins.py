"""The models of models/*.ddp in PyTorch: from transformers and torchvision where these have them, the same
modules written here where not. torch_ddp.py trains them; a job here is what one is there."""
import csv
import os
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

MASKED = -100


def read_idx(path):
    with open(path, "rb") as f:
        rank = f.read(4)[3]
        shape = struct.unpack(f">{rank}I", f.read(4 * rank))
        return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8).reshape(shape)


def read_csv(path):
    with open(path) as f:
        return torch.tensor([[int(v) for v in row] for row in csv.reader(f)])


def double_conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class Up(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(cin, cout, 2, stride=2), double_conv(2 * cout, cout)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], 1))


class UNet(nn.Module):
    def __init__(self, cin, classes, width, depth):
        super().__init__()
        self.inc = double_conv(cin, width)
        self.down = nn.ModuleList(double_conv(width * 2 ** i, width * 2 ** (i + 1)) for i in range(depth))
        self.up = nn.ModuleList(Up(width * 2 ** (depth - i), width * 2 ** (depth - i - 1)) for i in range(depth))
        self.outc = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = [self.inc(x)]
        for conv in self.down:
            skips.append(conv(F.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for block in self.up:
            x = block(x, skips.pop())
        return self.outc(x)


class LSTMTagger(nn.Module):
    def __init__(self, vocabulary, width, hidden, tags, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=True)
        self.hidden2tag = nn.Linear(2 * hidden, tags)

    def forward(self, words):
        return self.hidden2tag(self.lstm(self.embedding(words))[0])


def sgd(groups, lr):
    return torch.optim.SGD(groups, lr, momentum=0.9)


def adamw(groups, lr):
    return torch.optim.AdamW(groups, lr, fused=True)


def job(net, x, y, loss, items=None, **how):
    """`x`: tensors, what the model takes; `loss`: a sum over the samples of one micro-batch; `items`: how many
    terms the loss of each sample has."""
    if items is None:
        items = torch.ones(len(y))
    return dict(dict(net=net, x=x, y=y, count=len(y), items=lambda rows: items[rows].sum(), batch=8, clip=1.0, decay=0.0,
                     loss=lambda model, rows: loss(model(*[t[rows] for t in x]), y[rows])), **how)


def labels_loss(out, y, dim=1, ignore=MASKED):
    return F.cross_entropy(out if dim == 1 else out.transpose(1, dim), y, ignore_index=ignore, reduction="sum")


def images(folder):
    return read_idx(os.path.join(folder, "image.idx")).float() / 255 - 0.5, \
        read_idx(os.path.join(folder, "label.idx")).long()


def next_tokens(net, folder, **how):
    """A decoder of transformers: position t predicts label t + 1."""
    table = read_csv(os.path.join(folder, "tokens.csv"))
    labels = table[:, 24:]
    return job(net, [table[:, :24]], labels, lambda out, y: labels_loss(out.logits[:, :-1], y[:, 1:], dim=2),
               (labels[:, 1:] != MASKED).sum(1), optimizer=adamw, lr=1e-3, decay=0.1, schedule="cosine", warmup=10,
               **how)


def resnet18(folder):
    import torchvision
    x, y = images(folder)
    return job(lambda: torchvision.models.resnet18(num_classes=10), [x], y, labels_loss, optimizer=sgd, lr=1e-3,
               decay=1e-4, schedule="constant", warmup=0, clip=0.1)


def gpt2(folder):
    import transformers as t
    config = t.GPT2Config(vocab_size=100, n_positions=32, n_embd=64, n_layer=4, n_head=4, resid_pdrop=0.0,
                          embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=None, eos_token_id=None)
    return next_tokens(lambda: t.GPT2LMHeadModel(config), folder)


def llama(folder):
    import transformers as t
    config = t.LlamaConfig(vocab_size=100, hidden_size=64, intermediate_size=160, num_hidden_layers=2,
                           num_attention_heads=4, num_key_value_heads=2, use_cache=False)
    return next_tokens(lambda: t.LlamaForCausalLM(config), folder)


def bert(folder):
    import transformers as t
    config = t.BertConfig(vocab_size=100, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                          intermediate_size=96, max_position_embeddings=32, hidden_dropout_prob=0.0,
                          attention_probs_dropout_prob=0.0, num_labels=3)
    table = read_csv(os.path.join(folder, "sentences.csv"))
    return job(lambda: t.BertForSequenceClassification(config), [table[:, :16], table[:, 16:32], table[:, 32:48]],
               table[:, 48], lambda out, y: labels_loss(out.logits, y), optimizer=adamw, lr=5e-4, decay=0.01,
               schedule="linear", warmup=10)


def vit(folder):
    import transformers as t
    config = t.ViTConfig(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=192,
                         image_size=32, patch_size=8, num_labels=10)
    x, y = images(folder)
    return job(lambda: t.ViTForImageClassification(config), [x], y, lambda out, y: labels_loss(out.logits, y),
               optimizer=adamw, lr=5e-4, decay=0.05, schedule="cosine", warmup=10)


def unet(folder):
    y = read_idx(os.path.join(folder, "mask.idx")).long()
    return job(lambda: UNet(1, 3, 8, 2), [read_idx(os.path.join(folder, "small.idx")).float() / 255 - 0.5], y,
               lambda out, y: labels_loss(out, y, ignore=255), (y != 255).sum((1, 2)), optimizer=sgd, lr=0.01,
               schedule="constant", warmup=0)


def lstm_tagger(folder):
    table = read_csv(os.path.join(folder, "tags.csv"))
    y = table[:, 12:]
    return job(lambda: LSTMTagger(60, 24, 32, 7, 2), [table[:, :12]], y,
               lambda out, y: labels_loss(out, y, dim=2), (y != MASKED).sum(1), optimizer=adamw, lr=2e-3,
               schedule="linear", warmup=10)


MODELS = dict(resnet18=resnet18, gpt2=gpt2, bert=bert, llama=llama, vit=vit, unet=unet, lstm_tagger=lstm_tagger)
