"""model.safetensors of every example loads with Python's safetensors into the equivalent nn.Module,
strict = True, and gives the accuracy that ddpc reported."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, HERE)
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from ddptest import Folder, expect, main  # noqa: E402
from torch_ddp import JOBS, rows, shuffled  # noqa: E402

VALIDATION = dict(digits=("digits/digits.csv.gz", 0, 7, lambda t: (t[:, :64] / 16, t[:, 64])),
                  breast_cancer=("breast_cancer/breast_cancer.csv", 1, 1, lambda t: (torch.log1p(t[:, :30]), t[:, 30])),
                  mnist=("mnist/mnist_5k.csv.gz", 0, 3, lambda t: ((t[:, :784] / 255 - 0.1307) / 0.3081, t[:, 784])))


def check(job):
    with Folder() as f:
        binary = f.compile(f"examples/{job}/job.ddp", job)
        _, log = f.train(binary, "run", 2)
        state = load_file(f.file("run/model.safetensors"))
        net = JOBS[job]()["net"]()
        net.load_state_dict(state, strict=True)
        path, skip, seed, split = VALIDATION[job]
        t = shuffled(rows(path, skip), seed)
        x, y = split(t[len(t) * 80 // 100:] if job != "mnist" else t[4500:])
        with torch.no_grad():
            out = net(x)
        guess = out.argmax(-1) if out.ndim == 2 else (out > 0).float()
        accuracy = (guess == y).double().mean().item()
        ours = [r["eval_accuracy"] for r in log if "eval_accuracy" in r][-1]
        expect(abs(accuracy - ours) <= 1.5 / len(y), f"{job}: PyTorch says {accuracy}, ddpc {ours}")


main({job: (lambda job=job: check(job)) for job in JOBS})
