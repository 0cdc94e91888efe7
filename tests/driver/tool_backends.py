"""ddpc backends: every name of ddp_backend, with what this machine has of it."""
import os
import re

from tools import *

table = re.findall(r'^BACKEND\((\w+), (yes|later), "\w*", "([^"]+)", "([^"]*)", "([^"]+)"',
                   (SOURCE / "tables/backend.def").read_text(), re.M)
same("settings.def and backend.def", "|".join(("~" if later == "later" else "") + name for name, later, *_ in table),
     re.search(r'SETTING\(train, ddp_backend, word, 1, "none", "([^"]+)"', (SOURCE / "tables/settings.def").read_text())[1])
out, _ = ddpc("backends")
rows = {row["name"]: row for row in as_json("backends", "--json")}
same("names", list(rows), [name for name, *_ in table])
for name, later, devices, file, library in table:
    line = re.search(rf"^  {name} .*$", out, re.M)[0]
    says(name, line, devices, library)
    same(f"{name} supported", rows[name]["supported"], later == "yes")
    if later == "later":
        says(name, line, "not supported yet")
        same(f"{name}: {file}", f"no {file}" in rows[name]["missing"], not os.path.exists(file))
    else:
        says(name, line, "not here" if rows[name]["missing"] else "works here")
_, err = ddpc("backends", "gloo", status=2)
says("an argument", err, "ddpc backends")
finish()
