"""Row 47: more than 2^31 elements. A buffer of bytes that is counted, changed, read at its end, saved and loaded, and
a token file beyond 2^32 bytes of which the last window is read: large.ddp and last_window.ddp. Skipped (77) where memory
or disk lack the room."""
import os
import shutil
import struct
import sys

from reports import Folder, Job, expect, logged, main, must, near, read_log

ELEMENTS = 2_200_000_000
NEEDED = 3 * ELEMENTS + (1 << 30)  # buffer, its new value, the file's pages


def room():
    with open("/proc/meminfo") as f:
        kib = next(int(line.split()[1]) for line in f if line.startswith("MemAvailable"))
    return min(kib * 1024, shutil.disk_usage("/tmp").free)


def row_47_a_buffer():
    with Folder() as f:
        job = Job(f, "large")
        job.data(train=[[0]] * 4)
        binary, out = job.binary(), f.file("out")
        must([binary, "--output_dir", out], limit=400)
        near(logged(read_log(out), "loss"), [0, ELEMENTS / 1e6 + 3], "the sum of all, and the last one", 1e-6)
        path = os.path.join(out, "model.safetensors")
        expect(os.path.getsize(path) > ELEMENTS, f"{os.path.getsize(path)} bytes")
        with open(path, "rb") as file:
            file.seek(-3, os.SEEK_END)
            last = list(file.read())
        expect(last == [2, 2, 6], f"the file ends with {last}")
        again = f.file("again")
        must([binary, "--output_dir", again, "--init-from", path, "--max_steps", "1"], limit=400)
        near(logged(read_log(again), "loss"), [2 * (ELEMENTS + 2) / 1e6 + 6], "after loading", 1e-6)


def row_47_a_file():
    with Folder() as f:
        job = Job(f, "last_window")
        path, size = f.file("tokens.bin"), (1 << 32) + 4096
        with open(path, "wb") as file:
            file.truncate(size - 8)
            file.seek(size - 8)
            file.write(bytes(range(1, 9)))
        log, _ = job.train()
        near(logged(log, "loss"), [12345678], "the last eight tokens", 1e-6)
        os.remove(path)


if room() < NEEDED:
    print(f"skipped: {NEEDED / 1e9:.1f} GB of memory and disk are needed, {room() / 1e9:.1f} are there")
    sys.exit(77)
main({k: v for k, v in list(globals().items()) if k.startswith("row_")})
