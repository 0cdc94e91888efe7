"""torchrun in its ways of starting, its failures and restarts; accelerate, which is torchrun or starts one process."""
import json
import os
import re
import signal
import socket
import subprocess
import time

from launchtest import (AS_ROOT, FLAGS, JOB, RANK, Failure, Folder, Hosts, Reference, compare_all, content, expect,
                        free_port, installed, main, of_torch, read_log, run, stop_and_go, together, wait_for)

SAYS = "torchrun, shared memory"


def torchrun(n, *flags):
    return [of_torch("torchrun"), "--no-python", f"--nproc_per_node={n}", *flags]


def accelerate(n, *flags):
    return [of_torch("accelerate"), "launch", "--no_python", "--num_processes", str(n), *flags]


def torchrun_bits():
    compare_all("torchrun", torchrun, SAYS, limit=90)


def torchrun_ways():
    """Who listens on MASTER_PORT differs; the bits do not."""
    with Folder() as f:
        reference = Reference(f)
        for name, flags, env in (
                ("standalone", ["--standalone"], None),
                ("static", ["--master-port", str(free_port())], None),
                ("ipv6", ["--master-addr", "::1", "--master-port", str(free_port())], None),
                ("c10d", ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}"], None),
                ("store of nobody", [], {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}),
                ("virtual local rank", ["--virtual-local-rank"], None)):
            reference.compare(name, torchrun(2, *flags), 2, 1, SAYS, env, limit=90)


def torchrun_two_agents():
    """Two agents with two ranks each: as four ranks of one."""
    with Folder() as f:
        reference = Reference(f)
        for name, flags in (("static", ["--master-addr", "localhost", "--master-port"]),
                            ("c10d", ["--rdzv-backend", "c10d", "--rdzv-id", "two", "--rdzv-endpoint"])):
            port = str(free_port())

            def start(program):
                place = [port] if name == "static" else [f"localhost:{port}"]
                results = together([torchrun(2, "--nnodes", "2", "--node-rank", str(k), *flags, *place) + program
                                    for k in (0, 1)], limit=90)
                expect(all(code == 0 for code, _ in results), "\n".join(out for _, out in results))
                return type("Result", (), {"out": "".join(out for _, out in results)})

            reference.compare(f"two agents, {name}", None, 4, 1, SAYS, start=start)


def torchrun_two_hosts():
    """The first host's name leads that host to itself only (127.0.1.1, as Debian has it), the other to an address."""
    with Folder() as f, Hosts(2) as hosts:
        def on(h, args):
            with open(f.file(f"hosts{h}"), "w") as file:
                own = hosts.address(1) if h else "127.0.1.1"
                file.write(f"127.0.0.1 localhost\n{own} {socket.gethostname()}\n"
                           f"{hosts.address(0) if h else own} host0\n")
            return ["nsenter", f"--net=/run/netns/{hosts.names[h]}", "unshare", "-m", "sh", "-c",
                    f"mount --bind {f.file(f'hosts{h}')} /etc/hosts && exec \"$@\"", "sh", *args]

        for place in (["--master-addr", "host0", "--master-port", "29500"],
                      ["--rdzv-backend", "c10d", "--rdzv-id", "two", "--rdzv-endpoint", "host0:29501", "--local-addr"]):
            commands = []
            for h in (0, 1):
                own = ["host0" if h == 0 else hosts.address(1)] if "--local-addr" in place else []
                commands.append(on(h, torchrun(2, "--nnodes", "2", "--node-rank", str(h), *place, *own) +
                                   [RANK, "do=reduce", "timeout=40"]))
            for code, out in together(commands, limit=90):
                expect(code == 0 and out.count("by torchrun path shared memory + gloo") == 2, out)


def summary(out):
    """What torchrun says about the first failure."""
    found = re.search(r"Root Cause.*?\n(.*?)=====", out, re.DOTALL)
    if not found:
        raise Failure(f"no summary in\n{out}")
    return found.group(1)


def torchrun_failed():
    """The rank that failed is the root cause, with its own message; whoever saw it fail is not."""
    for culprit, n in ((0, 2), (1, 2), (2, 3)):
        r = run(torchrun(n) + [RANK, "do=loop", f"fail={culprit}@5"], limit=90)
        text = summary(r.out)
        expect(r.code == 1 and f"rank      : {culprit} " in text and "loss is nan at update 5" in text, r.out)


def torchrun_crashed():
    r = run(torchrun(3) + [RANK, "do=loop", "kill=1@5"], limit=90)
    text = summary(r.out)
    expect(r.code == 1 and "rank      : 1 " in text and "Signal 9 (SIGKILL)" in text, r.out)


def torchrun_error_file():
    """A file that cannot be read as JSON would end torchrun with a traceback: bytes of names, quotes, lines."""
    with Folder() as f:
        path = f.file("error.json")
        name = b"no-\xff\xfe\"\\\n\x01-\xc3\xa4-\xed\xa0\x80.json"
        p = subprocess.run([RANK.encode(), b"do=text", b"text=0:" + name], stdout=subprocess.PIPE, timeout=30,
                           stderr=subprocess.STDOUT, env=dict(os.environ, TORCHELASTIC_ERROR_FILE=path))
        expect(p.returncode == 1 and os.listdir(f.path) == ["error.json"], p.stdout)
        with open(path, encoding="utf-8") as file:
            record = json.load(file)["message"]
        expect(record["message"].startswith("no-") and record["message"].endswith("-\u00e4-???.json"), record)
        expect(abs(int(record["extraInfo"]["timestamp"]) - time.time()) < 30, record)


def torchrun_restarts():
    """The store keeps what the first round wrote: the second meets anyway, and the run is the same."""
    with Folder() as f:
        reference = Reference(f)
        # Rank 0 comes late, so that rank 1 finds the first round's entry in the store.
        script = f.file("script")
        with open(script, "w") as file:
            file.write("#!/bin/sh\nif [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then\n"
                       f"  exec {RANK} do=loop fail=1@3 timeout=20\nfi\n"
                       "[ $RANK = 0 ] && sleep 0.5\nexec \"$@\"\n")
        os.chmod(script, 0o755)
        r = reference.compare("restarts", torchrun(2, "--max-restarts", "2") + [script], 2, 1, SAYS, limit=90)
        expect("loss is nan at update 3" in r.out, r.out)


def torchrun_stopped():
    stop_and_go(torchrun(2), lambda p, _: p.terminate())


def torchrun_resumes():
    """A rank is killed in training; torchrun starts the ranks anew, they go on from the newest checkpoint: the bits of
    a run that nobody disturbed."""
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        flags = ["--max_steps", "1500", "--save_strategy", "steps", "--save_steps", "50"]
        _, log = f.train(binary, "own", 2, flags)
        with open(f.file("out"), "w+") as out:
            p = subprocess.Popen(torchrun(2, "--max-restarts", "2") + [
                binary, "--output_dir", f.file("torch"), "--resume_from_checkpoint", "true", *flags], stdout=out,
                                 stderr=out, start_new_session=True)
            try:
                wait_for(lambda: os.path.exists(f.file("torch/checkpoint-100")), 60, "a checkpoint")
                end_children(p.pid, 1)
                code = p.wait(timeout=60)
            finally:
                try:
                    os.killpg(p.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                p.wait()
            text = read(out)
        expect(code == 0 and text.count("2 ranks (torchrun") == 2, text)
        expect(content(f.file("own/model.safetensors")) == content(f.file("torch/model.safetensors")), "other weights")


def torchrun_fewer_hosts():
    """An agent is killed with its rank; the other rank notices, and its agent goes on alone: a world of one takes up
    the newest checkpoint, with twice the micro-batches."""
    with Folder() as f:
        port = free_port()
        binary = f.compile(JOB, "digits")
        command = torchrun(1, "--nnodes", "1:2", "--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-id", "fewer",
                           "--rdzv-endpoint", f"localhost:{port}", "--rdzv-conf",
                           "last_call_timeout=15,keep_alive_interval=1,keep_alive_max_attempt=2", binary,
                           "--output_dir", f.file("o"), "--resume_from_checkpoint", "true", "--max_steps", "3000",
                           "--save_strategy", "steps", "--save_steps", "50", "--eval_strategy", "no")
        outs = [open(f.file(f"out{k}"), "w+") for k in (0, 1)]
        ps = []
        try:
            for out in outs:
                ps.append(subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True))
                if len(ps) == 1:  # the agent that holds the store is the one that stays
                    wait_for(lambda: listening(port), 40, "the first agent")
            wait_for(lambda: os.path.exists(f.file("o/checkpoint-50")), 60, "a checkpoint")
            end_children(ps[1].pid)
            ps[1].kill()
            code = ps[0].wait(timeout=90)
            text = read(outs[0])
            expect(code == 0 and "lost rank" in text and "gradient_accumulation_steps" in text, text)
            log = read_log(f.file("o"))
            expect([r["world_size"] for r in log if "world_size" in r][-1] == 1, f"{log[0]}")
            expect(os.path.exists(f.file("o/model.safetensors")), text)
        except (Failure, subprocess.TimeoutExpired) as e:
            raise Failure(f"{e}\n" + "\n".join(read(o) for o in outs))
        finally:
            for p in ps:
                try:
                    os.killpg(p.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                p.wait()


def torchrun_more_hosts():
    """A second agent joins a run of one rank, which is stopped with a checkpoint; both go on from it with half the
    micro-batches. Without the variable torchrun itself hangs."""
    with Folder() as f:
        port = free_port()
        binary = f.compile(JOB, "digits", ["train.gradient_accumulation_steps=2"])
        command = torchrun(1, "--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-id", "more", "--rdzv-endpoint",
                           f"localhost:{port}", "--rdzv-conf", "last_call_timeout=1", binary, "--output_dir",
                           f.file("o"), "--resume_from_checkpoint", "true", "--save_strategy", "no",
                           "--eval_strategy", "no", "--max_steps", "1000000")
        outs = [open(f.file(f"out{k}"), "w+") for k in (0, 1)]
        ps = []
        try:
            for out in outs:
                ps.append(subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True,
                                           env=dict(os.environ, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")))
                if len(ps) == 1:
                    wait_for(lambda: "step 100/" in read(outs[0]), 60, "updates of one rank")
            wait_for(lambda: any("2 ranks (torchrun" in read(o) for o in outs), 60, "two ranks")
            log = f.file("o/log.jsonl")
            wait_for(lambda: any(r.get("world_size") == 2 for r in read_log(f.file("o"))), 20, "the log of two ranks")
            lines = len(content(log).splitlines())
            wait_for(lambda: len(content(log).splitlines()) > lines + 3, 20, "updates of two ranks")
            text = "".join(read(o) for o in outs)
            expect("stopped by SIGTERM after update" in text and "gradient_accumulation_steps" in text, text)
        except Failure as e:
            raise Failure(f"{e}\n" + "\n".join(read(o)[-4000:] for o in outs))
        finally:
            for p in ps:
                p.terminate()
            for p in ps:
                try:
                    p.wait(timeout=40)
                except subprocess.TimeoutExpired:
                    os.killpg(p.pid, signal.SIGKILL)
                    p.wait()


def read(file):
    file.seek(0)
    return file.read()


def listening(port):
    with open("/proc/net/tcp6") as a, open("/proc/net/tcp") as b:
        return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
                   for line in (a.read() + b.read()).splitlines() if ":" in line)


def end_children(pid, most=None):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        for child in f.read().split()[:most]:
            os.kill(int(child), signal.SIGKILL)


def torchrun_killed():
    """torchrun leaves its ranks alive when it is killed itself; they notice."""
    with Folder() as f:
        with open(f.file("out"), "w+") as out:
            p = subprocess.Popen(torchrun(2) + [RANK, "do=loop", "hang=1@2", "timeout=57"], stdout=out, stderr=out,
                                 start_new_session=True)
            wait_for(lambda: read(out).count("by torchrun") == 2, 40, "two ranks")
            with open(f"/proc/{p.pid}/task/{p.pid}/children") as file:
                ranks = [int(x) for x in file.read().split()]
            p.kill()
            p.wait()
            wait_for(lambda: not any(os.path.exists(f"/proc/{k}") for k in ranks), 10, "the ranks to end")
            expect("the launcher (pid" in read(out), read(out))


def torchrun_twice():
    r = run(torchrun(2) + [RANK, "--nproc-per-node", "2", "do=reduce"], limit=90)
    expect(r.code == 1 and "launched twice: --nproc-per-node under torchrun" in r.out, r.out)


def accelerate_one_process():
    """Without GPUs accelerate starts one process, whatever was asked for: that starts the ranks."""
    for flags in (("--cpu",), ()):
        compare_all("accelerate", lambda n: accelerate(n, *flags), "accelerate --num_processes, shared memory",
                    worlds=(1, 3) if flags else (2,), limit=90)


def accelerate_script():
    """The program's own --num_processes is not accelerate's, and a script may stand between."""
    with Folder() as f:
        script = f.file("script")
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\n{RANK} do=reduce\nexit $?\n")
        os.chmod(script, 0o755)
        r = run(accelerate(2, "--cpu") + [script, "--num_processes", "7"], limit=90)
        expect(r.code == 0 and r.out.count("by accelerate --num_processes path shared memory") == 2, r.out)


def accelerate_precision():
    """What the program was compiled for stays; that accelerate was told something else is said once."""
    with Folder() as f:
        for name, flags in (("plain", []), ("bf16", ["-D", "train.bf16=true"])):
            binary = f.compile(JOB, name, flags=flags)
            for asked in ("no", "bf16"):
                r = run(accelerate(2, "--cpu", "--mixed_precision", asked) + [
                    binary, "--output_dir", f.file("o"), *FLAGS], limit=90)
                says = r.out.count(f"accelerate's --mixed_precision {asked} is not what")
                expect(r.code == 0 and says == (asked == "bf16" and name == "plain"), f"{name}, {asked}:\n{r.out}")


def accelerate_as_torchrun():
    compare_all("accelerate --multi_gpu", lambda n: accelerate(n, "--multi_gpu", "--main_process_port",
                                                               str(free_port())), SAYS, worlds=(2, 4), limit=90)


def accelerate_mpirun():
    installed("mpirun")
    with Folder() as f:
        with open(f.file("hosts"), "w") as file:
            file.write("localhost slots=4\n")
        compare_all("accelerate with mpirun", lambda n: accelerate(
            n, "--cpu", "--mpirun_hostfile", f.file("hosts"), "--main_process_port", str(free_port())),
                    "Open MPI, shared memory", AS_ROOT, (2,), limit=90)


def accelerate_machines():
    """Two machines: each starts its share, of which the command line tells as well."""
    port = str(free_port())
    results = together([accelerate(4, "--cpu", "--num_machines", "2", "--machine_rank", str(k), "--main_process_ip",
                                   "127.0.0.1", "--main_process_port", port) + [RANK, "do=reduce"] for k in (0, 1)],
                       limit=90)
    for code, out in results:
        expect(code == 0 and out.count("by accelerate --num_processes path shared memory") == 2, out)


main({k: v for k, v in list(globals().items()) if k.startswith(("torchrun_", "accelerate_"))})
