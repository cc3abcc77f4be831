"""Metrics of a run in trackers: TensorBoard, Weights & Biases, trackio.

A tracker that fails is left out, and the run continues. No data leaves this machine unless the
tracker's own environment variables say so. After a resume each tracker continues its own run.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import click
import msgspec
from msgspec import UNSET

from lora_evo.files import write_text
from selfplay.config import Config
from selfplay.errors import ConfigError, first_line, pip_install
from selfplay.files.record import flatten
from selfplay.files.rows import EvalRow, StepRow

PROJECT = "populab"
NAMES = "trackers.json"
"""File in the run directory with each tracker's own name of the run, needed to continue it."""
OF_RUN = {"teacher_reward": "rewards/teacher/mean", "student_reward": "rewards/student/mean"}
"""Fields of a step that have TRL's names in trackers."""
OF_MEMBER = {
    "clip_ratio": "clip_ratio/region_mean",
    "importance_sampling_ratio": "sampling/importance_sampling_ratio/mean",
    "logp_difference_max": "sampling/sampling_logp_difference/max",
}
"""Fields of a member that have TRL's names in trackers."""

Opened: TypeAlias = tuple[Callable[[Mapping[str, float], int], None], Callable[[], None], str]
"""Functions that log a step and close the tracker, and the tracker's name of the run."""


class Trackers:
    """The open trackers of a run: those that its configuration names."""

    def __init__(self, config: Config, home: Path, step: int) -> None:
        self._open: dict[str, Opened] = {}
        path = home / NAMES
        names = json.loads(path.read_text()) if path.is_file() else {}
        settings = msgspec.to_builtins(asdict(config))
        for name in config.report_to:
            with self._left_out_if_it_fails(name):
                self._open[name] = OPENERS[name](home, settings, step, names.get(name))
        names |= {name: own_name for name, (_, _, own_name) in self._open.items() if own_name}
        if names:
            write_text(path, json.dumps(names) + "\n")

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log the numbers of a step in all trackers."""
        for name, (log, _, _) in list(self._open.items()):
            with self._left_out_if_it_fails(name):
                log(values, step)

    def close(self) -> None:
        """Close all trackers, which write their buffers."""
        for name, (_, close, _) in list(self._open.items()):
            with self._left_out_if_it_fails(name):
                close()

    @contextmanager
    def _left_out_if_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # another package's failure must not end the run
            click.echo(f"{name} failed and is left out from now on: {first_line(error)}", err=True)
            self._open.pop(name, None)


def require_trackers(names: Sequence[str]) -> None:
    """Raise ConfigError for a tracker whose package is not installed."""
    for name in names:
        if find_spec(name) is None:
            raise ConfigError(
                f"report_to names {name}, which is not installed; type: {pip_install(name)}"
            )


def step_metrics(row: StepRow, config: Config) -> dict[str, float]:
    """Return the numbers of a step and its evaluation; None and UNSET are left out.

    Names: `s0/entropy` for a member (`learning_rate` alone is the students'), `ratings/s0/mu` and
    `/sigma`, `held_out/s0/difference` and `teaching/t0/base_solve_rate`.
    """
    fields = msgspec.to_builtins(msgspec.structs.replace(row, measured=UNSET, tasks=UNSET))
    del fields["step"]
    members, ratings = fields.pop("members"), fields.pop("ratings")
    metrics = _numbers({OF_RUN.get(name, name): value for name, value in fields.items()})
    factor = config.learner.schedule(row.step, config.steps)
    metrics["step_time"] = sum(row.seconds.values())
    metrics["learning_rate"] = factor * config.learner.learning_rate
    for member, values in members.items():
        named = {OF_MEMBER.get(name, name): value for name, value in values.items()}
        metrics |= _numbers(named, f"{member}/")
    for member, (mu, sigma) in ratings.items():
        metrics |= {f"ratings/{member}/mu": mu, f"ratings/{member}/sigma": sigma}
    return metrics | measured_metrics(row.measured or ())


def measured_metrics(measured: Sequence[EvalRow]) -> dict[str, float]:
    """Return the numbers of one evaluation of all living members."""
    metrics: dict[str, float] = {}
    for row in measured:
        fields = msgspec.to_builtins(row)
        for part, name in (("solving", "held_out"), ("teaching", "teaching")):
            metrics |= _numbers(fields.get(part, {}), f"{name}/{row.member}/")
    return metrics


def _numbers(fields: Mapping[str, Any], above: str = "") -> dict[str, float]:
    """Return the numbers of nested fields, their names joined by slashes."""
    values = flatten(fields, "/", above).items()
    return {name: float(value) for name, value in values if isinstance(value, int | float)}


def _open_tensorboard(home: Path, _: dict[str, Any], step: int, known_as: str | None) -> Opened:
    """Write event files into RUN/tensorboard; viewers drop steps that a resume repeats."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(home / "tensorboard"), purge_step=step + 1 if step else None)

    def log(values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log, writer.close, ""


def _open_wandb(home: Path, config: dict[str, Any], _: int, known_as: str | None) -> Opened:
    """Write a run into RUN/wandb, offline unless WANDB_MODE says otherwise."""
    import wandb

    opened = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=home.name,
        id=known_as,
        resume="allow",
        dir=str(home),
        config=config,
        mode=os.environ.get("WANDB_MODE", "offline"),
        settings=wandb.Settings(console="off", silent=True),
    )
    return (lambda values, step: opened.log(dict(values), step=step)), opened.finish, opened.id


def _open_trackio(home: Path, config: dict[str, Any], _: int, known_as: str | None) -> Opened:
    """Write a run into trackio's own folder (TRACKIO_DIR), which `trackio show` reads."""
    import trackio

    name = known_as or f"{home.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    opened = trackio.init(
        project=os.environ.get("TRACKIO_PROJECT", PROJECT),
        name=name,
        config=config,
        resume="allow",
        embed=False,
        auto_log_gpu=False,
        auto_log_cpu=False,
    )
    return (lambda values, step: opened.log(dict(values), step=step)), opened.finish, name


OPENERS: dict[str, Callable[[Path, dict[str, Any], int, str | None], Opened]] = {
    "tensorboard": _open_tensorboard,
    "wandb": _open_wandb,
    "trackio": _open_trackio,
}
"""By package name, as in `report_to`: open a tracker for the run's directory, configuration, number
of steps done, and the tracker's own name of the run (None for a new run)."""
