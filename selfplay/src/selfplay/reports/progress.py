"""Terminal output of a run: a header, a line every fifth step, and on terminals a progress bar.

A line is also printed after a minute without one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import TypeVar

import click
from rich import progress as bars
from rich.console import Console

from selfplay.config import Config
from selfplay.files.intervals import gain_text, mean_and_error, plus_minus
from selfplay.files.record import RunRecord, held_out_gain
from selfplay.files.rows import EvalRow, StepRow, mean
from selfplay.reports import findings
from selfplay.reports.findings import faults, not_judged
from selfplay.reports.pages import counted, duration
from selfplay.terminal import program, quote, wrap

T = TypeVar("T")
EVERY = 5
"""Steps between two lines."""
PATIENCE_S = 60.0
"""Seconds without a line after which the next step prints one."""
LEARNING = (
    "In long runs {who} may narrow to one kind of task: docs/results.md\n"
    "  Frozen teachers do not: {mode}--set learner.frozen={names}"
)
"""Warning at the start of a run whose teachers learn."""


class Progress:
    """Prints steps, phases, gains over the frozen base, births and evaluations; times the phases.

    console: standard error by default.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True, quiet=quiet)
        self.done = 0
        """Number of finished steps."""
        self._config: Config | None = None
        self._run = RunRecord(Path(), {}, ())
        """Steps and evaluations so far."""
        self._gain = ""
        """The last gain on held-out tasks, and its step."""
        self._idle: set[str] = set()
        """Roles that learn nothing."""
        self._last_line = monotonic()
        self._starts: list[tuple[str, float]] = []
        """Phases since the last call of `seconds`, and when they began."""
        self._bar = bars.Progress(
            *("{task.description}", bars.BarColumn(20), bars.MofNCompleteColumn()),
            *(bars.TimeElapsedColumn(), "{task.fields[left]}"),
            console=self._console, transient=True, disable=True,
        )  # fmt: skip
        self._steps = self._bar.add_task("steps", left="")
        self._phase = self._bar.add_task("starting", left="")

    @contextmanager
    def showing(
        self,
        config: Config,
        directory: Path,
        done: int = 0,
        earlier: Iterable[StepRow] = (),
        measured: Iterable[EvalRow] = (),
    ) -> Iterator[None]:
        """Print the header and, on a terminal, show a bar from the first phase on.

        done: number of steps done; earlier, measured: their rows, and those of evaluations.
        """
        self._run = RunRecord(directory, {}, tuple(earlier), tuple(measured))
        self._config, self.done, self._starts = config, done, []
        self._print(_header(config, directory, done))
        self._print(f"  {program()} resume {quote(directory)}", whole=True)
        if not done and (warning := _warning(config)):
            self._print(warning)
        self._bar.update(self._steps, total=config.steps, completed=done, left=self._left())
        self._bar.disable = not self._console.is_terminal or self._console.quiet
        try:
            yield
        finally:
            self._bar.stop()
            self._bar.disable = True

    def workers(self, places: str) -> None:
        """Print the workers' number and machines."""
        self._print(f"  on {places}")

    def lacking(self, layers: Sequence[str]) -> None:
        """Print, also if quiet, which layers of determinism the sandbox lacks on this machine."""
        line = (
            f"warning: this machine lacks the sandbox's {' and '.join(layers)}: verdicts may "
            "differ from those of other machines; type `code-verifier doctor`"
        )
        if self._console.quiet:
            click.echo(line, err=True)
        self._print(f"  {line}")

    def phase(self, phase: str) -> None:
        """Show the phase that begins. The bar starts with the first, after the base is loaded."""
        self._starts.append((phase, monotonic()))
        self._bar.remove_task(self._phase)
        self._phase = self._bar.add_task(phase.replace("_", " "), total=None, left="")
        self._bar.start()

    def after(self, items: Iterable[T], phase: str) -> Iterator[T]:
        """Yield the items, then begin a phase."""
        yield from items
        self.phase(phase)

    def seconds(self) -> dict[str, float]:
        """End the current phase; return the seconds of each since the last call."""
        spent = defaultdict[str, float](float)
        for (name, start), (_, end) in pairwise([*self._starts, ("", monotonic())]):
            spent[name] += end - start
        self._starts = []
        return {name: round(time, 4) for name, time in spent.items()}

    def advance(self, done: int, total: int) -> None:
        """Show how much of the phase's work is done."""
        self._bar.update(self._phase, completed=done, total=total)

    def measured(self, rows: Iterable[EvalRow]) -> None:
        """Keep the rows of an evaluation, for gains and falls."""
        self._run = replace(self._run, evals=(*self._run.evals, *rows))

    def step(self, row: StepRow, measured: Sequence[EvalRow] = ()) -> None:
        """Print the results of a step."""
        self.done, self._run = row.step, replace(self._run, steps=(*self._run.steps, row))
        self.measured(measured)
        self._bar.update(self._steps, completed=row.step, left=self._left())
        if measured and (gain := held_out_gain(self._run)):
            self._gain = f"{plus_minus(gain)} held-out (step {row.step})"
        last = self._config is not None and row.step == self._config.steps
        overdue = monotonic() - self._last_line >= PATIENCE_S
        if last or overdue or row.step % EVERY == 0:
            self._print(self._line())
            self._last_line = monotonic()
        frozen = self._config.learner.frozen if self._config else ()
        idle = findings.idle_roles(self._run.steps, frozen)
        for role in idle.keys() - self._idle:
            self._print(f"  warning: in the last {findings.IDLE} steps {idle[role]}")
        self._idle = {*idle}
        for b in row.evolution:
            parents = "+".join(b.parents)
            spared = f"; spared: {', '.join(b.spared)}" if b.spared else ""
            self._print(f"  {b.child} replaces {b.removed} ({b.operator} {parents}){spared}")
        for line in _eval_lines(measured):
            self._print(line)
        for fall in findings.falls(self._run) if measured else ():
            if fall.after == row.step:
                self._print(f"  warning: {fall}")

    def _left(self) -> str:
        """Return the estimated time left, from the mean of the steps so far; '' if unknown."""
        steps = self._config.steps - self.done if self._config else 0
        seconds = steps * (mean(sum(row.seconds.values()) for row in self._run.steps) or 0.0)
        return f"about {duration(seconds)} left" if seconds > 0 else ""

    def _print(self, text: str, *, whole: bool = False) -> None:
        """Print text, on a terminal wrapped to its width; whole: not, for a command to copy."""
        if self._console.is_terminal and not whole:
            text = wrap(text, self._console.width)
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _line(self) -> str:
        """Return the line of a step: means of the last steps, warnings, and the time left."""
        recent = self._run.steps[-findings.WINDOW :]
        points = [100 * d for r in recent if (d := r.same_tasks.difference) is not None]
        gain, whole = mean_and_error(points), f" of {self._config.steps}" if self._config else ""
        gains = ", ".join(filter(None, (self._gain, gain and f"{plus_minus(gain)} own tasks")))
        valid, solved = mean(r.valid_share for r in recent), mean(r.solve_rate for r in recent)
        met, eta = findings.held_out_met(recent), self._left()
        parts = [
            f"step {self.done}{whole}: valid {_percent(valid)}",
            not_judged(faults(recent, "proposals")),
            f", {met} held-out tasks left out" if met else "",
            f", solved {_percent(solved)}{not_judged(faults(recent, 'attempts'))}",
            f", structures {recent[-1].coverage.structures}",
            f"; {eta}" if eta else "",
            f"\n  points above the base: {gains}" if gains else "",
        ]
        signs = (*findings.signs_in(recent), *findings.cut_roles(recent[-1]))
        return "".join([*parts, *(f"\n  warning: {sign}" for sign in signs)])


def _warning(config: Config) -> str:
    """Return the warning of a run whose teachers learn; '' for others."""
    names, is_agent = replace(config, mode="populora").proposers, config.mode == "azr"
    learns = is_agent or any(config.learner.learning_rate_of("teacher", name) for name in names)
    if not config.proposers or not learns:
        return ""
    who, mode = ("an agent", "--mode populora ") if is_agent else ("teachers that learn", "")
    return LEARNING.format(who=who, mode=mode, names=",".join(names))


def _header(config: Config, directory: Path, step: int) -> str:
    """Return base, members, steps and folder, and how to stop and resume."""
    roles = [counted(len(names), role) for role, names in config.roles.items() if names]
    members = ", ".join(roles) or "one agent"
    if not config.proposers:
        members += f" on the tasks of {config.rollout.tasks}"
    total = counted(config.steps, "step")
    steps = f"{step} of {total} done" if step else total
    every = "step" if config.save_every == 1 else f"{config.save_every} steps"
    return (
        f"{config.mode} on {config.base}: {members}, {steps}, seed {config.seed}, in {directory}\n"
        f"Ctrl-C stops it; from its last checkpoint (one every {every}) it goes on with:"
    )


def _eval_lines(measured: Sequence[EvalRow]) -> Iterator[str]:
    """Yield the results of an evaluation, on held-out tasks and of the teachers' tasks."""
    solving, teaching = [], []
    rates = [m.rate for m in measured if m.rate]
    over_start = any(isinstance(rate.over_start, float) for rate in rates)
    for m in measured:
        born = ", born now" if m.born is True else ""
        if rate := m.rate:
            gain = gain_text(rate.difference, rate.standard_error)
            over = f", {gain_text(rate.over_start, None)} over the start" if over_start else ""
            notes = f"{gain}{over}{born}{not_judged([rate.not_judged])}"
            solving.append(f"{m.member} {_percent(rate.solve_rate)} ({notes})")
        if taught := m.taught:
            notes = f"{born}{not_judged([taught.not_judged])}".removeprefix(", ")
            name = f"{m.member} {_percent(taught.base_solve_rate)}"
            teaching.append(f"{name} ({notes})" if notes else name)
    if rates:
        base = _percent(rates[0].base_solve_rate)
        yield f"  held-out tasks: {', '.join(solving)}; frozen base {base}"
    if teaching:
        yield f"  teachers' tasks solved by the frozen base: {', '.join(teaching)}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
