"""Exports for other programs: members and the nano base as directories, tasks as JSON Lines."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lora_evo.model
from code_verifier import Task
from code_verifier import read_rows as read_json_lines
from lora_evo import LoraEvoError, read_lineage
from lora_evo.files import appearing, check_output, write_text
from selfplay.errors import SelfplayError
from selfplay.files.layout import EVALS, TASKS, open_config
from selfplay.files.rows import EvalRow, TaskRow, read_rows
from selfplay.tasks import azr
from selfplay.tasks.held_out import DATA
from selfplay.tasks.kind import BUILT_IN, CALLS
from selfplay.tasks.template import AZR


def export_nano(out: Path) -> None:
    """Write the built-in base model into a new directory: configuration, weights, tokenizer."""
    _require_new(out)
    with appearing(out) as draft:
        shutil.copytree(lora_evo.model.resolve("nano"), draft)


def export_member(
    run: Path, member: str, out: Path, *, merge: bool = False, base_name: str | None = None
) -> str:
    """Write a member of a run into a new directory, and return the name of its base model.

    Without `merge`: a PEFT adapter that names `base_name` as its base model, or the run's (for nano
    the directory of the installed package). With it: a plain model, the base plus the member's
    update scale * B A in the run's number type, with its tokenizer. A base in 4 bits is dequantised
    first, and the returned text says so.

    Example:

        >>> base = export_member(Path("runs/mine"), "s0", Path("s0"))
    """
    if merge and base_name is not None:
        raise SelfplayError("a merged model names no base; leave out --merge or --base-name")
    _require_new(out)
    config = open_config(run)
    base = lora_evo.model.resolve(config.base)
    home = run / "members" / member
    try:
        adapter = lora_evo.load_adapter(home)
    except (LoraEvoError, OSError) as error:
        members = sorted(p.name for p in (run / "members").glob("*") if p.name[0] != ".")
        raise SelfplayError(
            f"{run} has no member {member!r} to export ({error}); it has {', '.join(members)}"
        ) from error
    if not merge:
        base, last = base_name or base, None
        for row in read_rows(run / EVALS, EvalRow):
            last = row.rate if row.member == member else last
        results = {"share of held-out tasks solved": last.solve_rate or 0.0} if last else None
        adapter = replace(adapter, config=replace(adapter.config, base_model_name_or_path=base))
        lora_evo.save_adapter(adapter, out, lineage=read_lineage(home), results=results)
        return base
    with appearing(out) as draft:
        loaded = lora_evo.model.load_base_model(
            base, lora_evo.model.choose_device("cpu"), config.dtype, config.load_in_4bit
        )
        model = loaded.dequantized
        lora_evo.model.merge_adapter(model, adapter)
        model.save_pretrained(draft, save_original_format=False)
        loaded.tokenizer.save_pretrained(draft)
    if loaded.quantization is None:
        return base
    return (
        f"{base} in {loaded.quantization}, dequantised to {config.dtype}, as the member was "
        "trained; on the plain weights of that base it would be another model"
    )


def export_tasks(run: Path, out: Path, form: str = "ours") -> str:
    """Write a run's accepted tasks as JSON Lines; return lines that say how many, and where.

    | form | rows |
    |---|---|
    | ours | for `code-verifier check`, with id, step, teacher and student |
    | azr | Absolute Zero's seeds; those of code_f in a second file next to `out` |
    | cruxeval | CRUXEval's columns, for code_o and code_i |
    | trl | `prompt`, a conversation, and the columns of `code_verifier.trl_reward` |
    | verl | verl's columns, with a ground truth for `code_verifier.compute_score` |

    Kinds without rows of the form are left out. In azr and cruxeval, whose rows have no kind, a
    call that is a task of both kinds is one row.
    """
    check_output(out)
    open_config(run)
    accepted = [row for row in read_rows(run / TASKS, TaskRow) if row.accepted]
    if form == "ours":
        return _write_rows(out, map(_own_row, accepted))
    tasks = [row.task() for row in accepted if row.kind in BUILT_IN]
    calls = list({(t.program, t.input): t for t in tasks if t.kind in CALLS}.values())
    functions = [task for task in tasks if task.kind not in CALLS]
    left_out = len(accepted) - len(tasks) + (len(functions) if form == "cruxeval" else 0)
    lines = [f"{left_out} of other kinds left out"] if left_out else []
    if form == "azr" and functions:
        second = out.with_name(f"{out.stem}_code_f{out.suffix}")
        lines.insert(0, _write_rows(second, map(_azr_row, functions)))
    rows_of: dict[str, Iterable[dict[str, Any]]] = {
        "azr": map(_azr_row, calls),
        "cruxeval": (
            {"code": t.program, "input": t.input, "output": t.output, "id": t.id} for t in calls
        ),
        "trl": ({"prompt": _conversation(task), **task.to_row()} for task in tasks),
        "verl": (_verl_row(index, task) for index, task in enumerate(tasks)),
    }
    return "\n".join([_write_rows(out, rows_of[form]), *lines])


def export_taskset(source: Path, out: Path) -> str:
    """Write tasks as an installable taskset of `verifiers`, a new directory whose name is its id;
    return a line that says how many.

    source: a run, for its accepted tasks, or a file of tasks. Each task is asked as with
    template=azr-chat; other kinds than the built-in ones are left out.
    """
    _require_new(out)
    if not (name := out.name).isidentifier() or name != name.lower():
        raise SelfplayError(f"{name} cannot be a taskset's id; expected a word, as my_tasks")
    if source.is_dir():
        open_config(source)
        tasks = [row.task() for row in read_rows(source / TASKS, TaskRow) if row.accepted]
    else:
        tasks = [Task.from_row(row, complete=True) for _, row in read_json_lines(source)]
    tasks = [task for task in tasks if task.kind in BUILT_IN]
    if not tasks:
        raise SelfplayError(f"{source} has no task of {', '.join(BUILT_IN)}")
    with appearing(out) as draft:
        (draft / name).mkdir(parents=True)
        project = (DATA / "taskset" / "pyproject.txt").read_text()
        (draft / "pyproject.toml").write_text(project.replace("NAME", name))
        shutil.copy(DATA / "taskset" / "module.txt", draft / name / "__init__.py")
        rows = ({"prompt": _conversation(t)[0]["content"], **t.to_row()} for t in tasks)
        _write_rows(draft / name / "tasks.jsonl", rows)
    return f"{len(tasks)} tasks: {out}; pip install it, then: vf-eval {name}"


def _write_rows(out: Path, rows: Iterable[dict[str, Any]]) -> str:
    lines = [json.dumps(row) + "\n" for row in rows]
    write_text(out, "".join(lines))
    return f"{len(lines)} tasks: {out}"


def _own_row(row: TaskRow) -> dict[str, Any]:
    keys = ("id", "step", "teacher", "student", "kind", "program", "input", "output")
    more = ("inputs", "outputs", "message", "visible", "solve_rate", "status")
    values = {k: v for k in keys + more if (v := getattr(row, k)) not in (None, ())}
    return {k: v for k, v in values.items() if v != "" or k in ("program", "input", "output")}


def _azr_row(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = {"snippet": task.program, "imports": []}  # which the program itself has
    if task.kind not in CALLS:
        pairs = {"inputs": list(task.inputs), "outputs": list(task.outputs)}
        return row | pairs | {"message": task.message}
    row |= {"original_snippet": task.program, "composite_functions": []}
    return row | {"input": task.input, "output": task.output}


def _verl_row(index: int, task: Task) -> dict[str, Any]:
    truth = {"style": "rule", "ground_truth": json.dumps(task.to_row())}
    extra = {"index": index, "id": task.id}
    row = {"data_source": f"populab/{task.kind}", "prompt": _conversation(task), "ability": "code"}
    return row | {"reward_model": truth, "extra_info": extra}


def _conversation(task: Task) -> list[dict[str, str]]:
    """Return the conversation that asks for a solution, as with template=azr-chat."""
    return [{"role": "user", "content": azr.in_form(AZR.kind(task.kind).solve_prompt(task))}]


def _require_new(out: Path) -> None:
    check_output(out, folder=True)
    if out.exists():
        raise SelfplayError(f"{out} exists; choose another --out")
