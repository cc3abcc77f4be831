"""Checkpoints: all that a run needs to continue with the same bytes, in safetensors and JSON.

`checkpoints/step-N` holds, for every member, a file of weights and optimiser state in `learner`;
the league's files; the states of rewards and of `Run.state`; in `state.json` members, counters and
the lengths of the row files; and in `hashes.json` the SHA-256 of each file. It is written under a
temporary name and renamed. A resume takes the newest undamaged checkpoint.
"""

import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct, to_builtins

from code_verifier import cores
from lora_evo import Lineage, adapter_hash, save_adapter
from lora_evo.files import appearing, sweep, write_text
from lora_evo.model import BaseModel, same_base
from selfplay.config import Config, is_free
from selfplay.errors import RunDirectoryError, first_line
from selfplay.extensions import load_states, loaded_state, saved_state, states_of
from selfplay.files import layout as files
from selfplay.files.record import flatten
from selfplay.files.rows import ChangeRow, EvalRow, SolvingRow, StepRow, TaskRow, read_rows, role_of
from selfplay.members.population import naming
from selfplay.run import Run
from selfplay.terminal import quote

_LEARNER, _STATE, _HASHES = "learner", "state.json", "hashes.json"
_OF_LOOP = "loop.pt"
"""The file of `Run.state`, if there is any."""
_REWARD = "_reward.pt"
"""End of the file name of a reward's state, after the role."""
_MEMBER = re.compile(r"[tsa]\d+(@\d+)?")


class Checkpoint(Struct):
    """The content of state.json; born, rates and kept as in `Run`."""

    format: Literal[5]
    step: int
    settings: dict[str, Any]
    """By dotted key."""
    members: list[str]
    """By place."""
    born: dict[str, int]
    needed: list[str]
    """Folders of members and ancestors that `keep_dead=false` must not remove."""
    lengths: dict[str, int]
    """Bytes of the row files."""
    rates: dict[str, float] = {}
    kept: dict[str, dict[str, str]] = {}
    held_out: str = ""
    """SHA-256 of the held-out tasks, those too that no evaluation asks."""


def save_checkpoint(run: Run) -> None:
    """Write the members' adapters and `checkpoints/step-N`; remove the oldest checkpoints.

    Without `keep_dead` also remove adapters that no checkpoint needs. The checkpoint is written
    last, so that its members' adapters exist whenever it does.
    """
    target = run.directory / "checkpoints" / f"step-{run.step}"
    living = run.population.members
    dead = [path for path in _adapters(run.directory) if path.name not in living]
    names = {path.relative_to(run.directory).as_posix(): path for path in dead}
    run.kept = {name: run.kept.get(name) or _hashes(path) for name, path in names.items()}
    checkpoint = Checkpoint(
        format=5,
        step=run.step,
        settings=settings_of(run.config),
        members=list(living),
        born=run.born,
        needed=sorted({*living, *(f for m in living for f in run.parents.get(m, ()))}),
        lengths={name: files.size(run.directory / name) for name in files.ROW_FILES},
        rates=run.rates,
        kept=run.kept,
        held_out=run.held_out_hash,
    )
    with appearing(target) as draft:
        (draft / _LEARNER).mkdir(parents=True)
        run.population.save(draft / _LEARNER, run.directory / "members")
        (draft / _STATE).write_text(json.dumps(to_builtins(checkpoint), indent=1))
        for role, reward_state in states_of(run.extensions).items():
            (draft / f"{role}{_REWARD}").write_bytes(reward_state)
        if not isinstance(run.state, dict) or run.state:
            (draft / _OF_LOOP).write_bytes(saved_state(run.state, "run.state"))
        if run.league is not None:
            run.league.copy_to(draft / "league")
        (draft / _HASHES).write_text(json.dumps(_hashes(draft), indent=1))
        shutil.rmtree(target, ignore_errors=True)
    _drop_oldest(run)


def _adapters(directory: Path) -> list[Path]:
    """Return the folders of members and ancestors, sorted."""
    paths = (path for home in ("members", "ancestors") for path in (directory / home).glob("*"))
    return sorted(path for path in paths if _MEMBER.fullmatch(path.name))


def by_step(directory: Path) -> dict[int, Path]:
    """Return the checkpoints of a run by step, oldest first."""
    paths = (directory / "checkpoints").glob("step-*[0-9]")
    return dict(sorted((int(path.name.removeprefix("step-")), path) for path in paths))


def newest_checkpoint(directory: Path) -> Checkpoint | None:
    """Return the newest undamaged checkpoint of a run; None if it ended before its first.

    Prints a line that names damaged ones. Raises RunDirectoryError if all are damaged.
    """
    damages: list[str] = []
    for path in reversed(by_step(directory).values()):
        try:
            checkpoint = read_checkpoint(path)
            if damages:
                click.echo(f"{'; '.join(damages)}; the run goes on from {path}", err=True)
            return checkpoint
        except RunDirectoryError as error:
            damages.append(str(error))
    if not damages and files.size(directory / files.METRICS) == 0:
        return None
    damage = "; ".join(damages) or f"{directory} has steps in {files.METRICS} but no checkpoint"
    raise RunDirectoryError(
        f"{damage}; nothing is left to continue from: restore a checkpoint from a copy, or start "
        "another run with `selfplay train`"
    )


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises RunDirectoryError if its files are missing or have changed."""
    try:
        expected = msgspec.json.decode((path / _HASHES).read_bytes(), type=dict[str, str])
        hashes, state = _hashes(path), (path / _STATE).read_bytes()
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path} cannot be read ({first_line(error)})") from error
    for name in sorted({*expected, *hashes}):
        if hashes.get(name) != expected.get(name):
            raise RunDirectoryError(f"{path / name} is not as it was written")
    version = msgspec.json.decode(state)["format"]
    if version != 5:
        raise RunDirectoryError(
            f"{path} is of another version of selfplay (format {version}, expected 5), which alone "
            "can continue it"
        )
    return msgspec.json.decode(state, type=Checkpoint)


def _hashes(folder: Path) -> dict[str, str]:
    paths = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name[0] != "."]
    hashed = {p.relative_to(folder).as_posix(): p for p in paths if p.name != _HASHES}
    with ThreadPoolExecutor(cores()) as threads:
        return dict(zip(hashed, threads.map(files.hash_file, hashed.values()), strict=True))


def settings_of(config: Config) -> dict[str, Any]:
    """Return settings by dotted key, as JSON values."""
    return flatten(msgspec.json.decode(msgspec.json.encode(asdict(config))))


def find_changes(directory: Path, checkpoint: Checkpoint, config: Config) -> list[ChangeRow]:
    """Return the settings that differ from the checkpoint's, and print them.

    Raises RunDirectoryError, naming each, for settings that a resume must not change.
    """
    path, before = directory / files.CONFIG, checkpoint.settings
    rows = [
        ChangeRow(checkpoint.step + 1, key, before[key], now)
        for key, now in settings_of(config).items()
        if before.get(key, now) != now
    ]
    if refused := [str(row) for row in rows if not _is_free(row)]:
        raise RunDirectoryError(
            f"{path} was changed since step {checkpoint.step}: {'; '.join(refused)}; put it back "
            f"to resume, or start another run with `selfplay train --preset {quote(path)}`"
        )
    if rows:
        click.echo(f"from step {checkpoint.step + 1}: {'; '.join(map(str, rows))}", err=True)
    return rows


def _is_free(change: ChangeRow) -> bool:
    """Return whether a resume may make this change."""
    match change.setting:
        case "steps":  # not below the steps done
            return bool(change.after >= change.step - 1)
        case "eval.eval_every":  # without an evaluation at step 0 later ones have no baseline
            return bool(change.before)
        case "base":  # which may have moved to another folder
            return same_base(change.before, change.after)
    return is_free(change.setting)


def restore(run: Run, checkpoint: Checkpoint) -> None:
    """Restore the open run and its files to the state of the checkpoint.

    Newer checkpoints, which are damaged, are removed. Raises RunDirectoryError if the held-out
    tasks are others.
    """
    if checkpoint.held_out not in ("", run.held_out_hash):
        raise RunDirectoryError(
            "the held-out tasks, of eval.held_out or a taskset, are not those on which the run was "
            "measured before; put them back, or start another run"
        )
    folder = run.directory / "checkpoints" / f"step-{checkpoint.step}"
    run.population.load(folder / _LEARNER, checkpoint.members)
    run.step, run.born, run.rates = checkpoint.step, checkpoint.born, checkpoint.rates
    states = {p.name.removesuffix(_REWARD): p.read_bytes() for p in folder.glob(f"*{_REWARD}")}
    load_states(run.extensions, states)
    if (folder / _OF_LOOP).exists():
        run.state = loaded_state((folder / _OF_LOOP).read_bytes())
    for step, path in by_step(run.directory).items():
        if step > run.step:
            _drop(path)
    for member in checkpoint.members:
        write_member(run, member)
    _restore_files(run.directory, folder, checkpoint)
    run.kept = checkpoint.kept
    for name, hashes in run.kept.items():
        path = run.directory / name
        if (run.config.keep_dead or path.exists()) and _hashes(path) != hashes:
            click.echo(f"{path} is not as it was written; restore it from a copy", err=True)
    _drop_oldest(run)
    _read_back(run)


def _read_back(run: Run) -> None:
    """Restore buffer, coverage, parents and baselines from the run's rows."""
    path = run.directory / files.TASKS
    for number, task in enumerate(read_rows(path, TaskRow), 1):
        if task.accepted:
            try:
                if task.metrics is not None:
                    run.structures[task.metrics["structure"]] += 1
                run.buffer.add(task.task(), task.step)
            except (KeyError, ValueError) as error:
                raise RunDirectoryError(
                    f"{path}, line {number}: {first_line(error)}; {files.COPY}"
                ) from error
    for row in read_rows(run.directory / files.METRICS, StepRow):
        for birth in row.evolution:
            run.parents[birth.child] = [f"{parent}@{row.step}" for parent in birth.parents]
    for measured in read_rows(run.directory / files.EVALS, EvalRow):
        if measured.step == 0 and isinstance(measured.solving, SolvingRow):
            run.baseline_rates[measured.member] = measured.solving.rates


def _restore_files(directory: Path, folder: Path, checkpoint: Checkpoint) -> None:
    for path in sorted((folder / "league").glob("*"), reverse=True):  # the log is the last
        with appearing(directory / "league" / path.name) as draft:
            shutil.copyfile(path, draft)
    for home in (directory, *(directory / name for name in files.FOLDERS)):
        sweep(home)
        for path in home.glob(".*.part"):  # left by `_drop` and the league
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in _adapters(directory):
        member, _, step = path.name.partition("@")
        is_born = int(member[1:]) < checkpoint.born.get(role_of(member), 1)
        if int(step) > checkpoint.step if step else not is_born:
            shutil.rmtree(path)
    for name, length in {files.CHANGES: 0, **checkpoint.lengths}.items():
        path, now = directory / name, files.size(directory / name)
        if now < length and name == files.RESOURCES:
            length = 0  # nothing depends on them
        if now < length:
            raise RunDirectoryError(
                f"{path} has {now} bytes, expected at least {length}: it was changed after the "
                f"checkpoint was made; {files.COPY}"
            )
        if now > length:
            os.truncate(path, length)


def write_member(run: Run, member: str) -> None:
    """Write a member's adapter to `members/<id>`; its lineage stays in place."""
    home = run.directory / "members" / member
    with naming(member):
        save_adapter(run.population.export(member), home, overwrite=True)


def write_founders(run: Run) -> None:
    """Write the lineage of every founder, with the hash of its adapter before it learns."""
    bits = BaseModel.quantization_of(run.config.base, run.config.load_in_4bit)
    for member in run.population.members:
        content = adapter_hash(run.population.export(member))
        founder = Lineage.founder(member, run.config.seed, content)
        text = replace(founder, quantization=bits).to_json()
        write_text(run.directory / "members" / member / files.LINEAGE, text)


def _drop_oldest(run: Run) -> None:
    """Remove old checkpoints and, without `keep_dead`, the adapters of dead members."""
    for old in [*by_step(run.directory).values()][: -run.config.keep_checkpoints]:
        _drop(old)
    if run.config.keep_dead:
        return
    needed: set[str] = set()
    for checkpoint in by_step(run.directory).values():
        try:
            needed |= {*json.loads((checkpoint / _STATE).read_text())["needed"]}
        except (OSError, ValueError):  # a damaged checkpoint's needs are not known
            return
    for folder in _adapters(run.directory):
        if folder.name not in needed:
            shutil.rmtree(folder)


def _drop(checkpoint: Path) -> None:
    """Remove a checkpoint, renamed first: a half-removed one would count as damaged."""
    shutil.rmtree(checkpoint.rename(checkpoint.with_name(f".{checkpoint.name}.part")))
