"""What a person sees while a run trains: a live panel on a terminal, a line per step elsewhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from selfplay.config import Config
from selfplay.rows import EvalRow, SolvingRow, StepRow


class Progress:
    """Shows step, phase, solve rate, valid share and the leaderboard."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True)
        self._quiet = quiet
        self.done = 0
        """Steps that are finished."""
        self._live: Live | None = None
        self._row: StepRow | None = None
        self._measured: Sequence[EvalRow] = ()
        self._bar = Bar(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[phase]}"),
            TimeRemainingColumn(),
            console=self._console,
        )

    @contextmanager
    def showing(self, config: Config, done: int) -> Iterator[None]:
        """Show the run until the block ends; done: steps that it has."""
        self.done = done
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
        self._measured = measured or self._measured
        self._bar.update(self._task, completed=row.step)
        if self._live is not None:
            self._live.update(self._view())
        elif not self._quiet:
            for line in (_line(row), *_eval_lines(measured)):
                self._console.print(line, highlight=False, soft_wrap=True)

    def _view(self) -> Group:
        if self._row is None:
            return Group(self._bar)
        measured = "\n".join(_eval_lines(self._measured))
        return Group(self._bar, measured, _line(self._row), _board(self._row))


def _line(row: StepRow) -> str:
    line = (
        f"step {row.step:>3}  against base {_points(row.same_tasks.difference)}  "
        f"valid {_percent(row.valid_share)}  "
        f"solved {_percent(row.solve_rate)}  teachers {_signed(row.teacher_reward)}  "
        f"students {_signed(row.student_reward)}  "
        f"structures {row.coverage.structures}  {sum(row.seconds.values()):.1f} s"
    )
    for birth in row.evolution:
        parents = "+".join(birth.parents)
        line += f"\n  {birth.child} replaces {birth.removed} ({birth.operator} {parents})"
    return line


def _eval_lines(measured: Sequence[EvalRow]) -> list[str]:
    """Say the last measurement on held-out tasks and of the teachers' tasks."""
    rates = {m.member: m.rate for m in measured if m.rate}
    taught = {m.member: m.taught for m in measured if m.taught}
    lines = []
    if rates:
        solving = [
            f"{name} {_percent(rate.solve_rate).strip()} "
            f"({_points(rate.difference).strip()}{_over(rate)})"
            for name, rate in rates.items()
        ]
        base = _percent(next(iter(rates.values())).base_solve_rate).strip()
        lines.append(f"held-out tasks: {', '.join(solving)}; frozen base {base}")
    if taught:
        teaching = [f"{name} {_percent(t.base_solve_rate).strip()}" for name, t in taught.items()]
        lines.append(f"teachers' tasks solved by the frozen base: {', '.join(teaching)}")
    return lines


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
