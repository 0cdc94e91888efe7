"""Every op of the table against PyTorch, forward and backward, over random shapes.

Usage: torch_parity.py PATH/TO/ir_eval [seed]. Each case is a graph of one op as textual IR; ir_eval
runs it in single precision with the gradient rules of the table, PyTorch the same with autograd.
"""

import itertools
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import torch

EVAL = sys.argv[1]
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
rng = random.Random(SEED)
torch.manual_seed(SEED)


def shape_text(shape):
    return "[" + ",".join(str(n) for n in shape) + "]"


def dtype_text(t):
    names = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool", torch.uint8: "u8"}
    return names[t.dtype]


def numbers(t):
    return " ".join(repr(float(x)) for x in t.reshape(-1).tolist())


def parse(line):
    head, rest = line.split(":")
    kind, index, kind_type = head.split()
    sizes = kind_type[kind_type.index("[") + 1 : -1]
    shape = [int(n) for n in sizes.split(",")] if sizes else []
    values = [float(x) for x in rest.split()]
    return kind, int(index), torch.tensor(values, dtype=torch.float64).reshape(shape)


def fit(x, like):
    """What a rule gives may be broadcast from or to the input's shape."""
    while x.dim() > like.dim():
        x = x.sum(0)
    for i in range(1, x.dim() + 1):
        if like.shape[-i] == 1 and x.shape[-i] != 1:
            x = x.sum(-i, keepdim=True)
    return x.expand(like.shape)


def run(op, inputs, attributes, gradient):
    lines = ["graph t {"]
    for i, x in enumerate(inputs):
        what = f"dtype={dtype_text(x)} shape={shape_text(x.shape)}"
        lines.append(f"  %{i + 1} = input field={i} {what}")
    args = ", ".join(f"%{i + 1}" for i in range(len(inputs)))
    y = len(inputs) + 1
    lines += [f"  %{y} = {op} {args} {attributes}", f"  out value 0 %{y}", "}"]
    with tempfile.NamedTemporaryFile("w", suffix=".ir") as f:
        f.write("\n".join(lines) + "\n")
        f.flush()
        text = "\n".join(numbers(x) for x in [*inputs, gradient])
        command = [EVAL, f.name, "1", "--grad"]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{op} {attributes}: {done.stderr}\n" + "\n".join(lines))
    return [parse(line) for line in done.stdout.splitlines()]


def compare(what, got, want, tolerance=2e-6):
    want = want.detach().double()
    same = (got == want) | (got.isnan() & want.isnan())
    close = (got - want).abs() <= tolerance * (1 + want.abs())
    if got.shape != want.shape or not bool((same | close).all()):
        raise SystemExit(f"{what}:\n{got}\nis not PyTorch's\n{want}")


count = gradients = 0
compared = set()


def case(op, inputs, torch_function, attributes="", tolerance=2e-6):
    """One comparison; float inputs get gradients."""
    global count, gradients
    count += 1
    compared.add(op)
    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    y = torch_function(*leaves)
    gradient = torch.randn(y.shape) if y.is_floating_point() else torch.zeros(y.shape)
    results = run(op, inputs, attributes, gradient)
    compare(f"{op} {attributes}", results[0][2], y, tolerance)
    if not y.requires_grad:
        return
    y.backward(gradient)
    for kind, index, value in results[1:]:
        gradients += 1
        want = leaves[index].grad
        want = torch.zeros_like(leaves[index]) if want is None else want
        compare(f"{op} {attributes}: gradient {index}", fit(value, want), want, tolerance)


def shape(low=1, high=4):
    return [rng.randint(1, 5) for _ in range(rng.randint(low, high))]


def broadcasts(s):
    s = [1 if rng.random() < 0.3 else n for n in s]
    return s[rng.randint(0, len(s)) :] if rng.random() < 0.5 else s


def values(s, domain="all"):
    x = torch.randn(s)
    if domain == "positive":
        return x.abs() + 0.1
    if domain == "nonzero":
        return torch.where(x >= 0, x + 0.2, x - 0.2)
    # ties, zeros and whole numbers are where conventions differ
    return torch.where(torch.rand(s) < 0.3, x.round(), x)


UNARY = {
    "neg": torch.neg, "exp": torch.exp, "expm1": torch.expm1, "sin": torch.sin, "cos": torch.cos,
    "tanh": torch.tanh, "erf": torch.erf, "abs": torch.abs, "sign": torch.sign,
    "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "isnan": torch.isnan,
    "detach": torch.detach,
}  # fmt: skip
POSITIVE = {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul,
    "maximum": torch.maximum, "minimum": torch.minimum,
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
}  # fmt: skip
NONZERO = {
    "div": torch.div,
    "floordiv": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "mod": torch.remainder,
}


def elementwise():
    for name, f in UNARY.items():
        case(name, [values(shape())], f)
    for name, f in POSITIVE.items():
        case(name, [values(shape(), "positive")], f)
    for name, f in BINARY.items():
        s = shape()
        case(name, [values(s), values(broadcasts(s))], f)
        case(name, [values(broadcasts(s)), values(s)], f)
    for name, f in NONZERO.items():
        s = shape()
        case(name, [values(s, "nonzero"), values(broadcasts(s), "nonzero")], f, tolerance=2e-5)
        case(name, [torch.randint(-9, 9, s), torch.randint(1, 5, s)], f)
    s = shape()
    case("pow", [values(s, "positive"), values(broadcasts(s))], torch.pow, tolerance=2e-5)
    case("where", [torch.rand(s) < 0.5, values(broadcasts(s)), values(s)], torch.where)
    case("not", [torch.rand(s) < 0.5], torch.logical_not)
    case("and", [torch.rand(s) < 0.5, torch.rand(s) < 0.5], torch.logical_and)
    case("or", [torch.rand(s) < 0.5, torch.rand(s) < 0.5], torch.logical_or)
    case("cast", [values(s) * 3], lambda x: x.long(), "dtype=i64")
    case("cast", [values(s)], lambda x: x.bool(), "dtype=bool")
    case("cast", [torch.randint(-9, 9, s)], lambda x: x.float(), "dtype=f32")


def reductions():
    s = shape(2, 4)
    dim = sorted(rng.sample(range(len(s)), rng.randint(1, len(s))))
    keep = rng.random() < 0.5
    attributes = f"dim={shape_text(dim)} keepdim={str(keep).lower()}"
    for name, f in {
        "sum": torch.sum, "amax": torch.amax, "amin": torch.amin, "logsumexp": torch.logsumexp,
    }.items():  # fmt: skip
        case(name, [values(s)], lambda x: f(x, dim=dim, keepdim=keep), attributes, 1e-5)
    one = dim[0]
    attributes = f"dim=[{one}] keepdim={str(keep).lower()}"
    case("argmax", [values(s)], lambda x: torch.argmax(x, one, keep), attributes)
    case("any", [torch.rand(s) < 0.3], lambda x: torch.any(x, one, keep), attributes)
    case("all", [torch.rand(s) < 0.7], lambda x: torch.all(x, one, keep), attributes)
    case("sum", [torch.rand(s) < 0.7], lambda x: torch.sum(x))
    bytes_ = torch.randint(0, 255, s, dtype=torch.uint8)
    case("sum", [bytes_], lambda x: torch.sum(x, one), f"dim=[{one}]")


def movement():
    s = shape(2, 4)
    x, n = values(s), len(s)
    flat = x.numel()
    case("reshape", [x], lambda x: x.reshape(flat), f"shape=[{flat}]")
    case("reshape", [x], lambda x: x.reshape(s[0], -1), f"shape=[{s[0]},-1]")
    order = rng.sample(range(n), n)
    case("permute", [x], lambda x: x.permute(order), f"dims={shape_text(order)}")
    target = [rng.randint(1, 3), *s]
    case("expand", [x], lambda x: x.expand(target), f"shape={shape_text(target)}")
    case("expand", [x[:, :1]], lambda x: x.expand(s), f"shape={shape_text(s)}")
    case("flip", [x], lambda x: x.flip(order[:2]), f"dims={shape_text(order[:2])}")
    start = [rng.randint(0, k - 1) for k in s]
    stop = [rng.randint(a + 1, k) for a, k in zip(start, s)]
    step = [rng.randint(1, 3) for _ in s]
    cut = tuple(slice(a, b, c) for a, b, c in zip(start, stop, step))
    attributes = f"start={shape_text(start)} stop={shape_text(stop)} step={shape_text(step)}"
    case("slice", [x], lambda x: x[cut], attributes)
    lo, hi = [rng.randint(0, 2) for _ in s], [rng.randint(0, 2) for _ in s]
    both = [k for a, b in reversed(list(zip(lo, hi))) for k in (a, b)]
    case(
        "pad", [x], lambda x: torch.nn.functional.pad(x, both, value=0.5),
        f"lo={shape_text(lo)} hi={shape_text(hi)} value=0.5",
    )  # fmt: skip
    dim = rng.randrange(n)
    sizes = [[rng.randint(1, 3) if i == dim else k for i, k in enumerate(s)] for _ in range(3)]
    parts = [values(size) for size in sizes]
    case("concat", parts, lambda *x: torch.cat(x, dim), f"dim=[{dim}]")


def indexing():
    s = shape(2, 3)
    dim = rng.randrange(len(s))
    x = values(s)
    for width in (1, rng.randint(1, 4)):
        wide = [width if i == dim else k for i, k in enumerate(s)]
        index = torch.randint(0, s[dim], wide)
        case("gather", [x, index], lambda x, i: torch.gather(x, dim, i), f"dim=[{dim}]")
        added = [x, index, values(wide)]
        case("scatter_add", added, lambda x, *i: torch.scatter_add(x, dim, *i), f"dim=[{dim}]")
    index = torch.randint(0, s[0], shape(1, 2))
    case("rows", [x, index], lambda w, i: w[i])
    added = values([*index.shape, *s[1:]])
    case(
        "rows_add", [index, added],
        lambda i, g: torch.zeros(s).index_add(0, i.reshape(-1), g.reshape(-1, *s[1:])), f"n=[{s[0]}]", 1e-5,
    )  # fmt: skip
    n = rng.randint(1, 9)
    case("arange", [], lambda: torch.arange(n), f"n=[{n}]")


def products():
    m, k, n = (rng.randint(1, 6) for _ in range(3))
    s = shape(0, 2)
    batches = [([], []), (s, []), (s, broadcasts(s)), (broadcasts(s), s)]
    for ta, tb, (a_batch, b_batch) in itertools.product((False, True), (False, True), batches):
        a = values([*a_batch, *((k, m) if ta else (m, k))])
        b = values([*b_batch, *((n, k) if tb else (k, n))])

        def f(a, b, ta=ta, tb=tb):
            return (a.mT if ta else a) @ (b.mT if tb else b)

        case("matmul", [a, b], f, f"ta={str(ta).lower()} tb={str(tb).lower()}", 1e-5)
    # made after grad: forward alone
    case("matmul_bias", [values([m, k]), values([n, k]), values([n])],
         lambda x, w, b: torch.nn.functional.linear(x, w, b).detach(), "", 1e-5)


def lists(**attributes):
    return " ".join(f"{k}={shape_text(v)}" for k, v in attributes.items())


def convolutions():
    n = rng.randint(1, 3)
    groups = rng.randint(1, 3)
    c, o, batch = groups * rng.randint(1, 2), groups * rng.randint(1, 3), rng.randint(1, 2)
    kernel, stride = ([rng.randint(1, 3) for _ in range(n)] for _ in range(2))
    padding = [rng.randint(0, k - 1) for k in kernel]
    dilation = [rng.randint(1, 2) for _ in range(n)]
    space = [rng.randint(d * (k - 1) + 1, 6) for k, d in zip(kernel, dilation)]
    how = lists(stride=stride, padding=padding, dilation=dilation) + f" groups={groups}"
    f = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[n - 1]
    inputs = [values([batch, c, *space]), values([o, c // groups, *kernel])]
    case("conv", inputs, lambda x, w: f(x, w, None, stride, padding, dilation, groups), how, 1e-5)
    weight = (torch.nn.grad.conv1d_weight, torch.nn.grad.conv2d_weight, torch.nn.grad.conv3d_weight)[n - 1]
    y = f(*inputs, None, stride, padding, dilation, groups)
    case(
        "conv_filter", [inputs[0], values(y.shape)],
        lambda x, g: weight(x, inputs[1].shape, g, stride, padding, dilation, groups),
        f"{lists(kernel=kernel)} {how}", 2e-5,
    )  # fmt: skip
    window, step, apart = ([rng.randint(1, 3) for _ in range(2)] for _ in range(3))
    x = values([2, 3, rng.randint(7, 9), rng.randint(7, 9)])
    places = [(x.shape[2 + i] - apart[i] * (window[i] - 1) - 1) // step[i] + 1 for i in range(2)]
    case(
        "windows", [x],
        lambda x: torch.nn.functional.unfold(x, window, apart, 0, step).reshape(2, 3, *window, *places),
        lists(window=window, stride=step, dilation=apart), 1e-5,
    )  # fmt: skip
    extra = [rng.randint(0, s - 1) for s in stride]
    space = [2 * p // s + rng.randint(2, 4) for p, s in zip(padding, stride)]
    t = torch.nn.functional
    f = (t.conv_transpose1d, t.conv_transpose2d, t.conv_transpose3d)[n - 1]
    inputs = [values([batch, c, *space]), values([c, o // groups, *kernel])]
    case(
        "conv_transpose", inputs,
        lambda x, w: f(x, w, None, stride, padding, extra, groups, dilation),
        how + " " + lists(output_padding=extra), 1e-5,
    )  # fmt: skip


def pooling():
    n = rng.randint(1, 3)
    window, stride = ([rng.randint(1, 3) for _ in range(n)] for _ in range(2))
    padding = [rng.randint(0, k // 2) for k in window]
    dilation = [rng.randint(1, 2) for _ in range(n)]
    x = values([2, 2, *[rng.randint(5, 7) for _ in range(n)]])
    t = torch.nn.functional
    most = (t.max_pool1d, t.max_pool2d, t.max_pool3d)[n - 1]
    mean = (t.avg_pool1d, t.avg_pool2d, t.avg_pool3d)[n - 1]
    for ceil in (False, True):
        how = lists(window=window, stride=stride, padding=padding) + f" ceil={str(ceil).lower()}"
        case("pool_max", [x], lambda x: most(x, window, stride, padding, dilation, ceil), how + " " + lists(dilation=dilation))
        for divide, pads in ((1, True), (2, False)):
            case("pool_sum", [x], lambda x: mean(x, window, stride, padding, ceil, pads), f"{how} divide={divide}", 1e-5)
    area = torch.tensor(window).prod()
    how = lists(window=window, stride=stride, padding=padding)
    case("pool_sum", [x], lambda x: mean(x, window, stride, padding) * area, how, 1e-5)
    size = [rng.randint(1, 8) for _ in range(n)]
    most = (t.adaptive_max_pool1d, t.adaptive_max_pool2d, t.adaptive_max_pool3d)[n - 1]
    mean = (t.adaptive_avg_pool1d, t.adaptive_avg_pool2d, t.adaptive_avg_pool3d)[n - 1]
    case("pool_max", [x], lambda x: most(x, size), lists(window=size) + " adaptive=true")
    case("pool_sum", [x], lambda x: mean(x, size), lists(window=size) + " divide=2 adaptive=true", 1e-5)


def order():
    s = shape(1, 3)
    dim = rng.randrange(len(s))
    x = values(s)  # with ties: equal elements keep their order in ours, hence stable
    x[torch.rand(s) < 0.1] = float("nan")
    case("cumsum", [values(s)], lambda x: torch.cumsum(x, dim), f"dim=[{dim}]", 1e-5)
    case("cumsum", [torch.randint(-5, 9, s)], lambda x: torch.cumsum(x, dim), f"dim=[{dim}]")
    for down in (False, True):
        case(
            "argsort", [x], lambda x: torch.sort(x, dim=dim, stable=True, descending=down)[1],
            f"dim=[{dim}] descending={str(down).lower()}",
        )  # fmt: skip


def attention():
    batch, t, s, groups, k, v = (rng.randint(1, 5) for _ in range(6))
    heads = groups * rng.randint(1, 3)
    scale = rng.random() + 0.5
    q, key, value = values([batch, t, heads, k]), values([batch, s, groups, k]), values([batch, s, groups, v])
    kind = rng.choice(["none", "causal", "bool", "float"])
    full = [rng.choice([1, n]) for n in (batch, heads, t, s)][rng.randint(0, 3) :]
    mask = torch.randn(full) if kind == "float" else torch.rand(full) < 0.6
    masks = [mask] if kind in ("bool", "float") else []

    def theirs(q, key, value, *masks):
        swap = [x.transpose(1, 2) for x in (q, key, value)]
        far = [x.repeat_interleave(heads // groups, 1) for x in swap[1:]]
        seen = masks[0].expand(batch, heads, t, s) if masks else torch.ones(t, s).tril().bool() if kind == "causal" else None
        # rows that see nothing: zeros, as here
        y = torch.nn.functional.scaled_dot_product_attention(swap[0], *far, seen, scale=scale)
        return y.transpose(1, 2)

    how = f"causal={str(kind == 'causal').lower()} scale={scale!r}"
    case("attention", [q, key, value, *masks], theirs, how, 1e-5)


for _ in range(6):
    elementwise()
    reductions()
    movement()
    indexing()
    products()
    convolutions()
    pooling()
    order()
    for _ in range(4):
        attention()
rows = (pathlib.Path(__file__).parent / "torch.def").read_text()
wanted = set(re.findall(r"^TORCH\((\w+),", rows, re.M))
if wanted != compared:
    raise SystemExit(f"no case for {sorted(wanted - compared)}, no row in torch.def for {sorted(compared - wanted)}")
print(f"{count} results and {gradients} gradients agree with PyTorch {torch.__version__}")
