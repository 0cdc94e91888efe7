"""ddpc from-hf: JSON and pasted Python."""
from tools import *

given = {"output_dir": "out", "per_device_train_batch_size": 32, "learning_rate": 5e-05, "num_train_epochs": 3.0,
         "weight_decay": 0.01, "lr_scheduler_type": "cosine", "optim": "adamw_torch_fused", "warmup_steps": 0,
         "warmup_ratio": 0.1, "eval_strategy": "epoch", "evaluation_strategy": None, "bf16": True, "tf32": True,
         "fp16": False,
         "adam_beta2": 0.95, "max_grad_norm": 1.0, "seed": 7, "dataloader_drop_last": True, "hub_token": "<HUB_TOKEN>",
         "push_to_hub": False, "deepspeed": None, "fsdp": [], "accelerator_config": {"split_batches": False},
         "neftune_noise_alpha": 5.0, "report_to": [], "local_rank": 0, "logging_dir": "runs/x", "learning_rte": 1,
         "optim_args": "a=1", "lr_scheduler_kwargs": {"num_cycles": 2}, "use_cache": True, "_n_gpu": 1,
         "run_name": 'a "quoted"\nname'}
write("args.json", json.dumps(given, indent=2))
out, err = ddpc("from-hf", "args.json")
same("the block", out.split("\n"), [
    "train {", '  output_dir = "out"', "  per_device_train_batch_size = 32", "  weight_decay = 0.01",
    "  lr_scheduler_type = cosine", "  warmup_steps = 0.1", "  eval_strategy = epoch", "  bf16 = true",
    "  tf32 = true",
    "  adam_beta2 = 0.95", "  seed = 7", "  dataloader_drop_last = true", '  optim_args = "a=1"',
    '  lr_scheduler_kwargs = { "num_cycles": 2 }', '  run_name = "a \\"quoted\\"\\nname"', "}", ""])
says("notes", err, "warmup_ratio: called warmup_steps now", "neftune_noise_alpha: refused: ",
     "logging_dir: no key of 5.24 any more", "Did you mean `learning_rate`?", "use_cache: left out")
for silent in ("hub_token", "push_to_hub", "deepspeed", "fsdp", "accelerator_config", "local_rank", "_n_gpu", "report_to"):
    if silent in err:
        failures.append(f"a note about {silent}, which says nothing: {err}")

# the same block from Python; a job with it is right
write("args.py", """# my run
from_here = TrainingArguments(
    output_dir="out", per_device_train_batch_size=32,  # large
    learning_rate=5e-5, weight_decay=1e-2,
    lr_scheduler_type=SchedulerType.COSINE, eval_strategy='epoch',
    gradient_accumulation_steps=2, seed=1_000, dataloader_drop_last=True, deepspeed=None,
)
""")
out, err = ddpc("from-hf", "args.py", "-o", "-")
same("from Python", out.split("\n"), [
    "train {", '  output_dir = "out"', "  per_device_train_batch_size = 32", "  weight_decay = 0.01",
    "  lr_scheduler_type = cosine", "  eval_strategy = epoch", "  gradient_accumulation_steps = 2", "  seed = 1000",
    "  dataloader_drop_last = true", "}", ""])
same("nothing to say", err, "")
write("job2.ddp", JOB[:JOB.index("train {")] + out)
same("it checks", as_json("check", "job2.ddp", "--json")["errors"], 0)
write("bare.py", "learning_rate=1e-3,\nnum_train_epochs=1\n")
out, _ = ddpc("from-hf", "bare.py", "-o", "bare.ddp")
same("without the call", (WORK / "bare.ddp").read_text(), "train {\n  learning_rate = 0.001\n  num_train_epochs = 1\n}\n")

for name, text, message in [("expression.py", "TrainingArguments(\n  seed=1,\n  learning_rate=base * 2)", "expression.py:3: "),
                            ("call.py", "TrainingArguments(output_dir=os.path.join('a'))", "no literal"),
                            ("position.py", "TrainingArguments('out')", "arguments need names"),
                            ("open.py", "TrainingArguments(output_dir='out", "not closed"),
                            ("wrong.json", '{"a": 1,}', "wrong.json:1:")]:
    write(name, text)
    out, err = ddpc("from-hf", name, status=1)
    says(name, err, message)
_, err = ddpc("from-hf", "none.json", status=2)
says("no file", err, "cannot read none.json")
finish()
