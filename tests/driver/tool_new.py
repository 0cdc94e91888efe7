"""ddpc new: every template is listed, is right, scans its data; nothing is overwritten."""
from tools import *

names = sorted(p.stem for p in (SOURCE / "stdlib/templates").glob("*.ddp"))
out, _ = ddpc("new")
says("the list", out, *(f"  {n} " for n in names))
same("how many", len([line for line in out.split("\n") if line.startswith("  ")]), len(names))
for name in names:
    out, _ = ddpc("new", name)
    says(name, out, f"wrote {name}/job.ddp", "next: ddpc")
    same(f"{name} is canonical and right", as_json("check", f"{name}/job.ddp", "--json")["diagnostics"], [])
    data = as_json("plan", f"{name}/job.ddp", "--scan", "--json")["data"]
    if data["rows"]["train"] < 50 or data["rows"]["validation"] < 10:
        failures.append(f"{name}: {data['rows']}")
    ddpc("fmt", "--check", f"{name}/job.ddp")
before = (WORK / names[0] / "job.ddp").read_text()
write(f"{names[0]}/job.ddp", before + "# mine\n")
_, err = ddpc("new", names[0], status=2)
says("overwriting", err, "job.ddp: File exists", "choose another folder")
same("it is kept", (WORK / names[0] / "job.ddp").read_text(), before + "# mine\n")
ddpc("new", names[0], "elsewhere")
same("in another folder", (WORK / "elsewhere/job.ddp").read_text(), before)
_, err = ddpc("new", "nothing", status=2)
says("no template", err, "there is no template `nothing`", names[0])
finish()
