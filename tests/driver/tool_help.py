"""Every command has its --help, from the tables; a mistyped command is told its name."""
import re

from tools import *

rows = re.findall(r'^COMMAND\((\w+), "([^"]*)", "([^"]*)",', (SOURCE / "compiler/driver/commands.def").read_text(), re.M)
options = (SOURCE / "compiler/driver/options.def").read_text()
everything, _ = ddpc("--help")
for name, arguments, doc in rows:
    says("--help", everything, f"ddpc {arguments}", doc)
    if name == "compile":
        continue
    word = name.replace("_", "-")
    out, _ = ddpc(word, "--help")
    says(f"{word} --help", out, f"ddpc {arguments} [OPTIONS]", doc, "Options:", "-h, --help")
    paragraphs = out.split("\n\n")
    if len(paragraphs) < 3 or len(paragraphs[1]) < 100:
        failures.append(f"{word} --help explains nothing:\n{out}")
    if max(len(line) for line in paragraphs[1].split("\n")) > 120:
        failures.append(f"{word} --help has long lines")
    same(f"{word} -h", ddpc(word, "-h")[0], out)
    for option in re.findall(rf"^OPTION\((\w+),.*?COMMAND_{name}\b", options, re.M):
        says(f"{word} --help", out, "--" + option.replace("_", "-"))
_, err = ddpc("chekc", "job.ddp", status=2)
says("a typo", err, "there is no command `chekc`", "did you mean `ddpc check`?")
_, err = ddpc("job.ddp", "job.ddp", status=2)
says("two jobs", err, "one job at a time")
finish()
