#!/usr/bin/env python3
"""Which checkpoints are kept, which is the best, and what trainer_state.json tells. The job is tests/reports/probe.ddp
with all samples equal, so that the weight after update k is k and the evaluation of every update can be chosen: the
loss of the split is its mean of c - x w."""
import filecmp
import json
import os
import shutil
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "reports"))
from reports import DDPC, Folder, Job, expect, logged, main, near, read_log, run, weights  # noqa: E402

ONE = (0, 1, 0, 1)  # moves w by 1 in an update
EVERY = "--save_strategy steps --save_steps 1 --eval_strategy steps --eval_steps 1"


def probe(f, slopes=(-1,)):
    """eval_loss after update k: k times the mean of -slopes."""
    job = Job(f, "probe")
    job.data(train=[list(ONE)] * 12, eval=[[0, x, 0, 1] for x in slopes])
    return job


def saved(out):
    return sorted(int(x.split("-")[1]) for x in os.listdir(out) if x.startswith("checkpoint-"))


def state(out, update=None):
    with open(os.path.join(out, f"checkpoint-{update}" if update else "", "trainer_state.json")) as f:
        return json.load(f)


def best(out, update=None):
    s = state(out, update)
    folder = s["best_model_checkpoint"]
    return s["best_global_step"], s["best_metric"], folder and os.path.basename(folder)


def rotation():
    """The newest ones, and the best; folders of other programs stay."""
    with Folder() as f:
        job = probe(f)
        for limit, kept in ((0, range(1, 7)), (1, [6]), (2, [5, 6]), (9, range(1, 7))):
            for ranks in (1, 2):
                _, out = job.train(f"--max_steps 6 --save_strategy steps --save_steps 1 --save_total_limit {limit}",
                                   ranks)
                expect(saved(out) == list(kept), f"limit {limit}: {saved(out)}")
        # eval_loss grows: the first is the best and stays, beside the newest
        how = f"--max_steps 6 {EVERY} --metric_for_best_model loss --save_total_limit"
        for limit, kept in ((3, [1, 5, 6]), (2, [1, 6])):
            _, out = job.train(f"{how} {limit}", 2)
            expect(saved(out) == kept, f"limit {limit}: {saved(out)}")
            expect(best(out) == (1, 1, "checkpoint-1"), f"limit {limit}: {best(out)}")
        # ... with room for one the best alone stays, but only once the run is over
        _, out = job.train(f"{how} 1")
        expect(saved(out) == [1], f"limit 1: {saved(out)}")
        near(weights(out)["w"][0], 6, "without load_best_model_at_end the last weights are written")
        # what an earlier run left there is older, whatever its number; what is no checkpoint is not touched
        os.makedirs(os.path.join(out, "checkpoint-3"))
        shutil.copytree(os.path.join(out, "checkpoint-1"), os.path.join(out, "checkpoint-900"))
        r = run([job.binary(), "--output_dir", out, "--max_steps", "4", "--save_strategy", "steps", "--save_steps", "2",
                 "--save_total_limit", "2"])
        expect(r.code == 0 and saved(out) == [2, 3, 4], f"{saved(out)}\n{r.out}")


def best_model():
    """The metric, its direction, and that all ranks end with the weights of the best evaluation."""
    load = f"--max_steps 5 {EVERY} --load_best_model_at_end"
    with Folder() as f:
        job = probe(f)
        for ranks in (1, 2, 4):
            log, out = job.train(load, ranks)  # unset: the loss, the less the better
            expect(best(out) == (1, 1, "checkpoint-1"), f"{ranks} ranks: {best(out)}")
            expect(weights(out) == weights(out, "checkpoint-1") and weights(out)["w"][0] == 1, str(weights(out)))
            expect((log[-1]["best_metric"], log[-1]["best_global_step"]) == (1, 1), str(log[-1]))
            for update in range(1, 6):
                expect(best(out, update) == (1, 1, "checkpoint-1"), f"at update {update}: {best(out, update)}")
        # the best one is the last save of all, with and without `eval_`
        for name in ("loss", "eval_loss"):
            _, out = job.train(f"{load} --metric_for_best_model {name} --greater_is_better true", 4)
            expect(best(out) == (5, 5, "checkpoint-5") and weights(out)["w"][0] == 5, str(best(out)))
        # other metrics are better when they are greater; of equal ones the first counts
        _, out = job.train(f"{load} --metric_for_best_model sevens")
        expect(best(out) == (1, 0, "checkpoint-1"), str(best(out)))
        job.fails("metric_for_best_model = acuracy: the job has only: loss sevens perplexity",
                  f"{load} --metric_for_best_model acuracy", 2)
        # an evaluation between two saves is saved when it is the best
        job.data(eval=[[0, 1, 0, 1]])  # eval_loss falls
        _, out = job.train("--max_steps 5 --eval_strategy steps --eval_steps 1 --save_strategy best "
                           "--metric_for_best_model loss --load_best_model_at_end --save_total_limit 2")
        expect(saved(out) == [4, 5] and weights(out)["w"][0] == 5, f"{saved(out)} {weights(out)}")
        _, out = job.train("--max_steps 5 --eval_strategy steps --eval_steps 2 --save_strategy best "
                           "--metric_for_best_model loss --greater_is_better true")
        expect(saved(out) == [2], f"the first evaluation is the greatest: {saved(out)}")
        near(weights(out)["w"][0], 5, "nothing is loaded unless it is asked for")
        # what the Trainer records without being asked to load
        _, out = job.train(f"--max_steps 3 {EVERY}")
        expect(best(out) == (None, None, None), str(best(out)))


def not_a_number():
    """Evaluations that are no number are never the best."""
    with Folder() as f:
        job = probe(f)
        job.data(eval=[[1e38, 0, 0, 1]])  # perplexity overflows
        _, out = job.train(f"--max_steps 2 {EVERY} --metric_for_best_model perplexity --greater_is_better false "
                           "--load_best_model_at_end")
        expect(best(out) == (None, None, None) and weights(out)["w"][0] == 2, f"{best(out)}")
        expect(logged(read_log(out), "eval_perplexity") == [None, None], "the metric is a number")


def start_hidden(binary, out, flags, ranks):
    """Ranks of which only rank 0 can make or open anything in its output folder. Returns what they said."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(os.environ, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    all_ranks = [subprocess.Popen([binary, "--output_dir", "/proc/nowhere" if k else out] + flags,
                                  env=dict(env, RANK=str(k), LOCAL_RANK=str(k)), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for k in range(ranks)]
    try:
        said = [p.communicate(timeout=60)[0] for p in all_ranks]
    finally:
        for p in all_ranks:
            p.kill()
    expect([p.returncode for p in all_ranks] == [0] * ranks, "\n".join(said))


def hidden_folder():
    """Row 48: rank 1 sees no output folder at all, and still gets the weights of the best evaluation. Row 52: rank 0
    alone makes and renames folders, 200 times, also deep ones that were not there."""
    with Folder() as f:
        job = probe(f)
        binary, out = job.binary(), f.file("seen")
        start_hidden(binary, out, f"--max_steps 4 {EVERY} --load_best_model_at_end".split(), 2)
        expect(best(out) == (1, 1, "checkpoint-1") and weights(out)["w"][0] == 1, f"{best(out)}")
        out = f.file("a/b/c")
        start_hidden(binary, out, "--max_steps 200 --save_strategy steps --save_steps 1 --save_total_limit 3 "
                                  "--logging_steps 100".split(), 8)
        expect(saved(out) == [198, 199, 200], f"{saved(out)}")


def two_hosts(f, binary, flags, outs):
    """Ranks 0 and 1 here, 2 and 3 with other IPC, which to the program is another host. Returns what they said."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    base = f"WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT={port}"

    def host(first, out):
        ranks = "".join(f"RANK={first + k} LOCAL_RANK={k} {base} {binary} --output_dir {out} {flags} & "
                        for k in (0, 1))
        return f"{ranks} wait"
    script = f"unshare --ipc sh -c '{host(2, outs[1])}' & {host(0, outs[0])}"
    r = run(["sh", "-c", script], limit=60)
    expect(r.code == 0, r.out)
    return r.out


def slow_writer():
    """Row 48: the best evaluation is the last one, and its checkpoint takes seconds to be written."""
    with Folder() as f:
        job = probe(f)
        binary, out = job.binary(), f.file("out")
        slow = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=500000"]
        r = run(slow + [binary, "--output_dir", out, "--nproc-per-node", "4", "--greater_is_better", "true"] +
                f"--max_steps 2 {EVERY} --load_best_model_at_end --metric_for_best_model loss".split())
        expect(r.code == 0 and r.seconds > 3, f"exit {r.code} after {r.seconds} s\n{r.out}")
        expect(best(out) == (2, 2, "checkpoint-2") and weights(out)["w"][0] == 2, f"{best(out)}")
        expect(weights(out) == weights(out, "checkpoint-2"), "not the weights of the best checkpoint")


def each_node():
    """save_on_each_node: the first rank of every host writes the same bytes; a shared folder is written once."""
    try:
        subprocess.run(["unshare", "--ipc", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("skipped: no right to unshare")
        return
    flags = (f"--max_steps 5 {EVERY} --load_best_model_at_end --save_total_limit 2 --ema_decay 0.5 "
             "--save_on_each_node true")
    with Folder() as f:
        job = probe(f)
        binary, outs = job.binary(), [f.file("here"), f.file("there")]
        said = two_hosts(f, binary, flags, outs)
        expect("step 5/5" in said, said)
        expect(saved(outs[0]) == saved(outs[1]) == [1, 5], f"{saved(outs[0])} {saved(outs[1])}\n{said}")
        for part in ("checkpoint-1", "checkpoint-5", ""):
            names = [x for x in os.listdir(os.path.join(outs[1], part)) if "." in x]
            expect(("manifest.json" in names) == (part != "") and "model.safetensors" in names, f"{part}: {names}")
            for name in names:
                a, b = (os.path.join(out, part, name) for out in outs)
                expect(filecmp.cmp(a, b, shallow=False), f"{part}/{name} differs between the hosts")
        said = two_hosts(f, binary, flags, [f.file("both")] * 2)
        expect("shares" in said and saved(f.file("both")) == [1, 5], said)
        expect(not [x for x in os.listdir(f.file("both")) if x.startswith(".")], "something is left behind")
        _, out = job.train(flags, 2)
        expect(saved(out) == [1, 5], f"one host: {saved(out)}")
        said = two_hosts(f, binary, "--max_steps 2 --save_strategy steps --save_steps 1", [f.file("a"), f.file("b")])
        expect(saved(f.file("a")) == [1, 2] and not os.path.exists(f.file("b")), "rank 0 alone writes without it")


def resumed():
    """Log, best evaluation and what is kept go on where they stopped, in one log with a line that says so."""
    with Folder() as f:
        job = probe(f)
        flags = f"{EVERY} --load_best_model_at_end --save_total_limit 3".split()
        straight, out, binary = f.file("straight"), f.file("broken"), job.binary()
        expect(run([binary, "--output_dir", straight, "--max_steps", "6"] + flags).code == 0, "the straight run")
        expect(run([binary, "--output_dir", out, "--max_steps", "6", "--save_total_limit", "0"] + flags[:-2]).code == 0,
               "the run that is broken off")
        for update in (4, 5, 6):
            shutil.rmtree(os.path.join(out, f"checkpoint-{update}"))
        with open(os.path.join(out, "log.jsonl"), "a") as log:
            log.write('{"loss": 1')  # killed while it wrote
        before = len(read_log_whole(out))
        r = run([binary, "--output_dir", out, "--max_steps", "6", "--resume_from_checkpoint", "true"] + flags)
        expect(r.code == 0, r.out)
        log = read_log(out)
        line = log[before]
        expect(line["resumed_from"].endswith("checkpoint-3") and line["step"] == 3 and line["epoch"] == 0.25, str(line))
        expect(logged(log[before:], "loss") == logged(read_log(straight), "loss")[3:], "other losses")
        expect(saved(out) == saved(straight) == [1, 5, 6], f"{saved(out)}, {saved(straight)}")
        expect(best(out) == (1, 1, "checkpoint-1") and weights(out) == weights(straight), f"{best(out)}")
        expect(history(state(out, 6)) == history(state(straight, 6)), "another history")
        # judged another way, another one is the best so far
        other = f.file("other")
        for update in (1, 5):
            shutil.copytree(os.path.join(straight, f"checkpoint-{update}"), os.path.join(other, f"checkpoint-{update}"))
        r = run([binary, "--output_dir", other, "--max_steps", "6", "--resume_from_checkpoint", "true",
                 "--metric_for_best_model", "loss", "--greater_is_better", "true"] + flags)
        expect(r.code == 0 and "the best evaluation so far is that of update 5" in r.out, r.out)
        expect(best(other) == (6, 6, "checkpoint-6") and weights(other)["w"][0] == 6, f"{best(other)}")
        # when the best folder is gone its metric still counts, and the run says that its weights cannot come back
        shutil.rmtree(os.path.join(straight, "checkpoint-1"))
        shutil.rmtree(os.path.join(straight, "checkpoint-6"))
        r = run([binary, "--output_dir", straight, "--max_steps", "6", "--resume_from_checkpoint", "true"] + flags)
        expect(r.code == 0 and "the best checkpoint so far is not there any more" in r.out and
               "the checkpoint of the best evaluation (update 1) is gone" in r.out, r.out)
        expect(best(straight) == (1, 1, None) and weights(straight)["w"][0] == 6, f"{best(straight)}")


def history(s):
    return [{k: v for k, v in r.items() if "runtime" not in k and "per_second" not in k} for r in s["log_history"]]


def read_log_whole(out):
    """Lines that were written to their end."""
    with open(os.path.join(out, "log.jsonl")) as f:
        return [json.loads(x) for x in f.read().split("\n")[:-1]]


def delay():
    """No evaluation before eval_delay, in updates or in epochs."""
    with Folder() as f:
        job = probe(f)
        for delays, at in ((0, [2, 4, 5]), (3, [4, 5]), (4, [4, 5]), (5, [5]), (6, [])):
            log, _ = job.train(f"--max_steps 5 --eval_strategy steps --eval_steps 2 --eval_delay {delays}", 2)
            expect([r["step"] for r in log if "eval_loss" in r] == at, f"eval_delay {delays}: {log}")
        for delays, at in ((0, [1, 2, 3]), (1, [1, 2, 3]), (1.5, [2, 3]), (3, [3]), (4, [])):
            log, _ = job.train(f"--num_train_epochs 3 --eval_strategy epoch --eval_delay {delays} --eval_on_start")
            expect([r["epoch"] for r in log if "eval_loss" in r] == [0] + at, f"eval_delay {delays}: {log}")


def tokens():
    """include_num_input_tokens_seen: of all ranks and micro-batches, the sampler's padding included; also after a
    resume."""
    rows = [[k % 5, 1, 2, 3] + [1] * (1 + k % 4) + [0] * (3 - k % 4) for k in range(7)]
    with Folder() as f:
        shutil.copy(os.path.join(HERE, "tokens.ddp"), f.path)
        with open(f.file("rows.csv"), "w") as c:
            c.writelines(",".join(map(str, r)) + "\n" for r in rows)
        binary = f.file("tokens")
        expect(run([DDPC, f.file("tokens.ddp"), "-o", binary]).code == 0, "it does not compile")
        shown = [sum(r[4:]) for r in rows]
        for ranks in (1, 2, 4):
            order = list(range(7)) + list(range(-7 % ranks))  # padded from the head
            per_update = [order[k:k + 2 * ranks] for k in range(0, len(order), 2 * ranks)]
            for what, weight in (("all", lambda k: 4), ("true", lambda k: 4), ("non_padding", lambda k: shown[k])):
                _, log = f.train(binary, f"{ranks}-{what}", ranks, ["--include_num_input_tokens_seen", what])
                wanted, seen = [], 0
                for update in per_update:
                    seen += sum(map(weight, update))
                    wanted.append(seen)
                lines = [r for r in log if "loss" in r]
                got = [r["num_input_tokens_seen"] for r in lines]
                expect(got == wanted, f"{what}, {ranks} ranks: {got}, not {wanted}")
                expect(all(r["train_tokens_per_second"] > 0 and r["train_runtime"] > 0 for r in lines), f"{lines}")
                expect(log[-1]["num_input_tokens_seen"] == seen, f"{log[-1]}")
        out = f.file("1-all")
        expect(state(out, 2)["num_input_tokens_seen"] == 16, "the state of update 2")
        shutil.rmtree(os.path.join(out, "checkpoint-4"))
        r = run([binary, "--output_dir", out, "--include_num_input_tokens_seen", "all",
                 "--resume_from_checkpoint", "true"])
        expect(r.code == 0 and read_log(out)[-1]["num_input_tokens_seen"] == 28, f"{read_log(out)[-1]}\n{r.out}")
    with Folder() as f:
        probe(f).fails("the job reads no field of tokens", "--include_num_input_tokens_seen all", 2)


def average():
    """ema_decay: the average of the weights is evaluated, saved beside them, and written at the end."""
    wanted, after = [], 0.0
    for k in range(1, 7):
        after = float(k) if k == 1 else .75 * after + .25 * k
        wanted.append(after)
    with Folder() as f:
        job = probe(f)
        flags = f"--max_steps 6 {EVERY} --ema_decay 0.75"
        for ranks in (1, 2):
            log, out = job.train(flags, ranks)
            near(logged(log, "eval_loss"), wanted, "evaluations of the average")
            near(logged(log, "loss"), [-float(k) for k in range(6)], "training has its own weights")
            near(weights(out)["w"][0], wanted[-1], "the average at the end")
            near(weights(out, "checkpoint-6")["w"][0], 6, "the weights of the checkpoint")
        for update in (1, 3):
            again = f.file(f"again-{update}")
            shutil.copytree(os.path.join(out, f"checkpoint-{update}"), os.path.join(again, f"checkpoint-{update}"))
            r = run([job.binary(), "--output_dir", again, "--resume_from_checkpoint", "true", "--nproc-per-node", "2"] +
                    flags.split())
            expect(r.code == 0, r.out)
            for name in ("model.safetensors", "ema.safetensors", "scheduler.safetensors"):
                with open(os.path.join(out, "checkpoint-6", name), "rb") as a, \
                        open(os.path.join(again, "checkpoint-6", name), "rb") as b:
                    expect(a.read() == b.read(), f"from update {update}: {name} differs")
        job.data(eval=[[6, -1, 0, 1], [-6, 0, 0, 1]])
        _, out = job.train(flags + " --load_best_model_at_end --greater_is_better true --metric_for_best_model loss")
        near(weights(out)["w"][0], wanted[-1], "the best average")
        _, out = job.train(flags + " --load_best_model_at_end --save_only_model", 2)
        near(weights(out)["w"][0], wanted[0], "the best average")


main({"rotation": rotation, "best_model": best_model, "not_a_number": not_a_number, "hidden_folder": hidden_folder,
      "resumed": resumed, "delay": delay, "average": average, "each_node": each_node, "slow_writer": slow_writer,
      "tokens": tokens})
