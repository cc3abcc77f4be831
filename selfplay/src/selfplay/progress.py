"""What a person sees while a run trains: a live panel on a terminal, every fifth step elsewhere."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from selfplay.config import Config
from selfplay.pages import duration
from selfplay.rows import EvalRow, SolvingRow, StepRow, mean
from selfplay.run_record import mean_and_error, mean_gain, points

EVERY, WINDOW = 5, 10
"""Steps between two lines, and steps over which a line averages."""


class Progress:
    """Shows step, phase, gain over the frozen base, valid share and the leaderboard."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True)
        self._quiet = quiet
        self.done = 0
        """Steps that are finished."""
        self._live: Live | None = None
        self._row: StepRow | None = None
        self._measured: Sequence[EvalRow] = ()
        self._before: Sequence[float | None] = ()
        self._recent: deque[StepRow] = deque(maxlen=WINDOW)
        self._total = 0
        self._bar = Bar(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[phase]}"),
            TimeRemainingColumn(),
            console=self._console,
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
        if self._quiet or not self._console.is_terminal:
            yield
            return
        with Live(self._view(), console=self._console, refresh_per_second=4) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def phase(self, phase: str) -> None:
        """Say which phase of the next step begins."""
        self._bar.update(self._task, phase=phase)
        if self._live is not None:
            self._live.update(self._view())

    def step(self, row: StepRow, measured: Sequence[EvalRow] = ()) -> None:
        """Say what a finished step brought."""
        self._row, self.done = row, row.step
        self._recent.append(row)
        self._measured = measured or self._measured
        self._bar.update(self._task, completed=row.step)
        if self._live is not None:
            self._live.update(self._view())
        elif not self._quiet:
            lines = [] if row.step % EVERY and row.step != self._total else [self._line()]
            for line in (*lines, *_births(row), *_eval_lines(measured)):
                self._console.print(line, highlight=False, soft_wrap=True)

    def _view(self) -> Group:
        if self._row is None:
            return Group(self._bar)
        measured = "\n".join(_eval_lines(self._measured))
        return Group(self._bar, measured, self._line(), _board(self._row))

    def _line(self) -> str:
        """Say where the run is: means of the last steps, and the time that the rest may take."""
        recent = self._recent
        own = [100 * gain for r in recent if (gain := r.same_tasks.difference) is not None]
        gains = {"held-out": self._held_out(), "the run's own tasks": mean_and_error(own)}
        told = [f"{points(gain)} on {tasks}" for tasks, gain in gains.items() if gain]
        seconds = mean(sum(r.seconds.values()) for r in recent) or 0.0
        left = (self._total - self.done) * seconds
        return (
            f"step {self.done} of {self._total}: "
            + (f"points above the base: {', '.join(told)}; " if told else "")
            + f"valid {_percent(mean(r.valid_share for r in recent)).strip()}, "
            f"solved {_percent(mean(r.solve_rate for r in recent)).strip()}, "
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
            f"{name} {_percent(rate.solve_rate).strip()} "
            f"({_points(rate.difference).strip()}{_error(rate)}{_over(rate)})"
            for name, rate in rates.items()
        ]
        base = _percent(next(iter(rates.values())).base_solve_rate).strip()
        lines.append(f"  held-out tasks: {', '.join(solving)}; frozen base {base}")
    if taught:
        teaching = [f"{name} {_percent(t.base_solve_rate).strip()}" for name, t in taught.items()]
        lines.append(f"  teachers' tasks solved by the frozen base: {', '.join(teaching)}")
    return lines


def _error(rate: SolvingRow) -> str:
    return "" if rate.standard_error is None else f" ± {100 * rate.standard_error:.1f}"


def _over(rate: SolvingRow) -> str:
    gain = rate.over_start
    return f", {100 * gain:+.1f} over the start" if isinstance(gain, float) else ""


def _board(row: StepRow) -> Table:
    table = Table("member", "role", "rating", "reward", "solve rate", "valid")
    ratings = row.ratings
    members = row.members.items()
    for name, m in sorted(members, key=lambda nm: (nm[1].role, -ratings.get(nm[0], (0, 0))[0])):
        rating = f"{ratings[name][0]:.1f} ± {ratings[name][1]:.1f}" if name in ratings else ""
        table.add_row(
            name,
            m.role,
            rating,
            _signed(m.number("reward")),
            _percent(m.number("solve_rate")),
            _percent(m.number("valid_share")),
        )
    return table


def _percent(value: float | None) -> str:
    return "   –" if value is None else f"{value:4.0%}"


def _points(value: float | None) -> str:
    return "    –" if value is None else f"{100 * value:+5.1f}"


def _signed(value: float | None) -> str:
    return "    –" if value is None else f"{value:+.2f}"
