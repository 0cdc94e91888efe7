"""Cases of the library as jobs: each case is a layer or function over tensors that are parameters, so that the program
that ddpc makes shows everything: outputs are kept in buffers, and the optimizer puts each gradient in the place of its
parameter. The numbers are compared with PyTorch's autograd in double, with the interpreter on the same graph (values and
gradients), and the interpreter's gradients with central differences. One program holds many cases.

A case's first dimension is that of the batch where `batched` says so: there the tensor is `rows(x, place)`, with the places
0..B-1 as the only field, so that the size is symbolic as in a job."""

import json
import math
import pathlib
import re
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file

B = 4


class Case:
    """name: what the library calls it. call: an expression over a, b, c ... (the inputs) and `layer`. layer: an expression
    that makes it, or None. torch: over the inputs, and a module if `module` makes one. inputs: tensors; whole numbers and
    booleans have no gradients. training: false compares the evaluation alone (draws); evaluation: false leaves it out (means
    that are no sums over a split). detached: parts of it are, so that differences are no oracle."""

    def __init__(self, name, call, torch, inputs, layer=None, module=None, batched=True, tolerance=2e-5, training=True,
                 evaluation=True, detached=False, names=None):
        self.name, self.call, self.torch, self.inputs = name, call, torch, inputs
        self.layer, self.module, self.batched, self.tolerance = layer, module, batched, tolerance
        self.training, self.evaluation, self.detached, self.names = training, evaluation, detached, names or {}

    def what(self):
        return f"{self.name}: {self.layer or ''} {self.call}"


def shape_text(shape):
    return "[" + ", ".join(map(str, shape)) + "]"


def is_float(x):
    return x.dtype.is_floating_point


def letters(case):
    return "abcdefgh"[: len(case.inputs)]


def batched_input(case, x):
    return case.batched and x.dim() > 0 and x.shape[0] == B


def reference(case, inputs, module, training):
    """Outputs as a flat list, in the dtype of the inputs."""
    if module is not None:
        module.train(training)
    out = case.torch(*inputs) if module is None else case.torch(module, *inputs)
    return [o for o in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(o, torch.Tensor)]


class Prepared:
    """What a case needs in the job: shapes of its outputs, weights of the loss, PyTorch's module."""

    def __init__(self, case, number):
        self.case, self.number = case, number
        self.module = case.module() if case.module else None
        self.start = {}
        if self.module is not None:
            with torch.no_grad():
                for p in self.module.parameters():
                    p.copy_(torch.randn(p.shape) * 0.5 + (1.0 if p.dim() == 1 else 0.0))
                for name, b in self.module.named_buffers():
                    if is_float(b):
                        b.copy_(torch.rand(b.shape) + 0.5)
            self.start = {k: v.clone() for k, v in self.module.state_dict().items()}
            self.module = self.module.double()
        with torch.no_grad():
            outs = reference(case, [self.input(x) for x in case.inputs], self.module, case.training)
        if self.module is not None:
            self.module.load_state_dict({k: v.double() if is_float(v) else v for k, v in self.start.items()})
        self.outs = [tuple(o.shape) for o in outs]
        self.floats = [is_float(o) for o in outs]
        self.weights = [torch.randn(s) for s in self.outs]

    def input(self, x):
        return x.double() if is_float(x) else x

    def by_batch(self, shape):
        return self.case.batched and len(shape) > 0 and shape[0] == B

    def module_text(self):
        c, k = self.case, self.number
        lines = [f"module Case{k}() {{"]
        for n, x in zip(letters(c), c.inputs):
            if is_float(x):
                lines.append(f"  {n}: param {shape_text(x.shape)} = zeros()")
            else:
                lines.append(f"  {n}: buffer int64{shape_text(x.shape)} = zeros()")
        if c.layer:
            lines.append(f"  layer = {c.layer}")
        for i, s in enumerate(self.outs):
            flat = [math.prod(s)] if s else [1]
            lines += [f"  w{i}: buffer {shape_text(s)} = zeros()", f"  y{i}: buffer {shape_text(flat)} = zeros()"]
        head = len(lines)
        lines.append("")
        for n, x in zip(letters(c), c.inputs):
            value = f"rows({n}, place)" if batched_input(c, x) else n
            if x.dtype == torch.bool:
                value = f"{value} != 0"
            lines.append(f"    {n}_ = {value}")
        call = re.sub(r"\b([a-h])\b(?![_(=])", lambda m: m.group(1) + "_" if m.group(1) in letters(c) else m.group(1), c.call)
        targets = ", ".join(f"r{i}" for i in range(len(self.outs)))
        lines.append(f"    {targets} = {call}")
        terms = []
        for i, s in enumerate(self.outs):
            y = f"r{i}"
            if self.by_batch(s):
                spread = f"cast(place[none, :] == arange({B})[:, none], float)"
                value = f"flatten({spread} @ reshape(cast({y}, float), [B, {math.prod(s[1:])}]))"
                terms.append(f"sum({y} * rows(w{i}, place))")
            else:
                value = f"reshape(cast({y}, float), [{max(1, math.prod(s))}])"
                terms.append(f"sum({y} * w{i})")
            lines += ["    if training {", f"      y{i} = {value}", "    }"]
        terms += [f"0.0 * sum({n})" for n, x in zip(letters(c), c.inputs) if is_float(x)]  # also where nothing flows back
        total = " + ".join(terms)
        lines += [f"    return {total if c.evaluation else f'if training then {total} else 0.0'}", "  }", "}", ""]
        body = "\n".join(lines[head:])
        place = "place" if re.search(r"\bplace\b", body) else "_place"
        lines[head] = f"  forward({place}: int[{'B' if '[B,' in body else '_'}]) -> [] {{"
        return "\n".join(lines)

    def tensors(self):
        c, k = self.case, self.number
        out = {}
        for n, x in zip(letters(c), c.inputs):
            out[f"c{k}.{n}"] = x.float() if is_float(x) else x.long()
        for i, (s, w) in enumerate(zip(self.outs, self.weights)):
            out[f"c{k}.w{i}"] = w
            out[f"c{k}.y{i}"] = torch.zeros(math.prod(s) if s else 1)
        for name, v in self.start.items():
            out[f"c{k}.layer.{c.names.get(name, name)}"] = v
        return {n: v.clone().contiguous() for n, v in out.items()}


def job_text(prepared):
    lines = ["edition 1", "", "optimizer gradient(p: [...]) {", "  update(g: [...]) {", "    p = g + 0.0 * p", "  }", "}", ""]
    lines += ["dataset d {", "  field place: int64", "  field i: float", '  split train = csv("places.csv")',
              '  split validation = csv("places.csv")', "}", ""]
    lines += [p.module_text() for p in prepared]
    targets = ", ".join(f"p{p.number}" for p in prepared)
    calls = ", ".join(f"c{p.number}(place)" for p in prepared)
    lines += ["module All() {", *(f"  c{p.number} = Case{p.number}()" for p in prepared), "  forward(place: int[_]) {",
              f"    return {calls}", "  }", "}", "", "model net = All()", "", "objective {", f"  {targets} = net(d.place)",
              f"  loss = {targets.replace(', ', ' + ')} + 0.0 * mean(d.i)",
              *(f"  metric m{p.number} = p{p.number}" for p in prepared if p.case.evaluation), "}", "",
              "train {", '  output_dir = "out"', "  max_steps = 1", f"  per_device_train_batch_size = {B}",
              f"  per_device_eval_batch_size = {B}", "  optim = gradient", "  lr_scheduler_type = constant",
              "  max_grad_norm = 0", "  eval_strategy = steps", "  eval_on_start = true", "  save_strategy = no",
              "  train_sampling_strategy = sequential", "}", "", "runtime {", "  on_nan = ignore", "}", ""]
    return "\n".join(lines)


def call(*command, cwd, **more):
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=600, **more)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class Failures(list):
    def compare(self, what, got, want, tolerance):
        got, want = got.double().reshape(-1), want.double().reshape(-1)
        if got.shape != want.shape:
            self.append(f"{what}: {tuple(got.shape)} is not {tuple(want.shape)}")
            return
        same = (got == want) | (got.isnan() & want.isnan())
        scale = want[want.isfinite()].abs().max() if bool(want.isfinite().any()) else torch.tensor(1.0)
        close = (got - want).abs() <= tolerance * (1 + want.abs().clamp(min=0.1 * float(scale)))
        bad = ~(same | close)
        if bool(bad.any()):
            i = int(bad.nonzero()[0])
            self.append(f"{what}: element {i} is {float(got[i]):.9g}, not {float(want[i]):.9g} "
                        f"({int(bad.sum())} of {want.numel()} differ)")


def torch_side(p, training):
    """Outputs, gradients by name, buffers afterwards, the weighted sum."""
    c = p.case
    inputs = [p.input(x).clone().requires_grad_(is_float(x)) for x in c.inputs]
    if p.module is not None:
        p.module.load_state_dict({k: v.double() if is_float(v) else v for k, v in p.start.items()})
        p.module.zero_grad()
    outs = reference(c, inputs, p.module, training)
    total = sum((o * w.double()).sum() for o, w in zip(outs, p.weights) if is_float(o))
    total = total + sum(float((o.double() * w.double()).sum()) for o, w in zip(outs, p.weights) if not is_float(o))
    grads = {}
    if training and isinstance(total, torch.Tensor) and total.requires_grad:
        total.backward()
    for n, x in zip(letters(c), inputs):
        if is_float(x):
            grads[n] = torch.zeros_like(x) if x.grad is None else x.grad
    buffers = {}
    if p.module is not None:
        for name, q in p.module.named_parameters():
            grads[f"layer.{c.names.get(name, name)}"] = torch.zeros_like(q) if q.grad is None else q.grad
        buffers = {f"layer.{c.names.get(n, n)}": b.clone() for n, b in p.module.named_buffers() if n in p.start}
    return [o.detach() for o in outs], grads, buffers, float(total.detach() if isinstance(total, torch.Tensor) else total)


def graph_of(text, name):
    m = re.search(rf"^graph {name} .*?^\}}$", text, re.M | re.S)
    return m.group() if m else None


def interpret(ir_eval, folder, graph, sources):
    (folder / "graph.ir").write_text(graph + "\n")
    out = call(ir_eval, "graph.ir", B, "--double", cwd=folder, input=sources)
    result = {}
    for line in out.splitlines():
        head, numbers = line.split(":")
        kind, index, _ = head.split()
        result[kind, int(index)] = torch.tensor([float(x) for x in numbers.split()], dtype=torch.float64)
    return result


def check(cases, build, ir_eval, folder, failures, flags=()):
    folder = pathlib.Path(folder)
    ddpc = build / "ddpc"
    prepared = [Prepared(c, k) for k, c in enumerate(cases)]
    (folder / "job.ddp").write_text(job_text(prepared))
    (folder / "places.csv").write_text("".join(f"{i},{i}\n" for i in range(B)))
    start = {}
    for p in prepared:
        start.update(p.tensors())
    save_file(start, folder / "start.safetensors")
    call(ddpc, "job.ddp", "-o", "train", *flags, cwd=folder)
    call("./train", "--init-from", "start.safetensors", "--threads", "1", cwd=folder)
    after = load_file(folder / "out/model.safetensors")
    log = [json.loads(line) for line in (folder / "out/log.jsonl").read_text().splitlines()]
    evaluated = next(line for line in log if "eval_loss" in line)
    wanted = {}
    for p in prepared:
        c, k = p.case, p.number
        outs, grads, buffers, _ = torch_side(p, True)
        if c.training:
            for i, o in enumerate(outs):
                failures.compare(f"{c.what()}: output {i}", after[f"c{k}.y{i}"], o, c.tolerance)
            for n, g in grads.items():
                wanted[f"c{k}.{n}"] = g
                failures.compare(f"{c.what()}: gradient of {n}", after[f"c{k}.{n}"], g, c.tolerance)
            for n, b in buffers.items():
                failures.compare(f"{c.what()}: buffer {n}", after[f"c{k}.{n}"], b, c.tolerance)
        *_, total = torch_side(p, False)
        scale = sum(float(w.abs().sum()) for w in p.weights)
        got = evaluated[f"eval_m{k}"] if c.evaluation else total
        if got is None or not abs(got - total) <= c.tolerance * (1 + abs(total) + 0.1 * scale):
            failures.append(f"{c.what()}: in evaluation {got} is not {total}")
    differences(prepared, build, ir_eval, folder, after, failures)


def differences(prepared, build, ir_eval, folder, after, failures):
    """The interpreter on the training graph: its numbers against the program's, its gradients against differences."""
    text = call(build / "ddpc", "job.ddp", "--dump=grad", cwd=folder)
    graph = graph_of(text, "train")
    leaves = {}  # number of a leaf -> name, from the order of a state_dict
    names = []
    plan = json.loads(call(build / "ddpc", "plan", "--json", "job.ddp", cwd=folder))
    for number, tensor in enumerate(plan["leaves"]):
        leaves[number] = tensor["name"]
        names.append(tensor["name"])
    start = load_file(folder / "start.safetensors")
    draws = "bernoulli|uniform|normal|randint"
    sources = list(re.finditer(rf"^  %\d+ = (input|param|buffer|host|share|count|{draws}) ?([^:]*): \w+\[(.*?)\]", graph,
                               re.M))

    def numbers(values):
        lines = []
        for m in sources:
            kind, attrs = m.group(1), m.group(2)
            if kind in ("share", "count"):
                lines.append("1")
                continue
            if kind in draws:
                sizes = [B if n == "B" else int(n) for n in m.group(3).split(",") if n]
                lines.append(" ".join(["1"] * math.prod(sizes)))
                continue
            number = int(re.search(r"(?:field|leaf)=(\d+)", attrs).group(1))
            x = torch.arange(B) if kind == "input" else values[leaves[number]]
            lines.append(" ".join(repr(float(v)) for v in x.reshape(-1).tolist()))
        return "\n".join(lines)

    base = interpret(ir_eval, folder, graph, numbers(start))
    by_name = {n: k for k, n in leaves.items()}
    torch.manual_seed(5)
    step, direction = 1e-4, {}
    for n, x in start.items():
        if ("grad", by_name[n]) in base:
            direction[n] = torch.randn(x.shape, dtype=torch.float64)
    both = []
    for sign in (1, -1):
        moved = {n: x.double() + (sign * step * direction[n] if n in direction else 0) for n, x in start.items()}
        both.append(interpret(ir_eval, folder, graph, numbers(moved)))
    for p in prepared:
        c, k = p.case, p.number
        if not c.training:
            continue
        slope, expected, size = 0.0, 0.0, 1.0
        for i, w in enumerate(p.weights):
            at = ("buffer", by_name[f"c{k}.y{i}"])
            failures.compare(f"{c.what()}: the interpreter's output {i}", after[f"c{k}.y{i}"], base[at], c.tolerance)
            change = (both[0][at] - both[1][at]) / (2 * step)
            slope += float((change * w.double().reshape(-1)).sum())
            size += float((change.abs() * w.double().abs().reshape(-1)).sum())
        for n in [n for n in direction if n.startswith(f"c{k}.")]:
            g = base["grad", by_name[n]]
            failures.compare(f"{c.what()}: the interpreter's gradient of {n}", after[n], g, c.tolerance)
            expected += float((g * direction[n].reshape(-1)).sum())
            size += float((g.abs() * direction[n].abs().reshape(-1)).sum())
        if not c.detached and not abs(slope - expected) <= 1e-4 * size:
            failures.append(f"{c.what()}: gradients say {expected}, differences {slope}")
