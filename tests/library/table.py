"""The library, definition by definition, with PyTorch's counterpart and variants of the arguments. library.py fails for a
definition of stdlib/*.ddp (those visible in every job) that has no row here, and for a row that names none."""

import torch
import torch.nn.functional as F
from harness import B, Case
from torch import nn



def values(*shape):
    return torch.randn(shape)


def positive(*shape):
    return torch.rand(shape) + 0.2


def whole(high, *shape):
    return torch.randint(0, high, shape)


def signs(*shape):
    return torch.randint(0, 2, shape).float() * 2 - 1


def probabilities(*shape):
    return torch.rand(shape) * 0.9 + 0.05


CASES = []


def averaging(module, batches=4):
    """The statistics of a norm that is so far the mean over this many batches."""
    module.momentum = None
    module.num_batches_tracked.fill_(batches)
    return module


def case(name, call, torch_function, *inputs, **more):
    CASES.append(Case(name, call, torch_function, list(inputs), **more))


def layer(name, text, module, *inputs, call=None, torch_call=None, **more):
    """A module: `layer` applied to the inputs, in both. names: ours for PyTorch's where they differ."""
    n = ", ".join("abcdefgh"[: len(inputs)])
    CASES.append(Case(name, call or f"layer({n})", torch_call or (lambda m, *x: m(*x)), list(inputs), layer=text,
                      module=module, **more))


# ---------- prelude: shapes ----------
x3 = lambda: values(B, 3, 5)
case("t", "t(a)", lambda a: a.T, values(3, 5), batched=False)
case("zeros_like", "zeros_like(a) + a", lambda a: torch.zeros_like(a) + a, x3())
case("ones_like", "ones_like(a) * a", lambda a: torch.ones_like(a) * a, x3())
case("squeeze", "squeeze(a, 1)", lambda a: a.squeeze(1), values(B, 1, 5))
case("squeeze", "squeeze(a, -1)", lambda a: a.squeeze(-1), values(B, 3, 1))
case("unsqueeze", "unsqueeze(a, 1)", lambda a: a.unsqueeze(1), x3())
case("unsqueeze", "unsqueeze(a, -1)", lambda a: a.unsqueeze(-1), x3())
case("flatten", "flatten(a, 1)", lambda a: a.flatten(1), values(B, 2, 3, 2))
case("flatten", "flatten(a, 1, 2)", lambda a: a.flatten(1, 2), values(B, 2, 3, 2))
case("unflatten", "unflatten(a, 1, [2, 3])", lambda a: a.unflatten(1, (2, 3)), values(B, 6, 2))
case("pixel_shuffle", "pixel_shuffle(a, 2)", lambda a: F.pixel_shuffle(a, 2), values(B, 8, 3, 2))
case("pixel_unshuffle", "pixel_unshuffle(a, 2)", lambda a: F.pixel_unshuffle(a, 2), values(B, 2, 4, 6))
case("along", "along(a, 1, 3) * b", lambda a, b: a[:, None] * b, values(3), values(B, 3, 5))
case("repeat_interleave", "repeat_interleave(a, 3, 1)", lambda a: a.repeat_interleave(3, 1), x3())
case("one_hot", "cast(one_hot(a, 5), float) * b", lambda a, b: F.one_hot(a, 5).to(b) * b, whole(5, B, 3), values(B, 3, 5))

# ---------- prelude: reductions ----------
case("count", "sum(a, 1) / count(a, 1)", lambda a: a.mean(1), x3())
case("mean", "mean(a, 1)", lambda a: a.mean(1), x3())
case("mean", "mean(a, [1, 2], keepdim = true)", lambda a: a.mean((1, 2), keepdim=True), x3())
case("mean", "mean(a, 0)", lambda a: a.mean(0), x3(), batched=False)
case("var", "var(a, 1)", lambda a: a.var(1), x3())
case("var", "var(a, [0, 2], correction = 0, keepdim = true)", lambda a: a.var((0, 2), correction=0, keepdim=True), x3(),
     batched=False)
case("std", "std(a, -1)", lambda a: a.std(-1), x3())
case("std", "std(a, 1, correction = 0)", lambda a: a.std(1, correction=0), x3())
case("norm", "norm(a, dim = 1)", lambda a: torch.linalg.vector_norm(a, dim=1), x3())
case("norm", "norm(a, 3.0, dim = [1, 2], keepdim = true)",
     lambda a: torch.linalg.vector_norm(a, 3, dim=(1, 2), keepdim=True), x3())
case("norm", "norm(a)", torch.linalg.vector_norm, values(3, 5), batched=False)
case("masked_mean", "masked_mean(a, b)", lambda a, b: a[b].mean(), values(3, 5), torch.rand(3, 5) < 0.5, batched=False)
case("normalize_p", "normalize_p(a)", F.normalize, x3())
case("normalize_p", "normalize_p(a, 3.0, 2)", lambda a: F.normalize(a, 3, 2), x3())

# ---------- activations ----------
PLAIN = {
    "relu": (F.relu, "ReLU"), "relu6": (F.relu6, "ReLU6"), "sigmoid": (torch.sigmoid, "Sigmoid"), "silu": (F.silu, "SiLU"),
    "log_sigmoid": (F.logsigmoid, "LogSigmoid"), "mish": (F.mish, "Mish"), "hardsigmoid": (F.hardsigmoid, "Hardsigmoid"),
    "hardswish": (F.hardswish, "Hardswish"), "selu": (F.selu, "SELU"), "softsign": (F.softsign, "Softsign"),
    "tanhshrink": (F.tanhshrink, "Tanhshrink"), "tanh": (torch.tanh, "Tanh"),
}  # fmt: skip
for name, (f, kind) in PLAIN.items():
    if name != "tanh":
        case(name, f"{name}(4 * a)", lambda a, f=f: f(4 * a), x3())
    layer(kind, f"{kind}()", getattr(nn, kind), 3 * x3())
case("clamp", "clamp(a, -0.5, 0.8)", lambda a: a.clamp(-0.5, 0.8), x3())
case("clamp", "clamp(a, max = 0.3)", lambda a: a.clamp(max=0.3), x3())
case("leaky_relu", "leaky_relu(a, 0.2)", lambda a: F.leaky_relu(a, 0.2), x3())
case("elu", "elu(a)", F.elu, x3())
case("elu", "elu(a, 1.7)", lambda a: F.elu(a, 1.7), x3())
case("celu", "celu(a, 0.6)", lambda a: F.celu(a, 0.6), x3())
case("hardtanh", "hardtanh(a, -0.4, 0.9)", lambda a: F.hardtanh(a, -0.4, 0.9), x3())
case("softplus", "softplus(6 * a)", lambda a: F.softplus(6 * a), x3())
case("softplus", "softplus(a, 2.0, 3.0)", lambda a: F.softplus(a, 2.0, 3.0), 2 * x3())
case("softshrink", "softshrink(a, 0.4)", lambda a: F.softshrink(a, 0.4), x3())
case("hardshrink", "hardshrink(a, 0.4)", lambda a: F.hardshrink(a, 0.4), x3())
case("threshold", "threshold(a, 0.2, -3.0)", lambda a: F.threshold(a, 0.2, -3.0), x3())
case("gelu", "gelu(a)", F.gelu, 2 * x3())
case("gelu", 'gelu(a, "tanh")', lambda a: F.gelu(a, approximate="tanh"), 2 * x3())
case("gelu_new", "gelu_new(a)", lambda a: F.gelu(a, approximate="tanh"), 2 * x3())
case("glu", "glu(a)", F.glu, values(B, 3, 6))
case("glu", "glu(a, 1)", lambda a: F.glu(a, 1), values(B, 4, 5))
case("softmax", "softmax(a)", lambda a: F.softmax(a, -1), 3 * x3())
case("softmax", "softmax(a, 1)", lambda a: F.softmax(a, 1), 3 * x3())
case("softmin", "softmin(a, 1)", lambda a: F.softmin(a, 1), 3 * x3())
case("log_softmax", "log_softmax(a)", lambda a: F.log_softmax(a, -1), 3 * x3())
case("log_softmax", "log_softmax(a, 1)", lambda a: F.log_softmax(a, 1), 3 * x3())
layer("GELU", "GELU()", nn.GELU, x3())
layer("GELU", 'GELU("tanh")', lambda: nn.GELU("tanh"), x3())
layer("LeakyReLU", "LeakyReLU(0.3)", lambda: nn.LeakyReLU(0.3), x3())
layer("ELU", "ELU(0.7)", lambda: nn.ELU(0.7), x3())
layer("CELU", "CELU(0.7)", lambda: nn.CELU(0.7), x3())
layer("Hardtanh", "Hardtanh(-2.0, 0.5)", lambda: nn.Hardtanh(-2.0, 0.5), x3())
layer("Softplus", "Softplus(1.5)", lambda: nn.Softplus(1.5), x3())
layer("Softshrink", "Softshrink(0.3)", lambda: nn.Softshrink(0.3), x3())
layer("Hardshrink", "Hardshrink(0.3)", lambda: nn.Hardshrink(0.3), x3())
layer("Threshold", "Threshold(0.1, 2.0)", lambda: nn.Threshold(0.1, 2.0), x3())
layer("GLU", "GLU(1)", lambda: nn.GLU(1), values(B, 4, 5))
layer("Softmax", "Softmax(1)", lambda: nn.Softmax(1), x3())
layer("Softmin", "Softmin(-1)", lambda: nn.Softmin(-1), x3())
layer("LogSoftmax", "LogSoftmax(1)", lambda: nn.LogSoftmax(1), x3())
layer("PReLU", "PReLU()", nn.PReLU, x3())
layer("PReLU", "PReLU(3, 0.1)", lambda: nn.PReLU(3, 0.1), x3())
layer("Apply", "Apply(relu6)", nn.ReLU6, 4 * x3())

# ---------- layers as functions ----------
case("linear", "linear(a, b, c)", F.linear, values(B, 3, 5), values(6, 5), values(6))
case("linear", "linear(a, b)", F.linear, values(B, 5), values(2, 5))
case("embedding", "embedding(a, b)", F.embedding, whole(7, B, 3), values(7, 5))
case("dropout", "dropout(a, 0.0)", lambda a: a, x3())
case("dropout", "dropout(a, 1.0)", lambda a: a * 0, x3(), evaluation=False)
case("dropout_channels", "dropout_channels(a, 0.0)", lambda a: a, x3())
case("drop_path", "drop_path(a, 0.0)", lambda a: a, x3())
case("layer_norm", "layer_norm(a, [5], b, c, 1e-3)", lambda a, b, c: F.layer_norm(a, (5,), b, c, 1e-3),
     x3(), values(5), values(5))
case("layer_norm", "layer_norm(a, [3, 5])", lambda a: F.layer_norm(a, (3, 5)), x3())
case("rms_norm", "rms_norm(a, b)", lambda a, b: F.rms_norm(a, (5,), b, 1e-6), x3(), values(5))
case("accuracy", "accuracy(a, b)", lambda a, b: (a.argmax(-1) == b).double().mean(), values(6, 5), whole(5, 6),
     batched=False)
case("accuracy", "accuracy(a, b, k = 2)", lambda a, b: (a.topk(2)[1] == b[:, None]).any(-1).double().mean(), values(6, 5),
     whole(5, 6), batched=False)
case("normalize", "normalize(a, [0.1, 0.2], [2.0, 3.0])",
     lambda a: (a - torch.tensor([0.1, 0.2], dtype=a.dtype)[:, None, None]) /
     torch.tensor([2.0, 3.0], dtype=a.dtype)[:, None, None], values(2, 3, 3), batched=False)

# ---------- losses: every reduction ----------
for how in ("mean", "sum", "none"):
    more = f', reduction = "{how}"'

    def r(f, **o):
        return lambda *x, f=f, o=o, how=how: f(*x, reduction=how, **o)

    # a mean over the batch is one of the whole update; here the tensors are whole
    kw = {"batched": how != "mean"}
    case("reduced", f'reduced(a, "{how}")', r(lambda a, reduction: {"mean": a.mean(), "sum": a.sum(), "none": a}[reduction]),
         x3(), **kw)
    pair = lambda: (x3(), x3())
    case("mse_loss", f"mse_loss(a, b{more})", r(F.mse_loss), *pair(), **kw)
    case("l1_loss", f"l1_loss(a, b{more})", r(F.l1_loss), *pair(), **kw)
    case("smooth_l1_loss", f"smooth_l1_loss(a, b, 0.7{more})", r(F.smooth_l1_loss, beta=0.7), *pair(), **kw)
    case("huber_loss", f"huber_loss(a, b, 0.7{more})", r(F.huber_loss, delta=0.7), *pair(), **kw)
    case("bce_with_logits", f"bce_with_logits(a, b{more})", r(F.binary_cross_entropy_with_logits), x3(),
         probabilities(B, 3, 5), **kw)
    case("bce_with_logits", f"bce_with_logits(a, b, 2.5{more})",
         r(lambda a, b, reduction: F.binary_cross_entropy_with_logits(
             a, b, pos_weight=torch.tensor(2.5, dtype=a.dtype), reduction=reduction)), x3(), probabilities(B, 3, 5), **kw)
    case("binary_cross_entropy", f"binary_cross_entropy(a, b{more})", r(F.binary_cross_entropy), probabilities(B, 3, 5),
         probabilities(B, 3, 5), **kw)
    case("kl_div", f"kl_div(log_softmax(a), b{more})",
         r(lambda a, b, reduction: F.kl_div(F.log_softmax(a, -1), b, reduction=reduction)), x3(), probabilities(B, 3, 5), **kw)
    case("gaussian_nll_loss", f"gaussian_nll_loss(a, b, c{more})", r(F.gaussian_nll_loss), x3(), x3(), positive(B, 3, 5), **kw)
    case("gaussian_nll_loss", f"gaussian_nll_loss(a, b, c, full = true, eps = 0.5{more})",
         r(F.gaussian_nll_loss, full=True, eps=0.5), x3(), x3(), positive(B, 3, 5), detached=True, **kw)
    case("poisson_nll_loss", f"poisson_nll_loss(a, b{more})", r(F.poisson_nll_loss), x3(), 4 * positive(B, 3, 5), **kw)
    case("poisson_nll_loss", f"poisson_nll_loss(a, b, log_input = false{more})", r(F.poisson_nll_loss, log_input=False),
         positive(B, 3, 5), positive(B, 3, 5), **kw)
    case("hinge_embedding_loss", f"hinge_embedding_loss(a, cast(b, float), 0.8{more})",
         r(lambda a, b, reduction: F.hinge_embedding_loss(a, b.to(a), 0.8, reduction=reduction)), x3(),
         signs(B, 3, 5).long(), **kw)
    case("soft_margin_loss", f"soft_margin_loss(a, cast(b, float){more})",
         r(lambda a, b, reduction: F.soft_margin_loss(a, b.to(a), reduction=reduction)), x3(), signs(B, 3, 5).long(), **kw)
    case("margin_ranking_loss", f"margin_ranking_loss(a, b, cast(c, float), 0.3{more})",
         r(lambda a, b, c, reduction: F.margin_ranking_loss(a, b, c.to(a), 0.3, reduction=reduction)), values(B, 3),
         values(B, 3), signs(B, 3).long(), **kw)
    case("cosine_embedding_loss", f"cosine_embedding_loss(a, b, cast(c, float), 0.1{more})",
         r(lambda a, b, c, reduction: F.cosine_embedding_loss(a, b, c.to(a), 0.1, reduction=reduction)), values(B, 5),
         values(B, 5), signs(B).long(), **kw)
    case("multi_margin_loss", f"multi_margin_loss(a, b{more})", r(F.multi_margin_loss), values(B, 5), whole(5, B), **kw)
    case("multilabel_soft_margin_loss", f"multilabel_soft_margin_loss(a, cast(b, float){more})",
         r(lambda a, b, reduction: F.multilabel_soft_margin_loss(a, b.to(a), reduction=reduction)), values(B, 5),
         whole(2, B, 5), **kw)
    case("cross_entropy", f"cross_entropy(a, b{more})", r(F.cross_entropy), 2 * values(B, 5), whole(5, B), **kw)
case("cross_entropy", "cross_entropy(a, b, dim = 1)", F.cross_entropy, values(3, 5, 2, 2), whole(5, 3, 2, 2), batched=False)
case("cross_entropy", "cross_entropy(a, b, label_smoothing = 0.1, ignore_index = 2)",
     lambda a, b: F.cross_entropy(a, b, label_smoothing=0.1, ignore_index=2), values(6, 5),
     torch.tensor([0, 2, 4, 1, 2, 3]), batched=False)
case("cross_entropy", "cross_entropy(a, b, weight = detach(c), label_smoothing = 0.2)",
     lambda a, b, c: F.cross_entropy(a, b, c.detach(), label_smoothing=0.2), values(6, 5), whole(5, 6), positive(5),
     batched=False, detached=True)
case("nll_loss", "nll_loss(log_softmax(a), b, ignore_index = 1)",
     lambda a, b: F.nll_loss(F.log_softmax(a, -1), b, ignore_index=1), values(6, 5), torch.tensor([0, 1, 4, 1, 2, 3]),
     batched=False)
case("causal_lm_loss", "causal_lm_loss(a, b)", lambda a, b: F.cross_entropy(a[:, :-1].flatten(0, 1), b[:, 1:].flatten()),
     values(3, 4, 6), whole(6, 3, 4), batched=False)
case("hf_gpt2_loss", "hf_gpt2_loss(a, b)",
     lambda a, b: F.cross_entropy(a[:, :-1].flatten(0, 1), b[:, 1:].flatten(), reduction="sum") / b.numel(),
     values(3, 4, 6), whole(6, 3, 4), batched=False)
case("kl_div", "kl_div(log_softmax(a), log_softmax(b), log_target = true)",
     lambda a, b: F.kl_div(F.log_softmax(a, -1), F.log_softmax(b, -1), log_target=True, reduction="batchmean"),
     values(3, 5), values(3, 5), batched=False)
case("poisson_nll_loss", "poisson_nll_loss(a, detach(b), full = true)",
     lambda a, b: F.poisson_nll_loss(a, b.detach(), full=True), values(3, 5), 4 * positive(3, 5), batched=False,
     detached=True)
case("multi_margin_loss", "multi_margin_loss(a, b, 2, 0.7, detach(c))",
     lambda a, b, c: F.multi_margin_loss(a, b, p=2, margin=0.7, weight=c.detach()), values(6, 5), whole(5, 6), positive(5),
     batched=False, detached=True)
case("multilabel_soft_margin_loss", "multilabel_soft_margin_loss(a, cast(b, float), detach(c))",
     lambda a, b, c: F.multilabel_soft_margin_loss(a, b.to(a), c.detach()), values(6, 5), whole(2, 6, 5), positive(5),
     batched=False, detached=True)
case("gaussian_kl", "gaussian_kl(a, b)", lambda m, v: -0.5 * (1 + v - m * m - v.exp()).sum() / m.shape[0], values(3, 5),
     values(3, 5), batched=False)
case("cosine_similarity", "cosine_similarity(a, b)", F.cosine_similarity, x3(), x3())
case("cosine_similarity", "cosine_similarity(a, b, dim = -1)", lambda a, b: F.cosine_similarity(a, b, -1), x3(), x3())
case("pairwise_distance", "pairwise_distance(a, b)", F.pairwise_distance, values(B, 5), values(B, 5))
case("pairwise_distance", "pairwise_distance(a, b, 3.0, keepdim = true)",
     lambda a, b: F.pairwise_distance(a, b, 3.0, keepdim=True), values(B, 5), values(B, 5))
case("triplet_margin_loss", "triplet_margin_loss(a, b, c, 0.9)", lambda a, b, c: F.triplet_margin_loss(a, b, c, 0.9),
     values(3, 5), values(3, 5), values(3, 5), batched=False)
case("info_nce", "info_nce(a, b, 0.2)",
     lambda a, b: (lambda s, o: (F.cross_entropy(s, o) + F.cross_entropy(s.T, o)) / 2)(
         F.normalize(a) @ F.normalize(b).T / 0.2, torch.arange(a.shape[0])), values(3, 5), values(3, 5), batched=False)
case("distillation_loss", "distillation_loss(a, b)",
     lambda a, b: 4 * F.kl_div(F.log_softmax(a / 2, -1), F.log_softmax(b.detach() / 2, -1), log_target=True,
                               reduction="batchmean"), values(3, 5), values(3, 5), batched=False, detached=True)

# ---------- nn ----------
layer("Identity", "Identity()", nn.Identity, x3())
layer("Linear", "Linear(5, 7)", lambda: nn.Linear(5, 7), x3())
layer("Linear", "Linear(5, 7, bias = false)", lambda: nn.Linear(5, 7, bias=False), values(B, 5))
layer("Bilinear", "Bilinear(3, 5, 4)", lambda: nn.Bilinear(3, 5, 4), values(B, 3), values(B, 5))
layer("Bilinear", "Bilinear(3, 5, 4, false)", lambda: nn.Bilinear(3, 5, 4, False), values(B, 3), values(B, 5))
layer("Embedding", "Embedding(7, 5)", lambda: nn.Embedding(7, 5), whole(7, B, 3))
layer("Embedding", "Embedding(7, 5, padding_idx = 2)", lambda: nn.Embedding(7, 5, padding_idx=2), whole(7, B, 6), detached=True)
for mode in ("mean", "sum", "max"):
    layer("EmbeddingBag", f'EmbeddingBag(7, 5, mode = "{mode}")', lambda mode=mode: nn.EmbeddingBag(7, 5, mode=mode),
          whole(7, B, 4))
layer("LayerNorm", "LayerNorm(5)", lambda: nn.LayerNorm(5), x3())
layer("LayerNorm", "LayerNorm([3, 5], 1e-3, bias = false)", lambda: nn.LayerNorm([3, 5], 1e-3, bias=False), x3())
layer("LayerNorm", "LayerNorm(5, elementwise_affine = false)", lambda: nn.LayerNorm(5, elementwise_affine=False), x3())
layer("RMSNorm", "RMSNorm(5)", lambda: nn.RMSNorm(5, 1e-6), x3())
layer("GroupNorm", "GroupNorm(2, 6)", lambda: nn.GroupNorm(2, 6), values(B, 6, 3, 2))
layer("GroupNorm", "GroupNorm(3, 6, 1e-3, affine = false)", lambda: nn.GroupNorm(3, 6, 1e-3, affine=False), values(B, 6, 5))
layer("InstanceNorm1d", "InstanceNorm1d(3)", lambda: nn.InstanceNorm1d(3), x3())
layer("InstanceNorm1d", "InstanceNorm1d(3, affine = true)", lambda: nn.InstanceNorm1d(3, affine=True), x3())
layer("InstanceNorm2d", "InstanceNorm2d(3, 1e-3, affine = true)", lambda: nn.InstanceNorm2d(3, 1e-3, affine=True), values(B, 3, 4, 2))
layer("BatchNorm1d", "BatchNorm1d(5)", lambda: nn.BatchNorm1d(5), values(B, 5))
layer("BatchNorm1d", "BatchNorm1d(3, 1e-3, 0.3)", lambda: nn.BatchNorm1d(3, 1e-3, 0.3), x3())
layer("BatchNorm1d", "BatchNorm1d(3, affine = false)", lambda: nn.BatchNorm1d(3, affine=False), x3())
layer("BatchNorm1d", "BatchNorm1d(5, momentum = none)", lambda: averaging(nn.BatchNorm1d(5)), values(B, 5))
layer("BatchNorm2d", "BatchNorm2d(3, momentum = none)", lambda: averaging(nn.BatchNorm2d(3), 0), values(B, 3, 4, 2))
layer("BatchNorm3d", "BatchNorm3d(2, momentum = none)", lambda: averaging(nn.BatchNorm3d(2)), values(B, 2, 3, 2, 2))
layer("SyncBatchNorm", "SyncBatchNorm(3, momentum = none)", lambda: averaging(nn.BatchNorm2d(3), 2), values(B, 3, 4, 2))
layer("InstanceNorm2d", "InstanceNorm2d(2, momentum = none, track_running_stats = true)",
      lambda: nn.InstanceNorm2d(2, momentum=None, track_running_stats=True), values(B, 2, 3, 4))
layer("BatchNorm2d", "BatchNorm2d(3)", lambda: nn.BatchNorm2d(3), values(B, 3, 4, 2))
layer("BatchNorm", "BatchNorm(3, track_running_stats = false)", lambda: nn.BatchNorm2d(3, track_running_stats=False),
      values(B, 3, 4, 2), evaluation=False)
layer("SyncBatchNorm", "SyncBatchNorm(3)", lambda: nn.BatchNorm2d(3), values(B, 3, 4, 2))
layer("SyncBatchNorm", "SyncBatchNorm(5, 1e-3, 0.3, affine = false)", lambda: nn.BatchNorm1d(5, 1e-3, 0.3, affine=False),
      values(B, 5))
layer("SyncBatchNorm", "SyncBatchNorm(5, track_running_stats = false)",
      lambda: nn.BatchNorm1d(5, track_running_stats=False), values(B, 5), evaluation=False)
for kind in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d"):
    shape = {"Dropout": (B, 3, 5), "Dropout1d": (B, 3, 5), "Dropout2d": (B, 3, 2, 2), "Dropout3d": (B, 3, 2, 2, 2)}[kind]
    layer(kind, f"{kind}(0.0)", lambda kind=kind: getattr(nn, kind)(0.0), values(*shape))
    layer(kind, f"{kind}(1.0)", lambda kind=kind: getattr(nn, kind)(1.0), values(*shape))
    layer(kind, f"{kind}(0.4)", lambda kind=kind: getattr(nn, kind)(0.4), values(*shape), training=False)
layer("DropPath", "DropPath(0.0)", nn.Identity, x3())
layer("DropPath", "DropPath(0.4)", nn.Identity, x3(), training=False)
layer("Flatten", "Flatten()", nn.Flatten, values(B, 2, 3, 2))
layer("Flatten", "Flatten(1, 2)", lambda: nn.Flatten(1, 2), values(B, 2, 3, 2))
layer("Unflatten", "Unflatten(1, [2, 3])", lambda: nn.Unflatten(1, (2, 3)), values(B, 6, 2))
layer("ConstantPad2d", "ConstantPad2d([1, 2, 0, 1], 1.5)", lambda: nn.ConstantPad2d((1, 2, 0, 1), 1.5), values(B, 2, 3, 3))
layer("ZeroPad2d", "ZeroPad2d(1)", lambda: nn.ZeroPad2d(1), values(B, 2, 3, 3))
layer("PixelShuffle", "PixelShuffle(2)", lambda: nn.PixelShuffle(2), values(B, 8, 3, 2))
layer("PixelUnshuffle", "PixelUnshuffle(2)", lambda: nn.PixelUnshuffle(2), values(B, 2, 4, 6))
layer("CosineSimilarity", "CosineSimilarity()", nn.CosineSimilarity, x3(), x3())
layer("PairwiseDistance", "PairwiseDistance()", nn.PairwiseDistance, values(B, 5), values(B, 5))

# ---------- convolution and pooling ----------
layer("Conv1d", "Conv1d(3, 4, 3, 2, 1, bias = false)", lambda: nn.Conv1d(3, 4, 3, 2, 1, bias=False), values(B, 3, 9))
layer("Conv1d", "Conv1d(4, 4, 2, dilation = 2, groups = 2)", lambda: nn.Conv1d(4, 4, 2, dilation=2, groups=2),
      values(B, 4, 7))
layer("Conv2d", "Conv2d(3, 4, 3, padding = 1)", lambda: nn.Conv2d(3, 4, 3, padding=1), values(B, 3, 5, 6))
layer("Conv2d", "Conv2d(4, 6, [3, 2], [2, 1], [1, 0], [1, 2], 2, false)",
      lambda: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2, False), values(B, 4, 7, 6))
layer("ConvTranspose2d", "ConvTranspose2d(3, 4, 3, 2, 1, 1)", lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1),
      values(B, 3, 3, 4))
layer("ConvTranspose2d", "ConvTranspose2d(4, 4, 2, groups = 2, bias = false, dilation = 2)",
      lambda: nn.ConvTranspose2d(4, 4, 2, groups=2, bias=False, dilation=2), values(B, 4, 3, 4))
case("max_pool2d", "max_pool2d(a, [3, 2], [2, 1], [1, 0])", lambda a: F.max_pool2d(a, (3, 2), (2, 1), (1, 0)),
     values(B, 2, 6, 5))
case("avg_pool2d", "avg_pool2d(a, 3, 2, 1)", lambda a: F.avg_pool2d(a, 3, 2, 1), values(B, 2, 6, 5))
case("adaptive_avg_pool2d", "adaptive_avg_pool2d(a, [3, 2])", lambda a: F.adaptive_avg_pool2d(a, (3, 2)), values(B, 2, 6, 4))
case("upsample2d", "upsample2d(a, 2)", lambda a: F.interpolate(a, scale_factor=2), values(B, 2, 3, 4))
layer("MaxPool2d", "MaxPool2d(2)", lambda: nn.MaxPool2d(2), values(B, 2, 6, 4))
layer("AvgPool2d", "AvgPool2d(3, 1)", lambda: nn.AvgPool2d(3, 1), values(B, 2, 6, 4))
layer("AdaptiveAvgPool2d", "AdaptiveAvgPool2d(1)", lambda: nn.AdaptiveAvgPool2d(1), values(B, 2, 6, 4))

SPACE = {1: (7,), 2: (6, 5), 3: (4, 5, 3)}
for n, space in SPACE.items():
    two = {1: "2", 2: "[2, 3]", 3: "[2, 3, 1]"}[n]
    py = {1: 2, 2: (2, 3), 3: (2, 3, 1)}[n]
    conv, up = getattr(nn, f"Conv{n}d"), getattr(nn, f"ConvTranspose{n}d")
    layer(f"Conv{n}d", f"Conv{n}d(2, 4, {two}, 1, 1, groups = 2)", lambda c=conv, py=py: c(2, 4, py, 1, 1, groups=2),
          values(B, 2, *space))
    layer(f"ConvTranspose{n}d", f"ConvTranspose{n}d(2, 3, {two}, 2, 1, 1)", lambda c=up, py=py: c(2, 3, py, 2, 1, 1),
          values(B, 2, *[max(2, k // 2) for k in space]))
    image = lambda space=space: values(B, 2, *space)
    big, avg = getattr(F, f"max_pool{n}d"), getattr(F, f"avg_pool{n}d")
    case(f"max_pool{n}d", f"max_pool{n}d(a, 2, 1, 1, dilation = 2, ceil_mode = true)",
         lambda a, f=big: f(a, 2, 1, 1, 2, True), image())
    case(f"avg_pool{n}d", f"avg_pool{n}d(a, 2, 2, 1, ceil_mode = true, count_include_pad = false)",
         lambda a, f=avg: f(a, 2, 2, 1, True, False), image())
    for kind in ("avg", "max"):
        f = getattr(F, f"adaptive_{kind}_pool{n}d")
        case(f"adaptive_{kind}_pool{n}d", f"adaptive_{kind}_pool{n}d(a, 2)", lambda a, f=f: f(a, 2), image())
        title = kind.title()
        layer(f"{title}Pool{n}d", f"{title}Pool{n}d(2)", lambda k=f"{title}Pool{n}d": getattr(nn, k)(2), image())
        layer(f"Adaptive{title}Pool{n}d", f"Adaptive{title}Pool{n}d(3)",
              lambda k=f"Adaptive{title}Pool{n}d": getattr(nn, k)(3), image())
layer("BatchNorm3d", "BatchNorm3d(2)", lambda: nn.BatchNorm3d(2), values(B, 2, 3, 2, 2))
layer("InstanceNorm3d", "InstanceNorm3d(2, affine = true)", lambda: nn.InstanceNorm3d(2, affine=True), values(B, 2, 3, 2, 2))
layer("InstanceNorm2d", "InstanceNorm2d(2, track_running_stats = true)",
      lambda: nn.InstanceNorm2d(2, track_running_stats=True), values(B, 2, 3, 4))
layer("Upsample", "Upsample(2)", lambda: nn.Upsample(scale_factor=2), values(B, 2, 3, 4))

# ---------- attention ----------
sdpa = F.scaled_dot_product_attention
case("split_heads", "split_heads(a, 3)", lambda a: a.unflatten(-1, (3, 2)).transpose(1, 2), values(B, 4, 6))
case("merge_heads", "merge_heads(a)", lambda a: a.transpose(1, 2).flatten(2), values(B, 3, 4, 2))
case("causal_mask", "where(causal_mask(3, 5), a, 0.0)", lambda a: a.tril(), x3())
case("masked_softmax", "masked_softmax(where(b, a, -inf))",
     lambda a, m: torch.where(m.any(-1, keepdim=True), F.softmax(a.masked_fill(~m, -1e30), -1) * m, torch.zeros_like(a)),
     values(3, 5), torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]) != 0, batched=False)
case("attention", "attention(a, b, c)", sdpa, values(B, 2, 3, 4), values(B, 2, 5, 4), values(B, 2, 5, 6))
case("attention", "attention(a, b, c, causal = true)", lambda q, k, v: sdpa(q, k, v, is_causal=True), values(B, 2, 4, 3),
     values(B, 2, 4, 3), values(B, 2, 4, 3))
case("attention", "attention(a, b, c, scale = 0.3)", lambda q, k, v: sdpa(q, k, v, scale=0.3, enable_gqa=True),
     values(B, 4, 3, 4), values(B, 2, 5, 4), values(B, 2, 5, 4))
case("attention", "attention(a, b, c, mask = d)", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), values(B, 2, 3, 4),
     values(B, 2, 5, 4), values(B, 2, 5, 4), values(1, 1, 3, 5))
case("padding_mask", "attention(a, b, c, mask = padding_mask(d))",
     lambda q, k, v, d: sdpa(q, k, v, attn_mask=(d != 0)[:, None, None]), values(B, 2, 3, 4), values(B, 2, 5, 4),
     values(B, 2, 5, 4), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]))
layer("MultiheadAttention", "MultiheadAttention(6, 2)", lambda: nn.MultiheadAttention(6, 2, batch_first=True),
      values(B, 3, 6), values(B, 5, 6), values(B, 5, 6), torch_call=lambda m, q, k, v: m(q, k, v, need_weights=False)[0])
layer("MultiheadAttention", "MultiheadAttention(6, 3, bias = false)",
      lambda: nn.MultiheadAttention(6, 3, bias=False, batch_first=True), values(B, 4, 6), call="layer(a, a, a, causal = true)",
      torch_call=lambda m, x: m(x, x, x, need_weights=False, is_causal=True, attn_mask=nn.Transformer.
                                generate_square_subsequent_mask(4, dtype=x.dtype))[0])
for first in (False, True):
    layer("TransformerEncoderLayer", f"TransformerEncoderLayer(6, 2, 8, 0.0, norm_first = {str(first).lower()})",
          lambda first=first: nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True, norm_first=first), values(B, 3, 6))
layer("TransformerEncoderLayer", "TransformerEncoderLayer(6, 2, 8, 0.0, gelu)",
      lambda: nn.TransformerEncoderLayer(6, 2, 8, 0.0, "gelu", batch_first=True), values(B, 3, 6))
layer("TransformerEncoder", "TransformerEncoder(TransformerEncoderLayer(6, 2, 8, 0.0), 2, LayerNorm(6))",
      lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True), 2, nn.LayerNorm(6)),
      values(B, 3, 6))
for first in (False, True):
    layer("TransformerDecoderLayer", f"TransformerDecoderLayer(6, 2, 8, 0.0, norm_first = {str(first).lower()})",
          lambda first=first: nn.TransformerDecoderLayer(6, 2, 8, 0.0, batch_first=True, norm_first=first), values(B, 3, 6),
          values(B, 4, 6))
layer("TransformerDecoder", "TransformerDecoder(TransformerDecoderLayer(6, 2, 8, 0.0, gelu), 2, LayerNorm(6))",
      lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, 8, 0.0, "gelu", batch_first=True), 2, nn.LayerNorm(6)),
      values(B, 3, 6), values(B, 4, 6))


def rotary(x, theta=10000.0):
    T, K = x.shape[-2:]
    f = theta ** (-2 * torch.arange(K // 2, dtype=x.dtype) / K)
    angles = torch.cat([torch.arange(T, dtype=x.dtype)[:, None] * f] * 2, -1)
    half = torch.cat([-x[..., K // 2:], x[..., : K // 2]], -1)
    return x * angles.cos() + half * angles.sin()


case("rotary_angles", "rotary(a, rotary_angles(3, 4))", rotary, values(B, 2, 3, 4))
case("rotate_half", "rotate_half(a)", lambda x: torch.cat([-x[..., 2:], x[..., :2]], -1), values(B, 2, 3, 4))
case("rotary", "rotary(a, rotary_angles(3, 4, 100.0))", lambda x: rotary(x, 100.0), values(B, 2, 3, 4))

# ---------- recurrent ----------
RECURRENT = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}


def states(m, *x):
    y, last = m(*x)
    return (y, *last) if isinstance(last, tuple) else (y, last)


for name, kind in RECURRENT.items():
    layer(name, f"{name}(3, 5)", lambda kind=kind: kind(3, 5), values(6, B, 3), torch_call=states, batched=False)
    layer(name, f"{name}(3, 5, num_layers = 2, bias = false)", lambda kind=kind: kind(3, 5, 2, bias=False), values(3, B, 3),
          torch_call=states, batched=False)
    layer(name, f"{name}(3, 5, batch_first = true)", lambda kind=kind: kind(3, 5, batch_first=True), values(B, 6, 3),
          torch_call=lambda m, x: m(x)[0], call="layer(a)[0]")
    layer(name, f"{name}(3, 5, bidirectional = true, num_layers = 2)", lambda kind=kind: kind(3, 5, 2, bidirectional=True),
          values(3, B, 3), torch_call=states, batched=False)
layer("LSTM", "LSTM(3, 5, 2)", lambda: nn.LSTM(3, 5, 2), values(4, B, 3), values(2, B, 5), values(2, B, 5),
      torch_call=lambda m, x, h, c: states(m, x, (h, c)), batched=False)
layer("GRU", "GRU(3, 5, 2)", lambda: nn.GRU(3, 5, 2), values(4, B, 3), values(2, B, 5), torch_call=states, batched=False)
layer("RNN", 'RNN(3, 5, nonlinearity = "relu")', lambda: nn.RNN(3, 5, nonlinearity="relu"), values(4, B, 3),
      values(1, B, 5), torch_call=states, batched=False)
layer("LSTMCell", "LSTMCell(3, 5)", lambda: nn.LSTMCell(3, 5), values(B, 3), values(B, 5), values(B, 5),
      torch_call=lambda m, x, h, c: m(x, (h, c)))
layer("LSTMCell", "LSTMCell(3, 5, false)", lambda: nn.LSTMCell(3, 5, False), values(B, 3))
layer("GRUCell", "GRUCell(3, 5)", lambda: nn.GRUCell(3, 5), values(B, 3), values(B, 5))
layer("GRUCell", "GRUCell(3, 5, false)", lambda: nn.GRUCell(3, 5, False), values(B, 3))
layer("RNNCell", "RNNCell(3, 5)", lambda: nn.RNNCell(3, 5), values(B, 3), values(B, 5))
layer("RNNCell", 'RNNCell(3, 5, false, "relu")', lambda: nn.RNNCell(3, 5, False, "relu"), values(B, 3), values(B, 5))

# ---------- initial values: their draws are compared in tests/parity/initial.py and here by their bounds ----------
# Parts of others, and what another test compares.
ELSEWHERE = {
    **dict.fromkeys(("random_hflip", "crop", "random_crop", "random_erasing", "erase_rectangle"), "by chance: tests of data"),
    "Conv": "Conv1d, Conv2d", "ConvTranspose": "ConvTranspose2d", "average": "avg_pool2d", "InstanceNorm": "InstanceNorm1d, InstanceNorm2d",
    "add_bias": "LSTM", "gru_cell": "GRUCell", "rnn_cell": "RNNCell", "lstm_cell": "LSTM", "lstm_layer": "LSTM; tests/sema/torch_library.py", "gru_layer": "GRU; tests/sema/torch_library.py",
    "rnn_layer": "RNN; tests/sema/torch_library.py",
    "zeros": "tests/parity/initial.py", "ones": "tests/parity/initial.py", "constant": "tests/parity/initial.py",
    "eye": "tests/parity/initial.py", "fan_in": "kaiming_uniform", "fan_out": "kaiming_uniform", "fan": "kaiming_uniform",
    "calculate_gain": "initial()", "kaiming_uniform": "initial()", "kaiming_normal": "initial()",
    "xavier_uniform": "initial()", "xavier_normal": "initial()", "normal_except_row": "tests/parity/initial.py",
}  # fmt: skip
