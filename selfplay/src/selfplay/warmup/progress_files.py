"""What a warm start keeps while it is made: settings, losses, and its newest checkpoint."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from evals.atomic import appearing, sweep, write_text
from selfplay.errors import RunDirectoryError
from selfplay.learning.learner import Learner

SETTINGS, STATE, TENSORS = "settings.json", "state.json", "learner.safetensors"


class Loss(msgspec.Struct, frozen=True):
    """A measurement on the held-out examples."""

    step: int
    held_out: float
    """Mean cross-entropy of a completion token, in nats; the base itself at step 0."""


def open_folder(folder: Path, settings: dict[str, Any]) -> None:
    """Make the working folder, or go on in it. Raises RunDirectoryError for other settings."""
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    path = folder / SETTINGS
    if not path.exists():
        write_text(path, json.dumps(settings, indent=1))
        return
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunDirectoryError(
            f"{path} is damaged ({error}); remove {folder} to start again"
        ) from error
    odd = [name for name in settings if found.get(name) != settings[name]]
    if odd:
        name = odd[0]
        raise RunDirectoryError(
            f"{folder} was begun with {name} {found.get(name)!r}, and now it is "
            f"{settings[name]!r}; to go on give the same settings, to start again remove the folder"
        )


def save_progress(folder: Path, step: int, learner: Learner, losses: list[Loss]) -> None:
    """Write checkpoint `step-N` and remove the one before it."""
    tensors, values = learner.state_dict()
    state = {"step": step, "learner": values, "losses": msgspec.to_builtins(losses)}
    with appearing(folder / f"step-{step}") as draft:
        draft.mkdir()
        save_file({k: t.contiguous().cpu() for k, t in tensors.items()}, draft / TENSORS)
        (draft / STATE).write_text(json.dumps(state))
    for old in _checkpoints(folder)[:-1]:
        shutil.rmtree(folder / f"step-{old}")


def load_progress(folder: Path, learner: Learner) -> tuple[int, list[Loss]] | None:
    """Bring the learner to the newest checkpoint and return its step; None where there is none."""
    steps = _checkpoints(folder)
    if not steps:
        return None
    home = folder / f"step-{steps[-1]}"
    try:
        state = json.loads((home / STATE).read_text())
        learner.load_state_dict(load_file(home / TENSORS), state["learner"])
        return int(state["step"]), msgspec.convert(state["losses"], list[Loss])
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise RunDirectoryError(f"{home} is damaged ({error}); remove it to start again") from error


def _checkpoints(folder: Path) -> list[int]:
    names = [p.name.removeprefix("step-") for p in folder.glob("step-*") if p.is_dir()]
    return sorted(int(name) for name in names if name.isdigit())
