"""Writes torch_optimizers.h: what PyTorch's optimizers make of given parameters and gradients, as bits.

usage: python torch_optimizers.py > torch_optimizers.h      (torch from tests/parity/requirements.txt)
"""
import numpy as np
import torch

N, STEPS = 21, 4  # two vectors of 8 and a tail of 5


def whole(n, multiplier, offset, modulus):
    i = np.arange(n)
    return ((i * multiplier + offset) % modulus - modulus // 2).astype(np.float32)


def parameters():
    return whole(N, 37, 11, 97) / np.float32(531)


def gradient(step):
    return whole(N, 53, 7 + 29 * step, 101) / np.float32(1023)


def bits(name, array):
    words = array.view(np.uint32)
    rows = [", ".join(f"0x{w:08x}u" for w in words[i:i + 7]) for i in range(0, len(words), 7)]
    return f"    .{name} = {{" + ",\n          ".join(rows) + "},\n"


def run(make):
    p = torch.tensor(parameters()).requires_grad_()
    optimizer = make([p])
    for step in range(STEPS):
        p.grad = torch.tensor(gradient(step))
        optimizer.step()
    return p.detach().numpy(), optimizer.state[p]


def main():
    torch.set_num_threads(1)
    print(f"/* Made by torch_optimizers.py with torch {torch.__version__}. */\n/* clang-format off */")
    print(f"enum {{ FIXTURE_N = {N}, FIXTURE_STEPS = {STEPS} }};\n")
    print("typedef struct AdamwFixture {\n  double weight_decay, beta1;\n"
          "  uint32_t p[FIXTURE_N], m[FIXTURE_N], v[FIXTURE_N];\n} AdamwFixture;")
    print("static const AdamwFixture adamw_fixtures[] = {")
    for decay, beta1 in ((0.0, 0.9), (0.01, 0.9), (0.1, 0.3)):
        p, state = run(lambda q: torch.optim.AdamW(
            q, lr=3e-3, betas=(beta1, 0.999), weight_decay=decay, fused=True))
        print(f"    {{.weight_decay = {decay}, .beta1 = {beta1},")
        print(bits("p", p) + bits("m", state["exp_avg"].numpy()) +
              bits("v", state["exp_avg_sq"].numpy()) + "    },")
    print("};\n")
    print("typedef struct SgdFixture {\n  double weight_decay, momentum, dampening;\n  int nesterov;\n"
          "  uint32_t p[FIXTURE_N];\n} SgdFixture;")
    print("static const SgdFixture sgd_fixtures[] = {")
    for momentum, decay, dampening, nesterov in (
            (0.0, 0.0, 0.0, 0), (0.0, 0.01, 0.0, 0), (0.9, 0.0, 0.0, 0), (0.9, 1e-4, 0.0, 1),
            (0.9, 1e-4, 0.1, 0)):
        p, _ = run(lambda q: torch.optim.SGD(
            q, lr=0.1, momentum=momentum, weight_decay=decay, dampening=dampening,
            nesterov=bool(nesterov)))
        print(f"    {{.weight_decay = {decay}, .momentum = {momentum}, .dampening = {dampening}, "
              f".nesterov = {nesterov},")
        print(bits("p", p) + "    },")
    print("};")


main()
