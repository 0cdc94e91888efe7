"""The report of `gpu-check run`: Markdown for people and JSON for programs, both written anew after each part, so that a
run that is broken off leaves what it had."""
import json
import os
import time

PASSED, FAILED, NOT_RUN = "passed", "FAILED", "not run"


class Report:
    def __init__(self, path, version):
        self.path, self.begun = path, time.monotonic()
        self.data = {"version": version, "begun": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "machine": {},
                     "parts": [], "complete": False}
        self.write()

    def failed(self):
        return [p["name"] for p in self.data["parts"] if p["state"] == FAILED]

    def add(self, name, state, lines, seconds, figures=None):
        self.data["parts"].append({"name": name, "state": state, "lines": lines, "seconds": round(seconds, 1),
                                   "figures": figures or {}})
        print(f"{state:8} {name} ({seconds:.1f} s)" + (f": {lines[0]}" if state != PASSED and lines else ""), flush=True)
        self.write()

    def machine(self, facts):
        self.data["machine"] = facts
        self.write()

    def end(self):
        self.data["complete"] = True
        self.data["seconds"] = round(time.monotonic() - self.begun, 1)
        self.write()

    def text(self):
        d = self.data
        out = ["# gpu-check", "", f"{d['version']}, {d['begun']}."]
        if not d["complete"]:
            out[-1] += " **Not complete: still running, or broken off.**"
        else:
            failed = self.failed()
            out[-1] += f" {d['seconds']} s. " + (f"**{len(failed)} failed: {', '.join(failed)}.**" if failed
                                                 else "Nothing that ran failed.")
        out += ["", "| machine | |", "|---|---|"] + [f"| {k} | {v} |" for k, v in d["machine"].items()]
        out += ["", "| part | state | seconds |", "|---|---|---|"]
        out += [f"| {p['name']} | {p['state']} | {p['seconds']} |" for p in d["parts"]]
        for p in d["parts"]:
            if p["lines"]:
                out += ["", f"## {p['name']}: {p['state']}", ""] + [line if line.startswith("|") else f"    {line}"
                                                                  for line in p["lines"]]
        return "\n".join(out) + "\n"

    def write(self):
        for path, text in ((self.path, self.text()),
                           (os.path.splitext(self.path)[0] + ".json", json.dumps(self.data, indent=1))):
            with open(path + ".tmp", "w") as f:
                f.write(text)
            os.replace(path + ".tmp", path)
