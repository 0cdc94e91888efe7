"""What Kubernetes and clouds set: variables of torchrun's options, one rank for each pod, several for each host; names
that are known late; the message of a failure. Pods are processes of one host or, where hosts can be made, of two."""
import os
import subprocess

from launchtest import RANK, Folder, Hosts, Reference, expect, free_port, main, run, together, wait_for


def pair(variables, program, limit=60):
    """Two pods: VARIABLES(k) of pod k."""
    results = together([program] * 2, limit, [variables(k) for k in (0, 1)])
    return type("Result", (), {"code": max(code for code, _ in results), "out": "".join(out for _, out in results)})


CASES = {
    "TrainJob": (4, "PET_* variables", lambda k, port: dict(
        PET_NNODES="2", PET_NPROC_PER_NODE="2", PET_NODE_RANK=str(k), PET_MASTER_ADDR="localhost",
        PET_MASTER_PORT=port)),
    "PyTorchJob": (2, "torch environment, one rank per host", lambda k, port: dict(
        MASTER_ADDR="localhost", MASTER_PORT=port, RANK=str(k), WORLD_SIZE="2", PYTHONUNBUFFERED="1")),
    "PyTorchJob with nprocPerNode": (4, "PET_* variables", lambda k, port: dict(
        MASTER_ADDR="localhost", MASTER_PORT=port, RANK=str(k), WORLD_SIZE="4", PET_NNODES="2",
        PET_NPROC_PER_NODE="2", PET_NODE_RANK=str(k))),
    "Volcano": (2, "torch environment, one rank per host", lambda k, port: dict(
        MASTER_ADDR="localhost", MASTER_PORT=port, RANK=str(k), WORLD_SIZE="2", VC_TASK_INDEX=str(k))),
    "DLC": (4, "NPROC_PER_NODE", lambda k, port: dict(
        MASTER_ADDR="localhost", MASTER_PORT=port, RANK=str(k), WORLD_SIZE="2", NPROC_PER_NODE="2")),
}


def bits():
    with Folder() as f:
        reference = Reference(f)
        for name, (world, says, variables) in CASES.items():
            for accumulation in (1, 3):
                port = str(free_port())

                def start(program):
                    r = pair(lambda k: variables(k, port), program)
                    expect(r.code == 0, f"{name}:\n{r.out}")
                    return r

                reference.compare(name, None, world, accumulation, f"{says}, shared memory", start=start)


def late_name():
    """Pod 0's name cannot be resolved at first; the other pod asks again."""
    with Folder() as f, Hosts(2) as hosts:
        names = f.file("hosts")
        with open(names, "w") as file:
            file.write("127.0.0.1 localhost\n")
        start = "mount --bind %s /etc/hosts && exec %s do=reduce timeout=40" % (names, RANK)
        ps = [subprocess.Popen(["nsenter", f"--net=/run/netns/{hosts.names[k]}", "unshare", "-m", "sh", "-c", start],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=dict(os.environ, RANK=str(k), WORLD_SIZE="2", MASTER_ADDR="job-master-0.job",
                                        MASTER_PORT="23456")) for k in (0, 1)]
        try:
            line = ps[1].stdout.readline()  # after ten seconds of asking
            expect("waiting for rank 0 at job-master-0.job:23456" in line and "its name" in line, line)
            with open(names, "a") as file:
                file.write(f"{hosts.address(0)} job-master-0.job\n")
            outs = [p.communicate(timeout=30)[0] for p in ps]
            expect(all(p.returncode == 0 for p in ps) and "path gloo" in outs[0], f"{outs}")
        finally:
            for p in ps:
                p.kill()
                p.wait()


def name_servers_are_silent():
    """Looking a name up takes the C library longer, 20 s, than the job is allowed to wait."""
    with Folder() as f, Hosts(1) as hosts:
        with open(f.file("resolv.conf"), "w") as file:
            file.write("nameserver 10.77.0.200\nnameserver 10.77.0.201\n")
        command = f"mount --bind {f.file('resolv.conf')} /etc/resolv.conf && exec {RANK} timeout=2"
        r = run(["nsenter", f"--net=/run/netns/{hosts.names[0]}", "unshare", "-m", "sh", "-c", command], limit=30,
                env=dict(RANK="1", WORLD_SIZE="2", MASTER_ADDR="no-such-host.example", MASTER_PORT="2"))
        expect(r.code == 5 and "its name" in r.out and r.seconds < 10, f"{r.seconds:.1f} s, {r.code}\n{r.out}")


def ipv6():
    """The numeric address with and without brackets, and a name that has both kinds."""
    for name in ("::1", "[::1]", "localhost"):
        port = str(free_port())
        r = pair(lambda k: dict(RANK=str(k), WORLD_SIZE="2", LOCAL_RANK=str(k), LOCAL_WORLD_SIZE="2", MASTER_ADDR=name,
                                MASTER_PORT=port), [RANK, "do=reduce", "timeout=20"])
        expect(r.code == 0 and r.out.count("path shared memory") == 2, f"{name}:\n{r.out}")


def termination_log():
    """The launcher's file for the last message gets it; nothing is made where there is none."""
    with Folder() as f:
        path = f.file("log")
        for there in (False, True):
            if there:
                open(path, "w").close()
            r = run([RANK, "do=text", "text=0:disk-full"], env=dict(DDP_TERMINATION_LOG=path))
            expect(r.code == 1 and os.path.exists(path) == there, r.out)
        with open(path) as file:
            expect(file.read() == "disk-full\n", "another message")


main(dict(bits=bits, late_name=late_name, name_servers_are_silent=name_servers_are_silent, ipv6=ipv6,
          termination_log=termination_log))
