"""Runs kept as rows: what a later comparison needs of a run, without its directory.

A file has a row of JSON for each run: its arm and seed, what its members were asked, their gains at
each evaluation, and the curves that its plan names.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct, structs

from selfplay.errors import RunDirectoryError
from selfplay.files.intervals import Floats
from selfplay.files.record import RunRecord
from selfplay.files.rows import read_rows
from selfplay.reports.findings import unjudged

Curve: TypeAlias = Callable[[RunRecord], Mapping[int, float]]
"""Returns a share of a run, from 0 to 1, by step."""
DIGITS = 5
SAME_BASE = 0.01
"""Two solve rates of one base with one seed differ by less: on another processor few samples do."""


class KeptRun(Struct, frozen=True, kw_only=True):
    """A run as a row.

    - steps, last: of the plan, and the last finished one.
    - code: commits, or versions, of the code that trained the run, joined by `+`.
    - asked: the settings that decide what a held-out solve rate means.
    - base: mean held-out solve rate of the frozen base.
    - gains: a step, and by member the mean held-out gain over the base; a newborn child has none.
    - curves: by name, a step and a share.
    """

    plan: str
    arm: str
    seed: int
    steps: int
    last: int
    code: str
    asked: dict[str, Any]
    base: float
    gains: tuple[tuple[int, dict[str, float]], ...]
    curves: dict[str, tuple[tuple[int, float], ...]] = {}

    families = None

    def until(self, step: int) -> "KeptRun":
        """Return the run as it was after a step."""
        curves = {n: tuple(p for p in of if p[0] <= step) for n, of in self.curves.items()}
        gains = tuple(of_members for of_members in self.gains if of_members[0] <= step)
        return structs.replace(self, last=min(step, self.last), gains=gains, curves=curves)

    def held_out_gains(self) -> dict[int, dict[str, Floats]]:
        """Return by step and member [1] gains, each the mean over the tasks."""
        return {
            step: {name: np.array([gain]) for name, gain in members.items()}
            for step, members in self.gains
        }


def row_of(plan: str, arm: str, run: RunRecord, curves: Mapping[str, Curve]) -> KeptRun:
    """Return the row of a run. Raises RunDirectoryError if it was not measured and judged whole."""
    if faults := unjudged(run):
        raise RunDirectoryError(f"{run.directory}: {faults[0]}; only runs judged whole are kept")
    gains = tuple(
        (step, {name: round(float(np.nanmean(of)), DIGITS) for name, of in members.items()})
        for step, members in run.held_out_gains().items()
    )
    if not gains:
        raise RunDirectoryError(f"{run.directory} has no held-out evaluation: nothing to keep")
    return KeptRun(
        plan=plan,
        arm=arm,
        seed=int(run.config["seed"]),
        steps=int(run.config["steps"]),
        last=run.last,
        code="+".join(run.codes),
        asked=run.asked,
        base=round(base_rate(run), DIGITS),
        gains=gains,
        curves={
            name: tuple((step, round(share, DIGITS)) for step, share in curve(run).items())
            for name, curve in curves.items()
        },
    )


def base_rate(run: RunRecord) -> float:
    """Return the mean held-out solve rate of the frozen base, from 0 to 1."""
    rates, _ = run.held_out_rates()
    return float(np.nanmean(rates))


def read_kept(place: Path) -> list[KeptRun]:
    """Read the rows of a file, or of all files `*.jsonl` of a folder.

    Raises RunDirectoryError for none, one that cannot be read, and unlike ones of an arm and seed.
    """
    paths = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    rows = [row for path in paths for row in read_rows(path, KeptRun)]
    if not rows:
        raise RunDirectoryError(
            f"{place} has no kept runs; expected a file that `selfplay compare DIR --keep FILE` "
            "wrote, or a folder of such"
        )
    runs: dict[tuple[str, int], KeptRun] = {}
    for row in rows:
        if runs.setdefault((row.arm, row.seed), row) != row:
            raise RunDirectoryError(
                f"{place} has two different kept runs of {row.arm!r}, seed {row.seed}; give files "
                "in which each arm has one run of a seed"
            )
    return rows
