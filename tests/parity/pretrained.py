"""Weights that transformers and torchvision wrote, made at random by their own code: `load` and --init_from take
every form of such files, and what ddpc saves goes back with nothing missing and nothing left over."""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

import model_data  # noqa: E402
import torch_ddp  # noqa: E402
from ddptest import DDPC, Folder, ROOT, expect, main, must, run  # noqa: E402


def job(f, name, *lines, change=()):
    """tests/parity/models/NAME.ddp with lines in the block behind its model."""
    with open(os.path.join(ROOT, f"tests/parity/models/{name}.ddp")) as file:
        text = file.read()
    for a, b in change:
        expect(a in text, f"{name}.ddp has no {a}")
        text = text.replace(a, b)
    if lines:
        text = re.sub(r"^(model net = [^\n]*?\n?(?:.*?\n)??.*?)\n\nobjective", lambda m: m.group(1) + " {\n  " +
                      "\n  ".join(lines) + "\n}\n\nobjective", text, flags=re.S | re.M)
    with open(f.file(f"{name}.ddp"), "w") as file:
        file.write(text)
    if not os.path.exists(f.file("tokens.csv")):
        model_data.write(f.path)
    return f.file(f"{name}.ddp")


def program(f, name, *lines, change=()):
    out = f.file(name)
    must([DDPC, job(f, name, *lines, change=change), "-o", out])
    return out


def net_of(f, name):
    if not os.path.exists(f.file("tokens.csv")):
        model_data.write(f.path)
    return torch_ddp.own_net(torch_ddp.job_named(name, f.path))


def started(f, binary, *flags):
    """What a run starts from."""
    must([binary, "--init-only", "--output_dir", f.file("start"), *flags])
    return load_file(f.file("start/model.safetensors"))


def same(got, want, what):
    wrong = [k for k in want if k in got and not torch.equal(got[k], want[k].float() if want[k].is_floating_point()
                                                              else want[k])]
    expect(not wrong and got, f"{what}: other numbers in {wrong}")


def scrambled(net, seed):
    """Other numbers than a run's own initial values."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(0.02 * torch.randn(p.shape, generator=g))
    return net


def forms(name, base, head):
    """Files of the head model and of its base, sharded, in 16 bits; as a folder, a file, an index."""
    with Folder() as f:
        net = scrambled(net_of(f, name), 1)
        want = net.state_dict()
        net.save_pretrained(f.file("whole"))
        net.save_pretrained(f.file("shards"), max_shard_size="100KB")
        getattr(net, base).save_pretrained(f.file("base"))
        for dtype in (torch.bfloat16, torch.float16):
            net_of(f, name).load_state_dict(want)
            net.to(dtype).save_pretrained(f.file(str(dtype)[6:]))
            net = net.float()
            net.load_state_dict(want)
        expect(len(os.listdir(f.file("shards"))) > 4, "not sharded")
        except_head = f" except {head}" if head else ""
        for source in ("whole", "whole/model.safetensors", "shards", "shards/model.safetensors.index.json"):
            binary = program(f, name, f'load "{source}"')
            same(started(f, binary), want, f"load {source}")
        for dtype in ("bfloat16", "float16"):
            binary = program(f, name, f'load "{dtype}"')
            same(started(f, binary), {k: v.to(getattr(torch, dtype)) for k, v in want.items()}, dtype)
        below = {k: v for k, v in want.items() if k.startswith(base)}
        for line in (f'load {base} = "base"', f'load {base} = "whole"', f'load "base"{except_head}',
                     f'load {base} = "shards"'):
            same(started(f, program(f, name, line)), below, line)
        binary = program(f, name)
        for source in ("whole", "shards", "shards/model.safetensors.index.json", "whole/model.safetensors"):
            same(started(f, binary, "--init_from", f.file(source)), want, f"--init_from {source}")


WITH_LOGITS = dict(
    gpt2=("loss = causal_lm_loss(net(d.ids), d.labels)",
          "logits = net(d.ids)\n  loss = causal_lm_loss(logits, d.labels)\n  output logits = logits"),
    bert=("loss = cross_entropy(net(d.ids, d.keep, d.types), d.label)",
          "logits = net(d.ids, d.keep, d.types)\n  loss = cross_entropy(logits, d.label)\n  output logits = logits"),
    resnet18=("loss = cross_entropy(net(d.image), d.label)",
              "logits = net(d.image)\n  loss = cross_entropy(logits, d.label)\n  output logits = logits"))


def predicted(f, binary, name, ranks, *flags):
    out = f.file(f"{name}.safetensors")
    must([binary, "--predict", out, "--predict_split", "train", "--output_dir", f.file("run"), *flags] +
         (["--nproc-per-node", str(ranks)] if ranks > 1 else []))
    return load_file(out)["logits"]


def logits_of(f, name, net):
    import model_twins as twins
    net.eval()
    with torch.no_grad():
        if name == "resnet18":
            return net(twins.images(f.path)[0])
        table = twins.read_csv(f.file("tokens.csv" if name == "gpt2" else "sentences.csv"))
        x = [table[:, :24]] if name == "gpt2" else [table[:, :16], table[:, 16:32], table[:, 32:48]]
        return net(*x).logits


def close(a, b, what):
    worst = ((a - b).abs().max() / b.abs().max()).item()
    print(f"{what}: {worst:.1e}")
    expect(worst <= 1e-5, f"{what}: logits differ by {worst:.3g}")


def logits(name):
    """A pretrained model gives the logits of the original, trains, and goes back with equal logits; any number of
    ranks writes the same bytes."""
    with Folder() as f:
        net = net_of(f, name)
        torch_ddp.save(net, f.file("there"))
        binary = program(f, name, change=[WITH_LOGITS[name]])
        before = ["--init_from", f.file("there/model.safetensors")]
        mine = predicted(f, binary, "before", 1, *before)
        close(mine, logits_of(f, name, net), f"{name} as loaded")
        expect(torch.equal(mine, predicted(f, binary, "two", 2, *before)), "2 ranks predict other bits")
        f.train(binary, "run", 2, ["--max_steps", "12", *before])
        after = predicted(f, binary, "after", 2)
        expect(not torch.equal(mine, after), "training changed nothing")
        close(after, logits_of(f, name, torch_ddp.start(net, f.file("run"))), f"{name} after training")


def gpt2():
    forms("gpt2", "transformer", None)


def bert():
    forms("bert", "bert", "classifier")


def resnet():
    with Folder() as f:
        net = scrambled(net_of(f, "resnet18"), 1)
        for i, (name, b) in enumerate(net.named_buffers()):
            b.fill_(i)
        save_file(net.state_dict(), f.file("resnet.safetensors"))
        got = started(f, program(f, "resnet18", 'load "resnet.safetensors"'))
        same(got, net.state_dict(), "resnet18")
        net_of(f, "resnet18").load_state_dict(got, strict=True)


def tied():
    """Both copies of tied tensors are accepted if they are equal; one under the other's name as well."""
    with Folder() as f:
        net = scrambled(net_of(f, "gpt2"), 2)
        state = {k: v.clone() for k, v in net.state_dict().items()}
        binary = program(f, "gpt2")
        both, other, single = f.file("both.safetensors"), f.file("other.safetensors"), f.file("single.safetensors")
        save_file(state, both)
        same(started(f, binary, "--init_from", both), state, "both copies")
        save_file({k: v for k, v in state.items() if k != "transformer.wte.weight"}, single)
        same(started(f, binary, "--init_from", single), state, "the copy of the head alone")
        save_file({**state, "lm_head.weight": state["lm_head.weight"] + 1}, other)
        r = run([binary, "--init-only", "--init_from", other, "--output_dir", f.file("out")])
        expect(r.code != 0 and "lm_head.weight" in r.out and "one tensor" in r.out, f"other copies: {r.out}")


def tables():
    """What does not fit is told by name, when compiled and when started."""
    with Folder() as f:
        net = scrambled(net_of(f, "gpt2"), 3)
        state = {k: v.clone() for k, v in net.state_dict().items() if k != "lm_head.weight"}
        del state["transformer.ln_f.bias"]
        state["transformer.surplus"] = torch.zeros(3)
        state["transformer.wpe.weight"] = torch.zeros(30, 64)
        save_file(state, f.file("bad.safetensors"))
        r = run([DDPC, "check", job(f, "gpt2", 'load "bad.safetensors"')])
        for code, name in (("E0808", "ln_f.bias"), ("E0809", "surplus"), ("E0810", "wpe.weight")):
            expect(code in r.out and name in r.out, f"no {code} for {name}:\n{r.out}")
        r = run([program(f, "gpt2"), "--init_from", f.file("bad.safetensors"), "--output_dir", f.file("out")])
        for name in ("ln_f.bias", "surplus", "wpe.weight"):
            expect(r.code == 3 and name in r.out, f"{name} is not in the table: {r.code}\n{r.out}")
        net.save_pretrained(f.file("shards"), max_shard_size="100KB")
        victim = sorted(n for n in os.listdir(f.file("shards")) if n.endswith("safetensors"))[1]
        os.remove(os.path.join(f.file("shards"), victim))
        r = run([DDPC, "check", job(f, "gpt2", 'load "shards"')])
        expect("E0811" in r.out and victim in r.out, f"a missing shard:\n{r.out}")


def constants():
    """Masks and positions that older releases saved are no weights."""
    with Folder() as f:
        net = scrambled(net_of(f, "gpt2"), 4)
        state = {k: v.clone() for k, v in net.state_dict().items() if k != "lm_head.weight"}
        state["transformer.h.0.attn.bias"] = torch.ones(1, 1, 32, 32)
        state["transformer.h.0.attn.masked_bias"] = torch.tensor(-1e4)
        save_file(state, f.file("old.safetensors"))
        same(started(f, program(f, "gpt2", 'load "old.safetensors"')), net.state_dict(), "an old file")


if __name__ == "__main__":
    main(dict({f"logits_{name}": (lambda name=name: logits(name)) for name in WITH_LOGITS}, gpt2=gpt2, bert=bert,
              resnet=resnet, tied=tied, tables=tables, constants=constants))
