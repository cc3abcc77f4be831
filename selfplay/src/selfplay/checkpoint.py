"""Checkpoints: all that a run needs to go on with the same bytes, in safetensors and JSON.

`checkpoints/step-N` holds the learner (weights and optimiser moments of every member), the league's
files, the members' counters, the states of rewards that keep one, the lengths that the run's row
files had, and the hashes of all files that a resume starts from. It is written under a temporary
name and renamed, so what has the final name is whole.
"""

import json
import os
import shutil
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from lora_evo import Lineage, adapter_hash, appearing, save_adapter, sweep, write_text
from selfplay import directory as files
from selfplay.errors import RunDirectoryError
from selfplay.identity import called
from selfplay.population import Run, role_of
from selfplay.reward_state import (
    KeptRewards,
    changed_marks,
    load_state,
    read_rewards,
    write_rewards,
)
from selfplay.rows import EvalRow, SolvingRow, StepRow, TaskRow, read_rows
from selfplay.source_hash import mark_of
from selfplay.terminal import program, quote

_LEARNER, _STATE = "learner.safetensors", "state.json"


def save_checkpoint(run: Run) -> None:
    """Write the members' adapters and `checkpoints/step-N`; drop the oldest checkpoints.

    Without `keep_dead`, adapters that no checkpoint names go with them.

    The checkpoint comes last: whoever finds it finds its members, and who dies before it does the
    step again.
    """
    target = run.directory / "checkpoints" / f"step-{run.step}"
    target.parent.mkdir(exist_ok=True)
    tensors, values = run.population.state_dict()
    _look_at_rewards(run)
    state = {
        "format": 2,
        "step": run.step,
        "born": run.born,
        "learner": values,
        "changed_rewards": run.changed_rewards,
        "lengths": {name: files.size(run.directory / name) for name in files.ROW_FILES},
    }
    with appearing(target) as draft:
        draft.mkdir()
        _write_tensors({k: t.contiguous().cpu() for k, t in tensors.items()}, draft / _LEARNER)
        (draft / _STATE).write_text(json.dumps(state, indent=1))
        write_rewards(draft, run.extensions.rewards(), run.extensions.first_states)
        if run.league is not None:
            run.league.copy_to(draft / "league")
        for member in run.population.members:
            write_member(run, member)
        run.hashes.write(run.directory, draft, run.population.members, _kept(run))
        shutil.rmtree(target, ignore_errors=True)
    _drop_oldest(run)


def _look_at_rewards(run: Run) -> None:
    """Say once which rewards have come to hold something that no checkpoint keeps."""
    names = {"teacher": run.config.reward.teacher, "student": run.config.reward.student}
    marks = changed_marks(run.extensions.rewards(), names)
    for role, reward in run.extensions.rewards():
        if role in marks and role not in run.changed_rewards:
            click.echo(
                f"{role}_reward: what {called(reward)} holds has changed in the run, and no "
                "checkpoint keeps it; if rewards depend on it, give it state_dict and "
                "load_state_dict",
                err=True,
            )
    run.changed_rewards = marks


def newest_checkpoint(directory: Path) -> Path | None:
    """Return the newest checkpoint of a run; None where it died before its first."""
    home = directory / "checkpoints"
    steps = _steps(home) if home.is_dir() else []
    if not steps and files.size(directory / files.METRICS):
        raise RunDirectoryError(
            f"{directory} has steps in {files.METRICS} but no checkpoint to continue from; start "
            "another run with `selfplay train`"
        )
    return home / f"step-{steps[-1]}" if steps else None


def verify_run(directory: Path) -> list[files.Damage]:
    """Return the files of a run that are not as its checkpoints recorded them."""
    if newest_checkpoint(directory) is None:
        files.open_config(directory)  # a run that has not come to its first checkpoint
        return []
    with closing(files.lock(directory)) if os.access(directory, os.W_OK) else nullcontext():
        newest = newest_checkpoint(directory)
        assert newest is not None
        found = _damaged(newest)
        for step in _steps(newest.parent)[:-1]:
            older = newest.with_name(f"step-{step}")
            found += files.damaged_checkpoint(older, f"remove {older}; {newest} does without it")
    return found


def refuse_damage(checkpoint: Path) -> None:
    """Raise RunDirectoryError where a resume from the newest checkpoint would use damaged files."""
    found = [str(damage) for damage in _damaged(checkpoint) if not damage.mended]
    if found:
        run = checkpoint.parent.parent
        more = f" ({len(found) - 1} more: `{program()} verify {quote(run)}`)" if found[1:] else ""
        raise RunDirectoryError(found[0] + more)


def _damaged(newest: Path) -> list[files.Damage]:
    older = len(_steps(newest.parent)) > 1
    remedy = f"remove {newest} to continue from the one before it" if older else files.COPY
    return [*files.damaged_checkpoint(newest, remedy), *files.damaged_run(newest)]


def kept_rewards(checkpoint: Path) -> KeptRewards:
    """Return what a checkpoint says of rewards."""
    return read_rewards(checkpoint, _read_state(checkpoint).changed_rewards)


def restore(run: Run, checkpoint: Path) -> None:
    """Bring the open run and its files back to the checkpoint's moment.

    Rows are cut last: as long as there are more of them, members and league may have moved on.
    """
    state = _read_state(checkpoint)
    try:
        tensors = load_file(checkpoint / _LEARNER)
        run.population.load_state_dict(tensors, state.learner)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise RunDirectoryError(
            f"{checkpoint / _LEARNER} is damaged or of another run ({error}); remove {checkpoint} "
            "to continue from the one before it"
        ) from error
    run.step, run.born, run.changed_rewards = state.step, state.born, state.changed_rewards
    kept = kept_rewards(checkpoint)
    for role, reward in run.extensions.rewards():
        if role in kept.states:
            load_state(reward, kept.states[role], f"{role}_reward")
        elif role in kept.marks and mark_of(reward) != kept.marks[role]:
            click.echo(
                f"{role}_reward: {called(reward)} goes on with what it held before the first step, "
                f"as it has no state_dict and load_state_dict: if rewards depend on what it kept, "
                "they are not those of a run that was not stopped",
                err=True,
            )
    for member in run.population.members:
        if not files.is_as_recorded(checkpoint, member):
            write_member(run, member)
    _restore_files(run.directory, checkpoint, state)
    _drop_oldest(run)
    for task in read_rows(run.directory / files.TASKS, TaskRow):
        if task.accepted:
            if task.metrics is not None:
                run.structures[task.metrics["structure"]] += 1
            run.buffer.add(task.task(), task.step)
    for row in read_rows(run.directory / files.METRICS, StepRow):
        for birth in row.evolution:
            run.parents[birth.child] = [f"{parent}@{row.step}" for parent in birth.parents]
    for found in read_rows(run.directory / files.EVALS, EvalRow):
        if found.step == 0 and isinstance(found.solving, SolvingRow):
            run.before[found.member] = found.solving.rates


def _restore_files(directory: Path, checkpoint: Path, state: "_State") -> None:
    for path in sorted((checkpoint / "league").glob("*"), reverse=True):  # the log is the last
        with appearing(directory / "league" / path.name) as draft:
            shutil.copyfile(path, draft)
    for path in _children(directory / "members"):
        if path.name[1:].isdigit() and int(path.name[1:]) >= state.born.get(role_of(path.name), 1):
            shutil.rmtree(path)
    for path in _children(directory / "ancestors"):
        step = path.name.partition("@")[2]
        if step.isdigit() and int(step) > state.step:
            shutil.rmtree(path)
    for folder in (directory, *(directory / n for n in files.FOLDERS)):
        sweep(folder)
        for path in folder.glob(".*.part"):  # of lora_evo's children, and of the league
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, length in state.lengths.items():
        files.truncate(directory / name, length)


class _State(Struct):
    """What state.json holds."""

    format: Literal[2]
    step: int
    born: dict[str, int]
    """Members ever born of each role."""
    learner: dict[str, Any]
    """The plain part of the population's state."""
    lengths: dict[str, int]
    """Bytes of the row files."""
    changed_rewards: dict[str, str] = {}
    """Of `Run`."""


def _read_state(checkpoint: Path) -> _State:
    path = checkpoint / _STATE
    try:
        return msgspec.json.decode(path.read_bytes(), type=_State)
    except (OSError, msgspec.DecodeError) as error:
        raise RunDirectoryError(
            f"{path} is damaged ({error}); remove {checkpoint} to continue from the one before it"
        ) from error


def _write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        # The library wraps what the system said, a full disk for one, in an error of its own.
        raise OSError(f"cannot write {path}: {error}") from error


def write_member(run: Run, member: str) -> None:
    """Write a member's adapter to `members/<id>`; its lineage stays in place."""
    save_adapter(run.population.export(member), run.directory / "members" / member, overwrite=True)


def write_founders(run: Run) -> None:
    """Write the lineage of every first member: what it is before it learns."""
    for member in run.population.members:
        content = adapter_hash(run.population.export(member))
        text = Lineage.founder(member, run.config.seed, content).to_json()
        write_text(run.directory / "members" / member / files.LINEAGE, text)


def _kept(run: Run) -> set[str] | None:
    """Return the adapters without which living members cannot be verified; None to keep all."""
    if run.config.keep_dead:
        return None
    living = run.population.members
    return {*living, *(folder for member in living for folder in run.parents.get(member, ()))}


def _drop_oldest(run: Run) -> None:
    home = run.directory / "checkpoints"
    for old in _steps(home)[: -run.config.keep_checkpoints]:
        # Half a checkpoint would be reported as a damaged one; a resume removes what is left.
        dropped = (home / f"step-{old}").rename(home / f".step-{old}.part")
        shutil.rmtree(dropped)
    if not run.config.keep_dead:
        files.prune(run.directory, [home / f"step-{step}" for step in _steps(home)])


def _steps(home: Path) -> list[int]:
    names = [p.name.removeprefix("step-") for p in home.glob("step-*") if p.is_dir()]
    return sorted(int(n) for n in names if n.isdigit())


def _children(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []
