"""What other programs load: members and the nano base as directories, tasks as JSON Lines."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from lora_evo import (
    LoraEvoError,
    appearing,
    check_output,
    load_adapter,
    read_lineage,
    save_adapter,
    write_text,
)
from lora_evo.model import load_base_model, merge_adapter, resolve
from selfplay.directory import EVALS, TASKS, open_config
from selfplay.errors import SelfplayError
from selfplay.rows import EvalRow, TaskRow, read_rows


def export_nano(out: Path) -> None:
    """Write the built-in base model into a new directory: configuration, weights, tokenizer."""
    with _new_directory(out) as draft:
        shutil.copytree(resolve("nano"), draft, dirs_exist_ok=True)


def export_member(
    run: Path, member: str, out: Path, *, base: str | None = None, merge: bool = False
) -> str:
    """Write a member of a run into a new directory and return the base that it names.

    Without `merge`: a PEFT adapter whose base model is `base`, or the run's (for nano the installed
    package's directory), so that PEFT finds it. With it: the base plus the member's update
    scale * B A, a plain model with its tokenizer, in the run's number type.
    """
    check_output(out, folder=True)
    config = open_config(run)
    named = base or resolve(config.base)
    home = run / "members" / member
    try:
        adapter = load_adapter(home)
    except (LoraEvoError, OSError) as error:
        known = sorted(p.name for p in (run / "members").glob("*") if p.name[0] != ".")
        raise SelfplayError(
            f"{run} has no member {member!r} to export ({error}); it has {', '.join(known)}"
        ) from error
    if not merge:
        if out.exists():
            raise SelfplayError(f"{out} exists; choose another --out")
        renamed = replace(adapter.config, base_model_name_or_path=named)
        rates = [r.rate for r in read_rows(run / EVALS, EvalRow) if r.member == member]
        last = rates[-1] if rates else None
        results = {"share of held-out tasks solved": last.solve_rate or 0.0} if last else None
        record = read_lineage(home)
        save_adapter(replace(adapter, config=renamed), out, lineage=record, results=results)
        return named
    with _new_directory(out) as draft:
        loaded = load_base_model(named, torch.device("cpu"), config.dtype)
        merge_adapter(loaded.model, adapter)
        loaded.model.save_pretrained(draft)
        loaded.tokenizer.save_pretrained(draft)
    return named


def export_tasks(run: Path, out: Path) -> int:
    """Write a run's accepted tasks as `code-verifier check` reads them; return how many."""
    check_output(out)
    open_config(run)
    keys = ("id", "step", "teacher", "student", "kind", "program", "input", "output")
    more = ("inputs", "outputs", "message", "visible", "solve_rate", "status")
    rows = [
        {k: v for k in keys + more if (v := getattr(row, k)) not in (None, (), "")}
        for row in read_rows(run / TASKS, TaskRow)
        if row.accepted
    ]
    write_text(out, "".join(json.dumps(row) + "\n" for row in rows))
    return len(rows)


@contextmanager
def _new_directory(out: Path) -> Iterator[Path]:
    """Yield a draft that takes the name `out` when the block ends well."""
    check_output(out, folder=True)
    if out.exists():
        raise SelfplayError(f"{out} exists; choose another --out")
    with appearing(out) as draft:
        draft.mkdir()
        yield draft
