"""Checkpoints: all that a run needs to go on with the same bytes, in safetensors and JSON.

`checkpoints/step-N` holds weights and optimiser moments of every member in a file of `learner`, the
league's files, the members' counters, the states of rewards that keep one, the lengths that the
run's row files had, and in `hashes.json` the SHA-256 of each of its files. It is written under a
temporary name and renamed; a resume takes the newest that is whole.
"""

import json
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct
from safetensors import SafetensorError

from lora_evo import Lineage, adapter_hash, appearing, save_adapter, sweep, write_text
from lora_evo.model import same_base
from selfplay.config import Config
from selfplay.errors import RunDirectoryError, first_line
from selfplay.extensions import load_states, states_of
from selfplay.files import layout as files
from selfplay.files.read import IDLE, flat
from selfplay.files.rows import ChangeRow, EvalRow, SolvingRow, StepRow, TaskRow, read_rows
from selfplay.members.population import SavedMember, role_of
from selfplay.run import Run
from selfplay.terminal import quote

_LEARNER, _STATE, _HASHES = "learner", "state.json", "hashes.json"
_REWARD = "_reward.pt"
"""After a role: the state of its reward."""
FREE = (
    "source of ",
    *("save_every", "keep_checkpoints", "keep_dead", "report_to", "device", "threads", "pieces"),
    *("vllm.", "sandbox.workers", "rollout.max_rows", "learner.micro_batch_tokens"),
    *("learner.logits_chunk_tokens", "learner.gradient_checkpointing", "learner.optimizer_offload"),
)
"""Settings, or sections of them, that a run may go on with changed: where and how fast it works,
what it keeps, and the code of a user's own. So are `steps`, down to those that are done,
`eval.eval_every` and a base that has only moved."""
_MEMBER = re.compile(r"[tsa]\d+(@\d+)?")


def save_checkpoint(run: Run) -> None:
    """Write the members' adapters and `checkpoints/step-N`; drop the oldest checkpoints.

    Without `keep_dead`, adapters that no checkpoint needs go with them.

    The checkpoint comes last: whoever finds it finds its members, and who dies before it does the
    step again.
    """
    target = run.directory / "checkpoints" / f"step-{run.step}"
    target.parent.mkdir(exist_ok=True)
    living = run.population.members
    state = {
        "format": 4,
        "step": run.step,
        "settings": settings_of(run.config) | run.sources,
        "born": run.born,
        "needed": sorted({*living, *(f for m in living for f in run.parents.get(m, ()))}),
        "lengths": {name: files.size(run.directory / name) for name in files.ROW_FILES},
    }
    with appearing(target) as draft:
        (draft / _LEARNER).mkdir(parents=True)
        saved = run.population.save(draft / _LEARNER, run.directory / "members")
        state["learner"] = [{"name": m.name, "scalars": dict(m.scalars)} for m in saved]
        (draft / _STATE).write_text(json.dumps(state, indent=1))
        for role, reward_state in states_of(run.extensions).items():
            (draft / f"{role}{_REWARD}").write_bytes(reward_state)
        if run.league is not None:
            run.league.copy_to(draft / "league")
        hashes = {f"{_LEARNER}/{m.name}.safetensors": m.sha256 for m in saved}
        for path in sorted(p for p in draft.rglob("*") if p.is_file()):
            hashes.setdefault(path.relative_to(draft).as_posix(), files.hash_file(path))
        (draft / _HASHES).write_text(json.dumps(hashes, indent=1))
        shutil.rmtree(target, ignore_errors=True)
    _drop_oldest(run)


def newest_checkpoint(directory: Path) -> Path | None:
    """Return the newest whole checkpoint of a run; None where it died before its first.

    Says in one line which newer ones are damaged. Raises RunDirectoryError where none is whole.
    """
    damages: list[str] = []
    for checkpoint in reversed(_checkpoints(directory)):
        if (damage := damage_of(checkpoint)) is None:
            if damages:
                click.echo(f"{'; '.join(damages)}; the run goes on from {checkpoint}", err=True)
            return checkpoint
        damages.append(damage)
    if damages:
        raise RunDirectoryError(
            f"{'; '.join(damages)}; {directory} has no other checkpoint to continue from: restore "
            "one from a copy, or start another run with `selfplay train`"
        )
    if files.size(directory / files.METRICS):
        raise RunDirectoryError(
            f"{directory} has steps in {files.METRICS} but no checkpoint to continue from; start "
            "another run with `selfplay train`"
        )
    return None


def newest_step(directory: Path) -> int | None:
    """Return the step of a run's newest checkpoint; None where there is none."""
    return max(map(_step, _checkpoints(directory)), default=None)


def damage_of(checkpoint: Path) -> str | None:
    """Return in what a checkpoint is not as it was written; None where it is whole."""
    path = checkpoint / _HASHES
    try:
        hashes = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        there = {p.relative_to(checkpoint).as_posix() for p in checkpoint.rglob("*") if p.is_file()}
        if left := sorted(n for n in {_STATE, *there} - {*hashes, _HASHES} if n[0] != "."):
            return f"{path} is damaged: it leaves out {left[0]}"
        for name, expected in hashes.items():
            path = checkpoint / name
            if files.hash_file(path) != expected:
                return f"{path} is damaged: it was changed after it was written"
    except FileNotFoundError:
        return f"{path} is missing"
    except (OSError, ValueError) as error:
        return f"{path} cannot be read ({first_line(error)})"
    return None


def settings_of(config: Config) -> dict[str, Any]:
    """Return settings by dotted key, as JSON has them."""
    return flat(msgspec.json.decode(msgspec.json.encode(asdict(config))))


def changed(checkpoint: Path, settings: Mapping[str, Any]) -> list[ChangeRow]:
    """Return what has another value now than when a checkpoint was made, and say so.

    settings: of `settings_of`, or `Run.sources`. Raises RunDirectoryError, which names each, for
    what no run may change on its way.
    """
    state, path = _read_state(checkpoint), checkpoint.parents[1] / files.CONFIG
    rows = [
        ChangeRow(state.step + 1, key, state.settings[key], now)
        for key, now in settings.items()
        if state.settings.get(key, now) != now
    ]
    if refused := [str(row) for row in rows if not _is_free(row)]:
        raise RunDirectoryError(
            f"{path} was changed since step {state.step}: {'; '.join(refused)}; put it back to "
            f"resume, or start another run with `selfplay train --preset {quote(path)}`"
        )
    if rows:
        click.echo(f"from step {state.step + 1}: {'; '.join(map(str, rows))}", err=True)
    return rows


def _is_free(change: ChangeRow) -> bool:
    """Whether a run may go on with a change; where a base or a step is only named, if it fits."""
    key, before, after = change.setting, change.before, change.after
    if key in ("steps", "eval.eval_every"):
        # What was never measured before the first step has nothing to be measured against.
        return bool(after >= change.step - 1 if key == "steps" else before)
    return same_base(before, after) if key == "base" else key.startswith(FREE)


def restore(run: Run, checkpoint: Path) -> None:
    """Bring the open run and its files back to the checkpoint's moment.

    Newer checkpoints, which are damaged, are removed.
    """
    state = _read_state(checkpoint)
    try:
        run.population.load(checkpoint / _LEARNER, state.learner)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise RunDirectoryError(
            f"{checkpoint / _LEARNER} is of another run ({error}); {files.COPY}"
        ) from error
    run.step, run.born = state.step, state.born
    kept = checkpoint.glob(f"*{_REWARD}")
    load_states(run.extensions, {p.name.removesuffix(_REWARD): p.read_bytes() for p in kept})
    for newer in _checkpoints(run.directory):
        if _step(newer) > run.step:
            _drop(newer)
    for member in run.population.members:
        write_member(run, member)
    _restore_files(run.directory, checkpoint, state)
    _drop_oldest(run)
    for task in read_rows(run.directory / files.TASKS, TaskRow):
        if task.accepted:
            if task.metrics is not None:
                run.structures[task.metrics["structure"]] += 1
            run.buffer.add(task.task(), task.step)
    for row in read_rows(run.directory / files.METRICS, StepRow):
        run.recent = [*run.recent, row][-IDLE:]
        for birth in row.evolution:
            run.parents[birth.child] = [f"{parent}@{row.step}" for parent in birth.parents]
    _say_what_is_gone(run, None if run.config.keep_dead else state.needed)
    for measured in read_rows(run.directory / files.EVALS, EvalRow):
        if measured.step == 0 and isinstance(measured.solving, SolvingRow):
            run.baseline_rates[measured.member] = measured.solving.rates


def _say_what_is_gone(run: Run, needed: Collection[str] | None) -> None:
    """Name members, as they were born, and ancestors that no longer lie in the run's folder.

    needed: those that the run has kept; None: all.
    """
    ancestors = {name for names in run.parents.values() for name in names}
    lines = [f"members/{m}/{files.LINEAGE}" for m in (*run.config.founders, *run.parents)]
    lines += [f"ancestors/{name}" for name in sorted(ancestors)]
    kept = (p for p in lines if needed is None or p.split("/")[1] in needed)
    if gone := [path for path in kept if not (run.directory / path).exists()]:
        click.echo(
            f"{run.directory}: {', '.join(gone)} missing; `lora-evo verify` and `lineage` need "
            "them: restore them from a copy",
            err=True,
        )


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
    for name, length in {files.CHANGES: 0, **state.lengths}.items():
        files.truncate(directory / name, length)


class _State(Struct):
    """What state.json holds."""

    format: Literal[4]
    step: int
    born: dict[str, int]
    """Members ever born of each role."""
    learner: list[SavedMember]
    """The members by place."""
    lengths: dict[str, int]
    """Bytes of the row files."""
    needed: list[str]
    """Folders of members and ancestors that the run continues with, if `keep_dead` is false."""
    settings: dict[str, Any]
    """By dotted key, with hashes of the source of what is a user's own (`Run.sources`)."""


def _read_state(checkpoint: Path) -> _State:
    path = checkpoint / _STATE
    try:
        return msgspec.json.decode(path.read_bytes(), type=_State)
    except (OSError, msgspec.DecodeError) as error:
        raise RunDirectoryError(f"{path} is damaged ({error}); {files.COPY}") from error


def write_member(run: Run, member: str) -> None:
    """Write a member's adapter to `members/<id>`; its lineage stays in place."""
    save_adapter(run.population.export(member), run.directory / "members" / member, overwrite=True)


def write_founders(run: Run) -> None:
    """Write the lineage of every first member: what it is before it learns."""
    for member in run.population.members:
        content = adapter_hash(run.population.export(member))
        text = Lineage.founder(member, run.config.seed, content).to_json()
        write_text(run.directory / "members" / member / files.LINEAGE, text)


def _drop_oldest(run: Run) -> None:
    for old in _checkpoints(run.directory)[: -run.config.keep_checkpoints]:
        _drop(old)
    if not run.config.keep_dead:
        _prune(run.directory, _checkpoints(run.directory))


def _drop(checkpoint: Path) -> None:
    """Remove a checkpoint; half of one would be named as damaged. A resume removes what is left."""
    shutil.rmtree(checkpoint.rename(checkpoint.with_name(f".{checkpoint.name}.part")))


def _prune(directory: Path, checkpoints: Collection[Path]) -> None:
    """Remove the members and ancestors of a run that none of its checkpoints needs."""
    try:
        needed = [_read_state(checkpoint).needed for checkpoint in checkpoints]
    except RunDirectoryError:  # what a damaged checkpoint needs is not known
        return
    kept = {name for names in needed for name in names or ()}
    for folder in (*_children(directory / "members"), *_children(directory / "ancestors")):
        if folder.name not in kept and _MEMBER.fullmatch(folder.name):
            shutil.rmtree(folder)


def _checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoints of a run, oldest first."""
    home = directory / "checkpoints"
    steps = [p for p in home.glob("step-*") if p.is_dir() and p.name[5:].isdigit()]
    return sorted(steps, key=_step)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-"))


def _children(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []
