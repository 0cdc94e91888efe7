"""Every optimizer of the library against PyTorch's (adafactor: transformers'; muon: torch.optim.Muon without its
rounding to bfloat16; lion, lamb: their papers), with the variants that `optim_args` chooses.

One job holds a set of tensors of several shapes for each variant; the loss makes their gradients the fields of the
sample, so that the same numbers go to both. Needs torch and transformers. DDP_BUILD names the build folder.

A tolerance is a multiple of the spacing of float32 at the largest number of the tensor. SGD and AdamW have 0: PyTorch's
bits. The others compute in another order of operations, and those that look at a whole tensor (adafactor, lamb, muon)
add it up in another order: a rounding of each of the 6 updates, most of them of something smaller than the largest number;
4 is twice what was seen."""

import os
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

import numpy as np
import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("DDP_BUILD", ROOT / "build"))
SHAPES = [(1,), (7,), (33,), (5, 3), (3, 5), (17, 64), (2, 3, 5), (4, 2, 3, 3)]
STEPS = 6
LR, DECAY = 0.01, 0.03


class Paper(torch.optim.Optimizer):
    """An optimizer from the text of a paper: `rule` makes the change of one tensor."""

    def __init__(self, params, rule):
        super().__init__(params, {})
        self.rule = rule

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["step"] = state.get("step", 0) + 1
            self.rule(p, p.grad, state)


def lion(p, g, state, beta1=0.9, beta2=0.999):
    m = state.setdefault("m", torch.zeros_like(p))
    p.mul_(1 - LR * DECAY).sub_(LR * torch.sign(beta1 * m + (1 - beta1) * g))
    m.mul_(beta2).add_((1 - beta2) * g)


def lamb(p, g, state, beta1=0.9, beta2=0.999, eps=1e-6):
    m, v = (state.setdefault(k, torch.zeros_like(p)) for k in "mv")
    m.mul_(beta1).add_((1 - beta1) * g)
    v.mul_(beta2).add_((1 - beta2) * g * g)
    u = m / (1 - beta1 ** state["step"]) / ((v / (1 - beta2 ** state["step"])).sqrt() + eps) + DECAY * p
    a, b = p.norm(), u.norm()
    p.sub_(LR * (a / b if a > 0 and b > 0 else 1) * u)


def adafactor(params, **options):
    from transformers.optimization import Adafactor
    return Adafactor(params, **{"lr": LR, "weight_decay": DECAY, "scale_parameter": False, "relative_step": False,
                                **options})


def variants():
    """name, arguments, PyTorch's optimizer of a list of parameters, tolerance, least number of dimensions"""
    o = torch.optim
    usual = {"lr": LR, "weight_decay": DECAY}
    yield "sgd", "", lambda p: o.SGD(p, **usual), 0, 0
    yield "sgd", "momentum=0.9", lambda p: o.SGD(p, momentum=0.9, **usual), 0, 0
    yield "sgd", "momentum=0.9,nesterov=true", lambda p: o.SGD(p, momentum=0.9, nesterov=True, **usual), 0, 0
    yield "sgd", "momentum=0.8,dampening=0.2", lambda p: o.SGD(p, momentum=0.8, dampening=0.2, **usual), 0, 0
    yield "sgd", "momentum=0.9,maximize=true", lambda p: o.SGD(p, momentum=0.9, maximize=True, **usual), 4, 0
    yield "adamw_torch", "", lambda p: o.AdamW(p, fused=True, **usual), 0, 0
    yield "adamw_torch_fused", "beta1=0.7,beta2=0.95,eps=1e-6", lambda p: o.AdamW(
        p, betas=(0.7, 0.95), eps=1e-6, fused=True, **usual), 0, 0
    yield "adamw", "amsgrad=true", lambda p: o.AdamW(p, amsgrad=True, **usual), 4, 0
    yield "adamw", "maximize=true", lambda p: o.AdamW(p, maximize=True, **usual), 4, 0
    yield "adam", "", lambda p: o.Adam(p, **usual), 4, 0
    yield "adam", "amsgrad=true", lambda p: o.Adam(p, amsgrad=True, **usual), 4, 0
    yield "adam", "maximize=true", lambda p: o.Adam(p, maximize=True, **usual), 4, 0
    yield "adagrad", "", lambda p: o.Adagrad(p, **usual), 4, 0
    yield "adagrad", "lr_decay=0.1,initial_accumulator_value=0.5,eps=1e-6", lambda p: o.Adagrad(
        p, lr_decay=0.1, initial_accumulator_value=0.5, eps=1e-6, **usual), 4, 0
    yield "adagrad", "maximize=true", lambda p: o.Adagrad(p, maximize=True, **usual), 4, 0
    yield "rmsprop", "", lambda p: o.RMSprop(p, **usual), 4, 0
    yield "rmsprop", "alpha=0.9,eps=1e-6,momentum=0.5,centered=true", lambda p: o.RMSprop(
        p, alpha=0.9, eps=1e-6, momentum=0.5, centered=True, **usual), 4, 0
    yield "rmsprop", "momentum=0.9,maximize=true", lambda p: o.RMSprop(p, momentum=0.9, maximize=True, **usual), 4, 0
    yield "lion", "", lambda p: Paper(p, lion), 1, 0
    yield "lion_32bit", "", lambda p: Paper(p, lion), 1, 0
    yield "lamb", "", lambda p: Paper(p, lamb), 4, 0
    yield "adafactor", "", adafactor, 4, 0
    yield "adafactor", "scale_parameter=true,beta1=0.8", lambda p: adafactor(p, scale_parameter=True, beta1=0.8), 4, 0
    yield "adafactor", "clip_threshold=0.5,decay_rate=-0.6", lambda p: adafactor(
        p, clip_threshold=0.5, decay_rate=-0.6), 4, 0
    yield "adafactor", "relative_step=true", lambda p: adafactor(p, relative_step=True, lr=None), 4, 0
    yield "adafactor", "relative_step=true,warmup_init=true,scale_parameter=true", lambda p: adafactor(
        p, relative_step=True, warmup_init=True, scale_parameter=True, lr=None), 4, 0
    yield "muon", "", lambda p: o.Muon(p, **usual), 4, 2
    yield "muon", "momentum=0.8,nesterov=false,adjust_lr_fn=match_rms_adamw", lambda p: o.Muon(
        p, momentum=0.8, nesterov=False, adjust_lr_fn="match_rms_adamw", **usual), 4, 2
    yield "muon", "ns_steps=3,adjust_lr_fn=spectral_unclamped", lambda p: o.Muon(
        p, ns_steps=3, adjust_lr_fn="spectral_unclamped", **usual), 4, 2


ALL = list(variants())


def shapes_of(least):
    return [s for s in SHAPES if (len(s) == least if least else True)]


def text_of(shape):
    return "[" + ", ".join(map(str, shape)) + "]"


def job(folder):
    lines = ["edition 1", "", "dataset d {", '  let rows = csv("data.csv")']
    lines += [f"  field g{k}: float{text_of(s)}" for k, s in enumerate(SHAPES)]
    lines += ["  split train = rows", "}", ""]
    for least in (0, 2):
        lines.append(f"module Set{least}() {{")
        lines += [f"  w{SHAPES.index(s)}: param {text_of(s)} = zeros()" for s in shapes_of(least)]
        inputs = ", ".join(f"g{SHAPES.index(s)}: [B, {', '.join(map(str, s))}]" for s in shapes_of(least))
        total = " + ".join(f"sum(g{k} * w{k})" for k in (SHAPES.index(s) for s in shapes_of(least)))
        lines += [f"  forward({inputs}) -> [] {{", f"    return {total}", "  }", "}", ""]
    lines.append("module All() {")
    lines += [f"  v{i} = Set{least}()" for i, (*_, least) in enumerate(ALL)]
    inputs = ", ".join(f"g{k}: [B, {', '.join(map(str, s))}]" for k, s in enumerate(SHAPES))
    calls = " + ".join(f"v{i}({', '.join(f'g{SHAPES.index(s)}' for s in shapes_of(v[4]))})" for i, v in enumerate(ALL))
    lines += [f"  forward({inputs}) -> [] {{", f"    return {calls}", "  }", "}", ""]
    lines.append("model net = All() {")
    for i, (name, args, *_) in enumerate(ALL):
        lines.append(f"  group v{i} {{ optim = {name}" + (f', optim_args = "{args}"' if args else "") +
                     f", weight_decay = {DECAY} }}")
    fields = ", ".join(f"d.g{k}" for k in range(len(SHAPES)))
    lines += ["}", "", "objective {", f"  loss = net({fields})", "}", "", "train {", '  output_dir = "out"',
              "  num_train_epochs = 1", "  per_device_train_batch_size = 1", f"  learning_rate = {LR}",
              "  lr_scheduler_type = constant", "  max_grad_norm = 0", "  save_strategy = no",
              "  train_sampling_strategy = sequential", "}", ""]
    (folder / "job.ddp").write_text("\n".join(lines))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    samples = [[torch.randn(s) * (0.1 + k) for s in SHAPES] for k in range(STEPS)]
    start = [torch.randn(s) for s in SHAPES]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        job(folder)
        with open(folder / "data.csv", "w") as f:
            for sample in samples:
                f.write(",".join(repr(float(x)) for g in sample for x in g.flatten()) + "\n")
        save_file({f"v{i}.w{SHAPES.index(s)}": start[SHAPES.index(s)].clone()
                   for i, v in enumerate(ALL) for s in shapes_of(v[4])}, folder / "start.safetensors")
        for command in ([BUILD / "ddpc", "job.ddp", "-o", "train"],
                        ["./train", "--init-from", "start.safetensors", "--threads", "1"]):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
            if done.returncode:
                sys.exit(f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
        ours = load_file(folder / "out/model.safetensors")
    failed, worst_of_all = 0, 0
    for i, (name, args, make, tolerance, least) in enumerate(ALL):
        wanted = [torch.nn.Parameter(start[SHAPES.index(s)].clone()) for s in shapes_of(least)]
        optimizer = make(wanted)
        with mock.patch.object(torch, "bfloat16", torch.float32):
            for sample in samples:
                for p, s in zip(wanted, shapes_of(least)):
                    p.grad = sample[SHAPES.index(s)].clone()
                optimizer.step()
        for p, s in zip(wanted, shapes_of(least)):
            got, want = ours[f"v{i}.w{SHAPES.index(s)}"].double(), p.detach().double()
            unit = float(np.spacing(np.float32(max(want.abs().max(), start[SHAPES.index(s)].abs().max()))))
            off = float((got - want).abs().max()) / unit
            worst_of_all = max(worst_of_all, off)
            if not off <= tolerance:
                failed += 1
                print(f"{name} {args} {s}: {off:.1f} units from PyTorch, {tolerance} are allowed")
            if not bool((want != start[SHAPES.index(s)].double()).any()):
                failed += 1
                print(f"{name} {args} {s}: nothing has changed")
    if failed:
        sys.exit(f"{failed} tensors differ")
    print(f"{len(ALL)} variants on {len(SHAPES)} shapes agree with PyTorch {torch.__version__}; at most {worst_of_all:.1f} "
          f"units of the last place")


main()
