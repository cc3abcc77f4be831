"""What a person sees of an experiment: runs and steps done, and the time left."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars

from selfplay.experiment.design.runs import PlannedRun
from selfplay.records.step_row import StepRow
from selfplay.report.words import duration
from selfplay.run.directory import METRICS

EVERY_S = 60.0
"""Seconds between two lines where there is no terminal."""


class Meter:
    """Counts the finished steps of a run and their seconds, reading only what is new."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self.steps, self.seconds = 0, 0.0

    def look(self) -> None:
        """Read on; from the start where a resume has cut the file."""
        size = self._path.stat().st_size if self._path.exists() else 0
        if size < self._read:
            self._read, self.steps, self.seconds = 0, 0, 0.0
        if size == self._read:
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for line in whole.splitlines():
            with suppress(msgspec.MsgspecError):  # told by the run itself, or by a comparison
                row = msgspec.json.decode(line, type=StepRow)
                self.seconds += sum(row.seconds.values())
                self.steps = max(self.steps, row.step)


class Progress:
    """Two bars on a terminal, a line for every finished run and every minute elsewhere."""

    def __init__(
        self, home: Path, runs: Sequence[PlannedRun], workers: int, *, quiet: bool = False
    ) -> None:
        self._meters = {run: Meter(home / run.folder / METRICS) for run in runs}
        for meter in self._meters.values():
            meter.look()
        self._workers, self._quiet, self._told = workers, quiet, 0.0
        console = Console(stderr=True)
        self._terminal = console.is_terminal and not quiet
        self._bars = Bars(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not self._terminal,
        )
        self._runs = self._bars.add_task("runs", total=len(runs), note="")
        total = sum(run.config.steps for run in runs)
        self._steps = self._bars.add_task("steps", total=total, note="")

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def look(self, going: Iterable[PlannedRun]) -> None:
        """Show how far the runs are that go on now."""
        names = []
        for run in going:
            self._meters[run].look()
            names.append(f"{run.title} ({self._meters[run].steps}/{run.config.steps})")
        self._bars.update(self._runs, completed=self._done(), note="; ".join(names))
        left = time_left(self._meters, self._workers)
        note = "" if left is None else f"{duration(left)} left"
        steps = sum(meter.steps for meter in self._meters.values())
        self._bars.update(self._steps, completed=steps, note=note)
        if names and time.monotonic() - self._told > EVERY_S:
            self._tell("; ".join(names))

    def finished(self, run: PlannedRun) -> None:
        """Say that a run is done."""
        self._meters[run].look()
        self._tell(f"done: {run.title}")

    def failed(self, run: PlannedRun, why: str) -> None:
        """Say that a run cannot go on."""
        self._tell(f"failed: {run.title}: {why}")

    def _tell(self, what: str) -> None:
        self._told = time.monotonic()
        if self._quiet or (self._terminal and not what.startswith("failed")):
            return
        left = time_left(self._meters, self._workers)
        rest = "" if left is None else f", {duration(left)} left"
        steps = sum(meter.steps for meter in self._meters.values())
        total = sum(run.config.steps for run in self._meters)
        line = f"{what} [{self._done()}/{len(self._meters)} runs, {steps}/{total} steps{rest}]"
        self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _done(self) -> int:
        return sum(meter.steps >= run.config.steps for run, meter in self._meters.items())


def time_left(meters: dict[PlannedRun, Meter], workers: int) -> float | None:
    """Return the seconds left, from the measured seconds of a step; None before the first step.

    A run takes what others of its arm and control took, then of its arm; otherwise what the
    measured ones took for each player.
    """
    taken: dict[tuple[str, ...], list[float]] = {}
    for run, meter in meters.items():
        for key in ((run.arm, str(run.control)), (run.arm,), ()):
            sums = taken.setdefault(key, [0.0, 0.0])
            sums[0] += meter.seconds
            sums[1] += meter.steps * run.players
    left = 0.0
    for run, meter in meters.items():
        steps = run.config.steps - meter.steps
        keys = [(run.arm, str(run.control)), (run.arm,), ()]
        known = next((taken[key] for key in keys if taken[key][1]), None)
        if steps > 0 and known is None:
            return None
        if steps > 0 and known is not None:
            left += steps * run.players * known[0] / known[1]
    return left / workers
