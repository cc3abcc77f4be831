"""The frozen benchmark files that `evals` ships: held-out tasks with prompts, as JSON Lines."""

import json
from pathlib import Path

from code_verifier import Sandbox, Task
from evals.atomic import write_text
from selfplay.nano.held_out import held_out_tasks, long_tasks
from selfplay.prompts.nano import solve_prompt

BENCHMARK_SEED = 20260516


def write_benchmark(directory: Path, per_level: int, sandbox: Sandbox) -> list[Path]:
    """Write nano_code_o, nano_code_i, nano_code_f and nano_long (.jsonl); return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    files = {f"nano_{k}": t for k, t in held_out_tasks(BENCHMARK_SEED, per_level, sandbox).items()}
    files["nano_long"] = long_tasks(BENCHMARK_SEED, per_level, sandbox)
    written = []
    for name, tasks in files.items():
        path = directory / f"{name}.jsonl"
        write_text(path, "".join(json.dumps(_row(level, task)) + "\n" for level, task in tasks))
        written.append(path)
    return written


def _row(level: int, task: Task) -> dict[str, object]:
    columns = {k: v for k, v in task.to_row().items() if v not in (None, "", [], 0)}
    first = {"id": task.id, "kind": task.kind, "level": level, "prompt": solve_prompt(task)}
    return first | columns
