"""ddpc check: many files, libraries and fragments, JSON."""
from tools import *

same("a good job", as_json("check", "--json", "job.ddp"),
     {"files": ["job.ddp"], "errors": 0, "warnings": 0, "diagnostics": []})

write("wrong.ddp", JOB.replace("relu(fc1(x))", "relo(fc1(x))"))
found = as_json("check", "wrong.ddp", "--json", status=1)
line = JOB.split("\n").index("    return fc2(relu(fc1(x)))") + 1
same("an unknown name", found.get("diagnostics"),
     [{"code": "E0301", "severity": "error", "path": "wrong.ddp", "line": line, "column": 16,
       "end": {"line": line, "column": 20}, "message": "unknown name `relo`", "notes": [],
       "help": ["did you mean `relu`?"]}])

# a note with another place
write("twice.ddp", JOB.replace("learning_rate = 0.1", "learning_rate = 0.1\n  learning_rate = 0.2"))
d = as_json("check", "twice.ddp", "--json", status=1)["diagnostics"][0]
line = JOB.split("\n").index("  learning_rate = 0.1") + 1
same("the code", d["code"], "E0704")
same("the note", d["notes"], [{"path": "twice.ddp", "line": line, "column": 3,
                               "end": {"line": line, "column": 16}, "message": "first set here"}])

# columns count characters; a library; a fragment; files after a wrong one are still checked
write("library.ddp", "edition 1\n\ndef twice(x: [...]) -> [...] = x * 2  # ä\n")
accent = 'def f(x: [...]) -> [...] = x * len("äöü") + nothing'
write("accent.ddp", f"edition 1\n\n{accent}\n")
found = as_json("check", "--json", "wrong.ddp", "library.ddp", "accent.ddp", "job.ddp", "none.ddp", status=1)
same("the files", found["files"], ["wrong.ddp", "library.ddp", "accent.ddp", "job.ddp", "none.ddp"])
same("codes", [(d["path"], d["code"], d["column"]) for d in found["diagnostics"] if d["code"] != "E0303"],
     [("wrong.ddp", "E0301", 16), ("accent.ddp", "E0301", accent.index("nothing") + 1), (None, "E0307", None)])
same("errors", found["errors"], len(found["diagnostics"]))

out, err = ddpc("check", "wrong.ddp", "twice.ddp", status=1)
says("check", err, "wrong.ddp:20:16: error[E0301]", "twice.ddp:35:3: error[E0704]")
_, err = ddpc("check", status=2)
says("check without a file", err, "which job?")
out, _ = ddpc("check", "--help")
says("help", out, "ddpc check FILE...", '"severity"', "--json", "Exit status")
finish()
