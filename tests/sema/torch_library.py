"""Writes cases/torch.ddp and cases/torch.out: functions of the library, their numbers from PyTorch.

Inputs as sema_dump's `run` fills them, in double. Needs torch; run from tests/sema after a change.
"""
import math
import torch
import torch.nn.functional as F

B = 4
K = iter(range(100))
HEAD = []


def tensor(name, *shape, dtype=torch.float64):
    k = next(K)
    n = math.prod(shape)
    kind = "f32" if dtype == torch.float64 else "i64"
    dims = ",".join(["B"] + [str(d) for d in shape[1:]]) if shape[0] == B else ",".join(map(str, shape))
    HEAD.append(f"# input {name} {kind}[{dims}]")
    if dtype == torch.float64:
        v = [2 * math.sin(1.3 * j + 0.7 * k) for j in range(n)]
    else:
        v = [(7 * j + k) % 5 for j in range(n)]
    return torch.tensor(v, dtype=dtype).reshape(shape)


x, y = tensor("x", B, 5), tensor("y", B, 5)
t = tensor("label", B, dtype=torch.int64)
w, s = tensor("w", 5), tensor("s", B, 3, 5)
p, q = torch.sigmoid(x), torch.softmax(y, 1)

CASES = [
    ("cross_entropy(x, label)", F.cross_entropy(x, t)),
    ("cross_entropy(x, label, label_smoothing = 0.1)", F.cross_entropy(x, t, label_smoothing=0.1)),
    ("cross_entropy(x, label, weight = w * w)", F.cross_entropy(x, t, weight=w * w)),
    ("cross_entropy(x, label, weight = w * w, label_smoothing = 0.2)",
     F.cross_entropy(x, t, weight=w * w, label_smoothing=0.2)),
    ("cross_entropy(x, label, ignore_index = 2)", F.cross_entropy(x, t, ignore_index=2)),
    ('cross_entropy(x, label, reduction = "none")', F.cross_entropy(x, t, reduction="none")),
    ("nll_loss(log_softmax(x), label)", F.nll_loss(F.log_softmax(x, -1), t)),
    ("mse_loss(x, y)", F.mse_loss(x, y)),
    ("l1_loss(x, y)", F.l1_loss(x, y)),
    ("smooth_l1_loss(x, y, beta = 0.7)", F.smooth_l1_loss(x, y, beta=0.7)),
    ("huber_loss(x, y, delta = 0.7)", F.huber_loss(x, y, delta=0.7)),
    ("bce_with_logits(x, sigmoid(y))", F.binary_cross_entropy_with_logits(x, torch.sigmoid(y))),
    ("bce_with_logits(x, sigmoid(y), pos_weight = 3.0)",
     F.binary_cross_entropy_with_logits(x, torch.sigmoid(y), pos_weight=torch.tensor(3.0))),
    ("kl_div(log_softmax(x), softmax(y))",
     F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean")),
    ("cosine_similarity(x, y)", F.cosine_similarity(x, y, dim=-1)),
    ("triplet_margin_loss(x, y, -x)", F.triplet_margin_loss(x, y, -x)),
    ("relu(x)", F.relu(x)), ("relu6(3 * x)", F.relu6(3 * x)), ("elu(x)", F.elu(x)),
    ("leaky_relu(x)", F.leaky_relu(x)), ("sigmoid(x)", torch.sigmoid(x)), ("silu(x)", F.silu(x)),
    ("softplus(x)", F.softplus(x)), ("log_sigmoid(x)", F.logsigmoid(x)), ("mish(x)", F.mish(x)),
    ("hardsigmoid(2 * x)", F.hardsigmoid(2 * x)), ("hardswish(2 * x)", F.hardswish(2 * x)),
    ("gelu(x)", F.gelu(x)), ('gelu(x, approximate = "tanh")', F.gelu(x, approximate="tanh")),
    ("glu(x[:, :4])", F.glu(x[:, :4])), ("softmax(x)", F.softmax(x, -1)),
    ("softmax(x, 0)", F.softmax(x, 0)), ("log_softmax(x)", F.log_softmax(x, -1)),
    ("mean(x, 0)", x.mean(0)), ("var(x, 1)", x.var(1)), ("std(x)", x.std()),
    ("var(x, [0, 1], correction = 0)", x.var((0, 1), correction=0)),
    ("norm(x)", torch.linalg.vector_norm(x)),
    ("norm(x, 3.0, dim = 1)", torch.linalg.vector_norm(x, 3, dim=1)),
    ("normalize_p(x)", F.normalize(x)), ("logsumexp(x, 0)", torch.logsumexp(x, 0)),
    ("layer_norm(s, [3, 5])", F.layer_norm(s, [3, 5])), ("layer_norm(x, 5, w)", F.layer_norm(x, [5], w)),
    ("rms_norm(x, w)", F.rms_norm(x, [5], w, 1e-6)),
    ("linear(s, x)", F.linear(s, x)),
    ("s @ t(x)", s @ x.T), ("transpose(s, -1, 1)", s.transpose(-1, 1)),
    ("flatten(s, 1)", s.flatten(1)), ("repeat_interleave(x, 2, 1)", x.repeat_interleave(2, 1)),
    ("chunk(x, 2, 1)", torch.cat([c.flatten() for c in x.chunk(2, 1)])),
    ("x[:, ::2]", x[:, ::2]), ("x[:, ::-1]", x.flip(1)), ("s[:, -1, 1:3]", s[:, -1, 1:3]),
    ("stack([x, y], 1)", torch.stack([x, y], 1)), ("concat([x, y], 1)", torch.cat([x, y], 1)),
    ("one_hot(label, 5)", F.one_hot(t, 5)), ("argmax(x, 1)", x.argmax(1)), ("amin(x, 0)", x.amin(0)),
    ("x // 0.7", x // 0.7), ("x % 0.7", x % 0.7), ("label // -2", t // -2), ("label % -3", t % -3),
    ("label / 2", t / 2), ("sum(x > 0)", (x > 0).sum()), ("where(x > y, x, 0.0)", torch.where(x > y, x, 0.0)),
    ("clamp(x, -0.5, 1.0)", x.clamp(-0.5, 1.0)), ("round(x)", x.round()), ("abs(x) ** 1.5", x.abs() ** 1.5),
    ("attention(s[:, none], s[:, none] * 0.5, -s[:, none], causal = true)",
     F.scaled_dot_product_attention(s[:, None], s[:, None] * 0.5, -s[:, None], is_causal=True)),
    ("attention(s[:, none], s[:, none], s[:, none])",
     F.scaled_dot_product_attention(s[:, None], s[:, None], s[:, None])),
    ("accuracy(x, label)", (x.argmax(1) == t).double().mean()),
]



def write(file, title, cases):
    with open(f"cases/{file}.ddp", "w") as f:
        f.write(f"edition 1\n\n# {title} against PyTorch. Written by torch_library.py.\n\n")
        f.write("\n".join(HEAD + [f"# run {name}" for name, _ in cases]) + "\n")
    with open(f"cases/{file}.out", "w") as f:
        for name, value in cases:
            numbers = " ".join(f"{v:.5g}" for v in (value.double() + 0.0).flatten().tolist())
            f.write(f"{name}: {numbers}\n")


write("torch", "Functions of the library", CASES)

HEAD.clear()
K = iter(range(100))
image, seq = tensor("image", B, 2, 4, 5), tensor("seq", B, 3, 2)
f, up = tensor("filter", 6, 1, 3, 2), tensor("up", 2, 3, 2, 2)
h, c = tensor("h", B, 3), tensor("c", B, 3)
STEPS = "transpose(seq, 0, 1)"


def recurrent(kind, gates, function, states):
    """Outputs and last states of one layer, and the cases that give them here."""
    layer = kind(2, 3).double()
    names = [f"{kind.__name__.lower()}_{n}" for n in ("wi", "wh", "bi", "bh")]
    shapes = [(gates, 2), (gates, 3), (gates,), (gates,)]
    with torch.no_grad():
        for parameter, name, shape in zip(layer.parameters(), names, shapes):
            parameter.copy_(tensor(name, *shape))
        start = [v[None] for v in (h, c)[:states]]
        y, last = layer(seq.transpose(0, 1), start[0] if states == 1 else tuple(start))
    last = [last] if states == 1 else last
    call = f"{function}({STEPS}, {', '.join('hc'[:states])}, {', '.join(names)})"
    return [(f"{call}[{i}]", v) for i, v in enumerate([y, *[v[0] for v in last]])]


CASES = [
    ("conv(image, filter, [1, 1], [0, 0], [1, 1], 2)", F.conv2d(image, f, groups=2)),
    ("conv(image, filter, stride = [2, 1], padding = [1, 2], dilation = [1, 3], groups = 2)",
     F.conv2d(image, f, None, (2, 1), (1, 2), (1, 3), 2)),
    ("conv_transpose(image, up, [2, 2], [1, 0], [1, 0])",
     F.conv_transpose2d(image, up, None, 2, (1, 0), (1, 0))),
    ("max_pool2d(image, 2, padding = 1)", F.max_pool2d(image, 2, padding=1)),
    ("avg_pool2d(image, 3, 1, 1)", F.avg_pool2d(image, 3, 1, 1)),
    ("adaptive_avg_pool2d(image, [2, 1])", F.adaptive_avg_pool2d(image, (2, 1))),
    ("max_pool2d(image, [3, 2], [2, 2], [1, 1], [1, 2], true)",
     F.max_pool2d(image, (3, 2), 2, 1, (1, 2), True)),
    ("avg_pool2d(image, 3, 2, 1, ceil_mode = true, count_include_pad = false)",
     F.avg_pool2d(image, 3, 2, 1, True, False)),
    ("avg_pool2d(image, 2, divisor_override = 3)", F.avg_pool2d(image, 2, divisor_override=3)),
    ("adaptive_avg_pool2d(image, [3, 3])", F.adaptive_avg_pool2d(image, (3, 3))),
    ("adaptive_max_pool2d(image, [3, 3])", F.adaptive_max_pool2d(image, (3, 3))),
    ("max_pool1d(seq, 2, 1)", F.max_pool1d(seq, 2, 1)), ("avg_pool1d(seq, 2, 1, 1)", F.avg_pool1d(seq, 2, 1, 1)),
    ("upsample2d(image[:, :, :2, :2], 2)", F.interpolate(image[:, :, :2, :2], scale_factor=2)),
    ("topk(seq, 2)[0]", seq.topk(2)[0]), ("topk(seq, 2, largest = false)[1]", seq.topk(2, largest=False)[1]),
    ("sort(seq, 1, descending = true)[0]", seq.sort(1, descending=True)[0]),
    ("argsort(image, 3)", image.argsort(3)), ("cumsum(seq, 1)", seq.cumsum(1)),
    ("pad(seq, [1, 2, 0, 1], -1.5)", F.pad(seq, [1, 2, 0, 1], value=-1.5)),
    *recurrent(torch.nn.LSTM, 12, "lstm_layer", 2),
    *recurrent(torch.nn.GRU, 9, "gru_layer", 1),
    *recurrent(torch.nn.RNN, 3, "rnn_layer", 1),
]
write("torch_layers", "Convolution, pooling, order and recurrent layers", CASES)
