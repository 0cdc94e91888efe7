"""Open MPI and hydra (MPICH, Intel MPI): the same bits as our own launcher; several hosts without an address; a
launcher that only speaks PMIx; failures. Their limits stand far from both what is measured (under 4 s) and what a
failure that is not noticed would take (30 s and more): how fast a launcher is, is its own affair."""
import os

from launchtest import (AS_ROOT, RANK, Folder, Hosts, Skip, compare_all, expect, free_port, installed, main, run,
                        stop_and_go)

WITHOUT_SIZE = ["env", "-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE"]


def openmpi():
    mpirun = installed("mpirun.openmpi", "mpirun")
    if not any(x in run([mpirun, "--version"]).out for x in ("Open MPI", "OpenRTE")):
        raise Skip("Open MPI is not installed")
    return mpirun


def hydra():
    return installed("mpiexec.hydra")


def agent(folder, hosts):
    """A script that runs a command on a host given by address, as ssh does."""
    path = folder.file("agent")
    with open(path, "w") as f:
        f.write("#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\ncase \"$1\" in\n")
        for h, name in enumerate(hosts.names):
            f.write(f"{hosts.address(h)}) shift; exec ip netns exec {name} sh -c \"$*\";;\n")
        f.write("esac\necho \"no host $1\" >&2\nexit 1\n")
    os.chmod(path, 0o755)
    return path


def openmpi_bits():
    mpirun = openmpi()
    compare_all("mpirun", lambda n: [mpirun, "--oversubscribe", "-np", str(n)], "Open MPI, shared memory", AS_ROOT)


def openmpi_address():
    address = dict(AS_ROOT, MASTER_ADDR="localhost", MASTER_PORT=str(free_port()))
    mpirun = openmpi()
    compare_all("mpirun with an address", lambda n: [mpirun, "--oversubscribe", "-np", str(n)],
                "Open MPI, shared memory", address, (2, 3))


def pmix_bits():
    """What is left of Open MPI is a launcher that says rank and namespace, and answers questions over PMIx."""
    mpirun = openmpi()
    compare_all("pmix", lambda n: [mpirun, "--oversubscribe", "-np", str(n)] + WITHOUT_SIZE, "PMIx, shared memory",
                AS_ROOT)


def pmix_missing():
    """libpmix knows no deadline: the program does."""
    with Folder() as f:
        script = f.file("script")
        with open(script, "w") as file:  # as if on several hosts: then PMIx has to carry the address
            file.write("#!/bin/sh\nunset OMPI_COMM_WORLD_LOCAL_SIZE\n[ $PMIX_RANK = 1 ] && exec sleep 30\n"
                       f"exec {RANK} do=reduce timeout=2\n")
        os.chmod(script, 0o755)
        r = run([openmpi(), "--oversubscribe", "-np", "3", script], env=AS_ROOT, limit=40)
        expect(r.code == 5 and "not all ranks came to the launcher's PMIx server within 2 s" in r.out and
               r.seconds < 25, f"{r.seconds:.1f} s: {r.code}\n{r.out}")


def pmix_without_server():
    """Variables that a shell inherited from a launcher that is gone."""
    r = run([RANK, "do=reduce"], env=dict(PMIX_RANK="0", PMIX_NAMESPACE="x"), limit=30)
    expect(r.code == 2 and "PMIx" in r.out and r.seconds < 25, f"{r.seconds:.1f} s: {r.code}\n{r.out}")


def openmpi_two_hosts():
    """No address is given: libpmix carries rank 0's."""
    mpirun = openmpi()
    with Folder() as f, Hosts(2) as hosts:
        command = [mpirun, "--mca", "plm_rsh_agent", agent(f, hosts), "--mca", "oob_tcp_if_include", "wire", "-H",
                   ",".join(f"{hosts.address(h)}:2" for h in (0, 1)), "-np", "4", "--bind-to", "none"]
        for between, by in (([], "Open MPI"), (WITHOUT_SIZE, "PMIx")):
            r = run(hosts.on(0, command + between + [RANK, "do=reduce", "timeout=30"]), env=AS_ROOT)
            expect(r.code == 0 and r.out.count(f"by {by} path shared memory + gloo") == 4, r.out)


def openmpi_killed():
    """A rank that is killed: the others say which, before mpirun ends them."""
    r = run([openmpi(), "--oversubscribe", "-np", "3", RANK, "do=loop", "kill=1@5", "timeout=60"], env=AS_ROOT)
    expect(r.code not in (0, 5) and "lost rank 1" in r.out and r.seconds < 25, f"{r.seconds:.1f} s: {r.code}\n{r.out}")


def openmpi_stopped():
    """mpirun passes SIGTERM on and kills about a second later: enough for a checkpoint."""
    stop_and_go([openmpi(), "--oversubscribe", "-np", "2"], lambda p, _: p.terminate(), AS_ROOT)


def hydra_stopped():
    """hydra itself calls it a good end, when its own is the first process to end."""
    stop_and_go([hydra(), "-np", "2"], lambda p, _: p.terminate(), fails=False)


def hydra_bits():
    compare_all("hydra", lambda n: [hydra(), "-np", str(n)], "hydra, shared memory")


def hydra_without_descriptor():
    """Its PMI is gone (a shell that closes descriptors): ranks of one host still meet."""
    compare_all("hydra", lambda n: [hydra(), "-np", str(n), "env", "-u", "PMI_FD"], "hydra, shared memory",
                worlds=(2, 3))


def hydra_scripts():
    """A script stands between hydra and each rank."""
    with Folder() as f:
        script = f.file("script")
        with open(script, "w") as file:
            file.write("#!/bin/sh\n\"$@\"\nexit $?\n")
        os.chmod(script, 0o755)
        r = run([hydra(), "-np", "3", script, RANK, "do=reduce", "timeout=10"])
        expect(r.code == 0 and r.out.count("by hydra path shared memory") == 3, r.out)


def hydra_two_hosts():
    """Rank 0 says all its addresses, or those of the interface that the user names."""
    with Folder() as f, Hosts(2) as hosts:
        command = [hydra(), "-launcher", "ssh", "-launcher-exec", agent(f, hosts), "-iface", "wire", "-hosts",
                   ",".join(hosts.address(h) for h in (0, 1)), "-ppn", "2", "-np", "4"]
        for env in ({}, {"GLOO_SOCKET_IFNAME": "wire"}, {"NCCL_SOCKET_IFNAME": "wi"},
                    {"NCCL_SOCKET_IFNAME": "^lo"}):
            r = run(hosts.on(0, command + [RANK, "do=reduce", "timeout=30"]), env=env)
            expect(r.code == 0 and r.out.count("by hydra path shared memory + gloo") == 4, f"{env}\n{r.out}")
        r = run(hosts.on(0, command + [RANK, "do=reduce", "timeout=3"]), env={"NCCL_SOCKET_IFNAME": "ib"})
        expect(r.code != 0 and "this host has no address that others could reach" in r.out, r.out)


def hydra_failed():
    """hydra does not end the others when a rank ends with an error: they do it themselves. When one is killed it
    ends them at once."""
    r = run([hydra(), "-np", "3", RANK, "do=loop", "fail=1@5", "timeout=60"])
    expect(r.code != 0 and r.out.count("lost rank 1: loss is nan at update 5") == 2 and r.seconds < 25, r.out)
    r = run([hydra(), "-np", "3", RANK, "do=loop", "kill=1@5", "timeout=60"])
    expect(r.code == 9 and r.seconds < 25, f"{r.code}\n{r.out}")


def hydra_missing():
    """A rank that ends before the ranks meet is named."""
    r = run([hydra(), "-np", "3", "sh", "-c", f"[ $PMI_RANK = 1 ] || exec {RANK} do=reduce timeout=2"], limit=30)
    expect(r.code != 0 and "rank 1 did not come within 2 s" in r.out and r.seconds < 25, f"{r.code}\n{r.out}")


main({k: v for k, v in list(globals().items()) if k.startswith(("openmpi_", "hydra_", "pmix_"))})
