"""What a person sees while a run trains: every fifth step a line, and on a terminal a bar below."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from selfplay.config import Config
from selfplay.pages import duration
from selfplay.rows import EvalRow, SolvingRow, StepRow, mean
from selfplay.run_record import gain_text, mean_and_error, mean_gain, points

EVERY, WINDOW = 5, 10
"""Steps between two lines, and steps over which a line averages."""


class Progress:
    """Says step, phase, gain over the frozen base, valid share, births and measurements."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True, quiet=quiet)
        self.done = 0
        """Steps that are finished."""
        self._measured: Sequence[EvalRow] = ()
        self._before: Sequence[float | None] = ()
        self._recent: deque[StepRow] = deque(maxlen=WINDOW)
        self._total = 0
        """Steps of the run; 0 where nothing is shown around them."""
        self._task: TaskID | None = None
        self._bar = Bar(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[phase]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )

    @contextmanager
    def showing(
        self, config: Config, done: int, before: Sequence[float | None] = ()
    ) -> Iterator[None]:
        """Show the run until the block ends.

        done: steps that it has. before: what the frozen base solves of each held-out task.
        """
        self.done, self._total, self._before = done, config.steps, before
        self._task = self._bar.add_task(
            config.mode, total=config.steps, completed=done, phase="starting"
        )
        with self._bar:
            yield

    def phase(self, phase: str) -> None:
        """Say which phase of the next step begins."""
        if self._task is not None:
            self._bar.update(self._task, phase=phase)

    def step(self, row: StepRow, measured: Sequence[EvalRow] = ()) -> None:
        """Say what a finished step brought."""
        self.done = row.step
        self._recent.append(row)
        self._measured = measured or self._measured
        if self._task is not None:
            self._bar.update(self._task, completed=row.step)
        lines = [] if row.step % EVERY and row.step != self._total else [self._line()]
        for line in (*lines, *_births(row), *_eval_lines(measured)):
            self._console.print(line, highlight=False, soft_wrap=True)

    def _line(self) -> str:
        """Say where the run is: means of the last steps, and the time that the rest may take."""
        recent = self._recent
        own = [100 * gain for r in recent if (gain := r.same_tasks.difference) is not None]
        gains = {"held-out": self._held_out(), "the run's own tasks": mean_and_error(own)}
        told = [f"{points(gain)} on {tasks}" for tasks, gain in gains.items() if gain]
        seconds = mean(sum(r.seconds.values()) for r in recent) or 0.0
        left = max(0, self._total - self.done) * seconds
        return (
            f"step {self.done}{f' of {self._total}' if self._total else ''}: "
            + (f"points above the base: {', '.join(told)}; " if told else "")
            + f"valid {_percent(mean(r.valid_share for r in recent))}, "
            f"solved {_percent(mean(r.solve_rate for r in recent))}, "
            f"structures {recent[-1].coverage.structures}"
            + (f"; about {duration(left)} left" if left else "")
        )

    def _held_out(self) -> tuple[float, float] | None:
        """Return the gain of the last measurement that this session made, with its error."""
        base = np.array(self._before, float)
        rates = [row.rate.rates for row in self._measured if row.rate and self._before]
        return mean_gain([np.array(own, float) - base for own in rates])


def _births(row: StepRow) -> list[str]:
    return [
        f"  {b.child} replaces {b.removed} ({b.operator} {'+'.join(b.parents)})"
        for b in row.evolution
    ]


def _eval_lines(measured: Sequence[EvalRow]) -> list[str]:
    """Say the last measurement on held-out tasks and of the teachers' tasks."""
    rates = {m.member: m.rate for m in measured if m.rate}
    taught = {m.member: m.taught for m in measured if m.taught}
    lines = []
    if rates:
        solving = [
            f"{name} {_percent(rate.solve_rate)} "
            f"({gain_text(rate.difference, rate.standard_error)}{_over(rate)})"
            for name, rate in rates.items()
        ]
        base = _percent(next(iter(rates.values())).base_solve_rate)
        lines.append(f"  held-out tasks: {', '.join(solving)}; frozen base {base}")
    if taught:
        teaching = [f"{name} {_percent(t.base_solve_rate)}" for name, t in taught.items()]
        lines.append(f"  teachers' tasks solved by the frozen base: {', '.join(teaching)}")
    return lines


def _over(rate: SolvingRow) -> str:
    gain = rate.over_start
    return f", {100 * gain:+.1f} over the start" if isinstance(gain, float) else ""


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
