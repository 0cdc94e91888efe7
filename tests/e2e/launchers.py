"""The same binary under our own launcher, mpirun and torchrun prints the same losses."""
import os
import shutil

from ddptest import Failure, Folder, losses, main, must, read_log, same

JOB = "examples/digits/job.ddp"
FLAGS = ["--max_steps", "40", "--eval_strategy", "no", "--logging_steps", "1"]
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def torchrun():
    """torchrun of the Python named by DDP_TORCH_PYTHON, else of PATH."""
    python = os.environ.get("DDP_TORCH_PYTHON")
    found = os.path.join(os.path.dirname(python), "torchrun") if python else shutil.which("torchrun")
    if not found or not os.path.exists(found):
        raise Failure("torchrun is not installed (set DDP_TORCH_PYTHON)")
    return found


def compare(launchers, env=None):
    with Folder() as f:
        binary = f.compile(JOB, "digits")
        _, own = f.train(binary, "own", 2, FLAGS)
        for name, launcher in launchers.items():
            out = f.file(name)
            must(launcher + [binary, "--output_dir", out] + FLAGS, env=env)
            same(losses(own), losses(read_log(out)), 0, name)


def mpirun():
    compare({"mpirun": ["mpirun", "-np", "2", "--oversubscribe"]}, MPI)


def torch():
    t = [torchrun(), "--no-python", "--nproc_per_node=2"]
    compare({"default": t, "standalone": t + ["--standalone"], "static": t + ["--master-port", "29517"]})


main(dict(mpirun=mpirun, torchrun=torch))
