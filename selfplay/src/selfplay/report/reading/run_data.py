"""What a run directory says: configuration, steps and measurements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from msgspec import structs

from selfplay.errors import RunDirectoryError
from selfplay.records.row_file import read_rows
from selfplay.records.step_row import BirthRow, ResourceRow, StepRow
from selfplay.records.yardstick_row import YardstickRow

RHO_BINS = ("0", "0 to ¼", "¼ to ½", "½ to ¾", "¾ to 1", "1")
"""The bins of `StepRow.rho`."""


class Birth(BirthRow, frozen=True, kw_only=True):
    """A replacement and its step."""

    step: int


@dataclass(frozen=True, slots=True)
class Run:
    """A run directory; `name` tells it from the others on a page."""

    directory: Path
    name: str
    config: Mapping[str, Any]
    steps: tuple[StepRow, ...]
    standings: tuple[YardstickRow, ...] = ()
    """Measurements against the frozen base."""
    resources: Mapping[int, ResourceRow] = field(default_factory=dict)
    """Memory and workers by step."""

    @property
    def kinds(self) -> list[str]:
        """Task kinds that occur, sorted."""
        return sorted({kind for step in self.steps for kind in step.kinds})

    @property
    def births(self) -> list[Birth]:
        """All replacements, in order."""
        return [
            Birth(**structs.asdict(birth), step=row.step)
            for row in self.steps
            for birth in row.evolution
        ]

    @property
    def last(self) -> int:
        """Number of the last finished step."""
        return self.steps[-1].step


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
    resources = {r.step: r for r in read_rows(directory / "resources.jsonl", ResourceRow)}
    steps: list[StepRow] = []
    for number, row in enumerate(read_rows(directory / "metrics.jsonl", StepRow), 1):
        if steps and row.step <= steps[-1].step:
            raise RunDirectoryError(
                f"{directory / 'metrics.jsonl'}, line {number}: step is {row.step}; expected a "
                f"step after {steps[-1].step}"
            )
        used = resources.get(row.step)
        steps.append(structs.replace(row, memory_mb=used.memory_mb) if used else row)
    if not steps:
        raise RunDirectoryError(
            f"{directory} has no finished step yet; `selfplay resume {directory}` goes on with it"
        )
    config = _config(directory / "config.yaml")
    standings = tuple(read_rows(directory / "yardstick.jsonl", YardstickRow))
    name = name or directory.resolve().name
    return Run(directory, name, config, tuple(steps), standings, resources)


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
