"""What a run directory says, step by step: configuration and metrics as frozen dataclasses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from selfplay.errors import RunDirectoryError
from selfplay.report.reading.row_reader import Row, read_rows
from selfplay.report.reading.standing import Standing, read_standings

RHO_BINS = ("0", "0 to ¼", "¼ to ½", "½ to ¾", "¾ to 1", "1")
"""The bins of `Step.rho`: exactly 0, (0, .25], (.25, .5], (.5, .75], (.75, 1), exactly 1."""


@dataclass(frozen=True, slots=True)
class KindStats:
    """A task kind within a step; rates are None where nothing was counted."""

    proposed: int
    valid_share: float | None
    solve_rate: float | None


@dataclass(frozen=True, slots=True)
class MemberStats:
    """A member within a step."""

    role: str
    numbers: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Birth:
    """One replacement: the child, its parents, and the member whose place it took."""

    step: int
    removed: str
    child: str
    parents: tuple[str, ...]
    operator: str
    relative_change: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """One row of metrics.jsonl; seconds per phase, shares in [0, 1]; with the memory in MB."""

    number: int
    means: Mapping[str, float]
    same_tasks: Mapping[str, float]
    void: Mapping[str, float]
    kinds: Mapping[str, KindStats]
    rejected: Mapping[str, int]
    complexity: Mapping[str, float]
    coverage: Mapping[str, float]
    rho: tuple[int, ...]
    members: Mapping[str, MemberStats]
    ratings: Mapping[str, tuple[float, float]]
    forecast_errors: tuple[float, ...]
    births: tuple[Birth, ...]
    tokens: Mapping[str, float]
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Run:
    """A run directory; `name` tells it from the others on a page."""

    directory: Path
    name: str
    config: Mapping[str, Any]
    steps: tuple[Step, ...]
    standings: tuple[Standing, ...] = ()
    """Measurements against the frozen base."""

    @property
    def kinds(self) -> list[str]:
        """Task kinds that occur, sorted."""
        return sorted({kind for step in self.steps for kind in step.kinds})

    @property
    def births(self) -> list[Birth]:
        """All replacements, in order."""
        return [birth for step in self.steps for birth in step.births]

    @property
    def last(self) -> int:
        """Number of the last finished step."""
        return self.steps[-1].number


def read_runs(directories: Sequence[Path]) -> list[Run]:
    """Read run directories; equal folder names are told apart by their parents or a number."""
    names = [path.resolve().name for path in directories]
    if len(set(names)) < len(names):
        names = ["/".join(path.resolve().parts[-2:]) for path in directories]
    for i, name in enumerate(names):
        if name in names[:i]:
            names[i] = f"{name} ({i + 1})"
    return [read_run(path, name) for path, name in zip(directories, names, strict=True)]


def read_run(directory: Path, name: str | None = None) -> Run:
    """Read config.yaml and metrics.jsonl of a run.

    Raises `RunDirectoryError` when the folder is missing, is no run, is damaged, or holds no
    finished step.
    """
    if not directory.is_dir():
        found = "is not a folder" if directory.exists() else "does not exist"
        raise RunDirectoryError(f"{directory} {found}; expected the folder of a run")
    for file in ("config.yaml", "metrics.jsonl"):
        if not (directory / file).is_file():
            raise RunDirectoryError(
                f"{directory} is not a run: it has no {file}; "
                "give the folder that `selfplay train --out` wrote"
            )
    steps: list[Step] = []
    memory = _memory(directory / "resources.jsonl")
    for row in read_rows(directory / "metrics.jsonl"):
        step = _step(row, memory)
        if steps and step.number <= steps[-1].number:
            expected = f"a step after {steps[-1].number}"
            raise row.mismatch("step", step.number, expected)
        steps.append(step)
    if not steps:
        raise RunDirectoryError(
            f"{directory} has no finished step yet; `selfplay resume {directory}` goes on with it"
        )
    config = _config(directory / "config.yaml")
    standings = read_standings(directory / "yardstick.jsonl")
    return Run(directory, name or directory.resolve().name, config, tuple(steps), standings)


def _config(path: Path) -> Mapping[str, Any]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RunDirectoryError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict):
        raise RunDirectoryError(
            f"{path} holds no settings; expected lines such as `mode: populora`"
        )
    return config


def _memory(path: Path) -> dict[int, float]:
    """Peak memory by step, in megabytes; a run without the file has none."""
    if not path.is_file():
        return {}
    return {row.count("step"): row.number("memory_mb") or 0.0 for row in read_rows(path)}


def _step(row: Row, memory: Mapping[int, float]) -> Step:
    number = row.count("step")
    if number < 1:
        raise row.mismatch("step", row.fields.get("step"), "a whole number from 1 up")
    rho = tuple(row.items("rho"))
    whole = all(isinstance(n, int) and n >= 0 for n in rho)
    if not whole or len(rho) not in (0, len(RHO_BINS)):
        raise row.mismatch("rho", list(rho), f"{len(RHO_BINS)} counts")
    rejected = row.section("rejected")
    return Step(
        number=number,
        means=Row({k: v for k, v in row.fields.items() if k != "step"}, row.place).numbers()
        | ({"memory_mb": memory[number]} if number in memory else {}),
        same_tasks=row.section("same_tasks").numbers(),
        void=row.section("void").numbers(),
        kinds={
            kind: KindStats(r.count("proposed"), r.number("valid_share"), r.number("solve_rate"))
            for kind, r in row.sections("kinds").items()
        },
        rejected={reason: rejected.count(reason) for reason in rejected.fields},
        complexity=row.section("complexity").numbers(),
        coverage=row.section("coverage").numbers(),
        rho=rho,
        members={
            name: MemberStats(r.text("role") or "member", r.numbers())
            for name, r in row.sections("members").items()
        },
        ratings=_ratings(row),
        forecast_errors=_forecast_errors(row),
        births=tuple(_birth(r, number) for r in row.rows("evolution")),
        tokens=row.section("tokens").numbers(),
        seconds=row.section("seconds").numbers(),
    )


def _ratings(row: Row) -> dict[str, tuple[float, float]]:
    inner = row.section("ratings")
    ratings = {}
    for name in inner.fields:
        pair = inner.items(name)
        values = Row({"mu": pair[0], "sigma": pair[1]}, inner.place) if len(pair) == 2 else None
        mu, sigma = (values.number("mu"), values.number("sigma")) if values else (None, None)
        if mu is None or sigma is None or sigma < 0:
            raise inner.mismatch(name, pair, "[mu, sigma]")
        ratings[name] = (mu, sigma)
    return ratings


def _forecast_errors(row: Row) -> tuple[float, ...]:
    errors = []
    for match in row.rows("matches"):
        predicted, observed = match.number("predicted"), match.number("observed")
        if predicted is not None and observed is not None:
            errors.append(abs(predicted - observed))
    return tuple(errors)


def _birth(row: Row, step: int) -> Birth:
    child, removed = row.text("child"), row.text("removed")
    if not child or not removed:
        raise row.mismatch("child", child, "the names of a child and of a removed member")
    parents = row.items("parents")
    if not all(isinstance(parent, str) for parent in parents):
        raise row.mismatch("parents", parents, "a list of names")
    change = row.number("relative_change")
    operator = row.text("operator") or "unknown"
    return Birth(step, removed, child, tuple(parents), operator, change)
