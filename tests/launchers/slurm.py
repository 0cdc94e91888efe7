"""Slurm: a cluster of two nodes, each on a host of its own (network namespaces), made for the test. srun without PMI,
with PMI-2 and with PMIx, on one node and on two."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from launchtest import (RANK, Folder, Hosts, Reference, Skip, compare_all, content, expect, installed, losses, main,
                        read_log, run, same, stop_and_go, together, wait_for)

CONF = """ClusterName=ddptest
SlurmctldHost={host}({first})
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
KillWait=10
SlurmctldPidFile={folder}/ctld.pid
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/%n
TmpFS={folder}/%n
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SelectType=select/linear
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname={host} NodeAddr={first} Port={node1} CPUs=4
NodeName=n2 NodeHostname={host} NodeAddr={second} Port={node2} CPUs=4
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


class Slurm:
    """A controller, two daemons, and srun."""

    def __init__(self):
        self.programs = {name: installed(name) for name in ("slurmctld", "slurmd", "srun", "sinfo", "sbatch")}
        if os.getuid():
            raise Skip("only root can run Slurm's daemons")
        if not os.path.ismount("/sys/fs/cgroup"):
            raise Skip("Slurm's daemons want /sys/fs/cgroup")
        self.hosts = Hosts(2)
        self.daemons = []

    def __enter__(self):
        self.hosts.__enter__()
        self.folder = tempfile.mkdtemp(prefix="slurm-")  # short: sockets' names must fit
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        a, b = self.hosts.address(0), self.hosts.address(1)
        for h in (0, 1):  # names that only these hosts know
            with open(f"{self.folder}/hosts{h}", "w") as f:
                f.write(f"127.0.0.1 localhost\n{a} n1 {socket.gethostname() if h == 0 else ''}\n{b} n2\n")
        for name in ("state", "n1", "n2"):
            os.mkdir(f"{self.folder}/{name}")
        self.conf = f"{self.folder}/slurm.conf"
        with open(self.conf, "w") as f:
            f.write(CONF.format(host=socket.gethostname(), first=a, second=b, folder=self.folder, port=6817,
                                node1=6818, node2=6818))
        self.env = {"SLURM_CONF": self.conf}
        self.daemon(0, self.programs["slurmctld"], "-D", "-f", self.conf)
        self.daemon(0, self.programs["slurmd"], "-D", "-N", "n1", "-f", self.conf)
        self.daemon(1, self.programs["slurmd"], "-D", "-N", "n2", "-f", self.conf)
        idle = self.on(0, [self.programs["sinfo"], "-h", "-t", "idle", "-o", "%D"])
        wait_for(lambda: run(idle, env=self.env).out.strip() == "2", 30, "two nodes")

    def on(self, h, args):
        """As `ip netns exec`, but /sys stays as it is: slurmd wants its cgroups."""
        return ["nsenter", f"--net=/run/netns/{self.hosts.names[h]}", "unshare", "-m", "sh", "-c",
                f"mount --bind {self.folder}/hosts{h} /etc/hosts && exec \"$@\"", "sh", *args]

    def daemon(self, host, *args):
        with open(f"{self.folder}/daemons", "a") as out:
            self.daemons.append(subprocess.Popen(self.on(host, list(args)), stdout=out, stderr=out,
                                                 start_new_session=True, env=dict(os.environ, **self.env)))

    def srun(self, *flags):
        return self.on(0, [self.programs["srun"], "--quit-on-interrupt", *flags])

    def __exit__(self, *_):
        for p in reversed(self.daemons):
            p.terminate()
        stop = time.monotonic() + 10
        for p in self.daemons:
            try:
                p.wait(timeout=max(0.1, stop - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
        self.hosts.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)


def kinds(slurm):
    """The ways of srun that this installation has: (flags, what the program calls it)."""
    listed = run(slurm.srun("--mpi=list"), env=slurm.env).out
    yield [], "Slurm"
    yield ["--mpi=pmi2"], "Slurm (PMI)"
    if "pmix" in listed and os.path.exists("/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so"):
        yield ["--mpi=pmix"], "Slurm"


def one_node():
    with Slurm() as slurm:
        for flags, says in kinds(slurm):
            compare_all(f"srun {''.join(flags)}", lambda n: slurm.srun("-N1", f"-n{n}", *flags),
                        f"{says}, shared memory", slurm.env)


def two_nodes():
    """Without an address: the step's first host and a port made from its number, PMI-1, or PMIx."""
    with Slurm() as slurm:
        for flags, says in kinds(slurm):
            for ranks in (2, 3, 4):
                r = run(slurm.srun("-N2", f"-n{ranks}", *flags, RANK, "do=reduce", "timeout=20"), env=slurm.env)
                path = "gloo" if ranks == 2 else "shared memory + gloo"
                expect(r.code == 0 and r.out.count(f"by {says} path {path}") == ranks, f"{flags}, {ranks}:\n{r.out}")


def address():
    """A user's address wins over all of them."""
    with Slurm() as slurm:
        env = dict(slurm.env, MASTER_ADDR="n1", MASTER_PORT="23456")
        for flags, says in kinds(slurm):
            r = run(slurm.srun("-N2", "-n3", *flags, RANK, "do=reduce", "timeout=20"), env=env)
            expect(r.code == 0 and r.out.count(f"by {says} path") == 3, f"{flags}:\n{r.out}")


def busy_ports():
    """The first candidates are taken: by a silent program, and by rank 0 of another job."""
    with Slurm() as slurm, Folder() as f:
        probe = f.file("probe")
        with open(probe, "w") as file:
            file.write("#!/bin/sh\necho $SLURM_JOB_ID.$SLURM_STEP_ID\n")
        os.chmod(probe, 0o755)
        r = run(slurm.srun("-N1", "-n1", probe), env=slurm.env)
        job = int(r.out.split(".")[0]) + 1  # the next one's number
        first, second = (candidate(f"slurm-{job}.0", i) for i in (0, 1))
        silent = subprocess.Popen(slurm.on(0, ["python3", "-c", "import socket, time\n"
                                               f"s = socket.create_server(('', {first}))\n"
                                               "print('up', flush=True)\ntime.sleep(60)"]),
                                  stdout=subprocess.PIPE)
        other = subprocess.Popen(slurm.on(0, [RANK, "timeout=60"]), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL,
                                 env=dict(os.environ, RANK="0", WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1",
                                          MASTER_ADDR="n1", MASTER_PORT=str(second), TORCHELASTIC_RUN_ID="other",
                                          TORCHELASTIC_USE_AGENT_STORE="False"))
        try:
            silent.stdout.readline()
            with_port = slurm.on(0, ["sh", "-c", f"grep -q ':{second:04X} .* 0A' /proc/net/tcp /proc/net/tcp6"])
            wait_for(lambda: run(with_port).code == 0, 20, "the other job")
            r = run(slurm.srun("-N2", "-n3", RANK, "do=reduce", "timeout=30"), env=slurm.env)
            expect(r.code == 0 and r.out.count("by Slurm path shared memory + gloo") == 3, r.out)
            expect(other.poll() is None, "the other job was disturbed")
        finally:
            for p in (silent, other):
                p.kill()
                p.wait()


def candidate(job, i):
    """As runtime/comm/slurm.c: both sides of a job must come to the same ports, so the rule may not change."""
    hash = 5381
    for c in job.encode():
        hash = (hash * 33 + c) & 0xFFFFFFFF
    return 20000 + ((hash + i * 1237) & 0xFFFFFFFF) % 10000


def batch_without_srun():
    """A batch script of two tasks that forgets srun is one rank, and says so."""
    with Slurm() as slurm, Folder() as f:
        with open(f.file("script"), "w") as file:
            file.write(f"#!/bin/sh\n{RANK} do=reduce\n")
        r = run(slurm.on(0, [slurm.programs["sbatch"], "--wait", "-N2", "-n2", "-o", f.file("out"),
                                   f.file("script")]), env=slurm.env)
        with open(f.file("out")) as file:
            out = file.read()
        expect(r.code == 0 and "by no launcher path one rank" in out and "srun did not start this program" in out,
               f"{r.out}\n{out}")


def own_launcher_in_a_step():
    """srun starts one process on each host, our own launcher the ranks."""
    with Slurm() as slurm:
        r = run(slurm.srun("-N1", "-n1", RANK, "--nproc-per-node", "3", "do=reduce"), env=slurm.env)
        expect(r.code == 0 and r.out.count("by own launcher path shared memory") == 3, r.out)


def failed():
    """srun does not end the others when a rank fails."""
    with Slurm() as slurm:
        for flags, _ in kinds(slurm):
            for event in ("fail=2@5", "kill=2@5"):
                r = run(slurm.srun("-N2", "-n3", *flags, RANK, "do=loop", event, "timeout=60"), env=slurm.env)
                expect(r.code != 0 and r.seconds < 40, f"{flags} {event}, {r.seconds:.1f} s: {r.code}\n{r.out}")
                if not flags:
                    expect("lost rank 2" in r.out, f"{event}:\n{r.out}")


def cancelled():
    """scancel: the ranks have KillWait seconds."""
    with Slurm() as slurm:
        def cancel(_, out):
            jobs = run(slurm.on(0, [installed("squeue"), "-h", "-o", "%i"]), env=slurm.env).out.split()
            expect(len(jobs) == 1, f"{jobs}\n{out}")
            run(slurm.on(0, [installed("scancel"), jobs[0]]), env=slurm.env)

        stop_and_go(slurm.srun("-N1", "-n2"), cancel, slurm.env)


def bits_on_two_nodes():
    """Two nodes with two ranks each: the losses of our own launcher on the same two hosts."""
    with Slurm() as slurm, Folder() as f:
        reference = Reference(f)
        flags = reference.flags(3) + ["--ddp_timeout", "60"]
        r = run(slurm.srun("-N2", "-n4", reference.binary, "--output_dir", f.file("slurm"), *flags), env=slurm.env)
        expect(r.code == 0, r.out)
        own = [slurm.on(h, [reference.binary, "--output_dir", f.file("own"), *flags, "--nproc-per-node", "2",
                            "--nnodes", "2", "--node-rank", str(h), "--master-addr", "n1"]) for h in (0, 1)]
        results = together(own)
        expect(all(code == 0 for code, _ in results), f"{results}")
        same_files(f.file("slurm"), f.file("own"))


def same_files(a, b):
    same(losses(read_log(a)), losses(read_log(b)), 0, "two hosts")
    expect(content(f"{a}/model.safetensors") == content(f"{b}/model.safetensors"), "other weights")


main(dict(one_node=one_node, two_nodes=two_nodes, address=address, busy_ports=busy_ports,
          batch_without_srun=batch_without_srun, own_launcher_in_a_step=own_launcher_in_a_step, failed=failed,
          bits_on_two_nodes=bits_on_two_nodes, cancelled=cancelled))
