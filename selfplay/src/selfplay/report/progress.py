"""What a person sees while a run trains: a header, every fifth step a line, and a bar below.

The bar is on terminals only. Elsewhere a line comes also when a minute went by without one.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from selfplay.config import Config
from selfplay.files.layout import EVALS, METRICS
from selfplay.files.read import (
    WINDOW,
    RunRecord,
    falls,
    gain_text,
    mean_and_error,
    mean_gain,
    points,
    signs_in,
)
from selfplay.files.rows import EvalRow, StepRow, mean, read_rows
from selfplay.report.pages import duration
from selfplay.terminal import program, quote, wrapped

EVERY, PATIENCE_S = 5, 60.0
"""Steps between two lines, and the longest time without one."""
LEARNING_TEACHERS = (
    "In long runs teachers that learn may end at one kind of task (docs/results.md).\n"
    "  Safe are those that never learn: --set learner.frozen="
)
"""Said at the start of a run whose teachers learn, before their names."""
LEARNING_AGENT = (
    "In long runs an agent may end at one kind of task (docs/results.md).\n"
    "  Safe are teachers that never learn: --mode populora --set learner.frozen="
)
"""Said at the start of a run in mode azr, before the names that its teachers would have."""


class Progress:
    """Says step, phase, gain over the frozen base, valid share, births and measurements.

    console: standard error by default. clock: seconds that only go up.
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or Console(stderr=True, quiet=quiet)
        self._clock = clock
        self.done = 0
        """Steps that are finished."""
        self._config: Config | None = None
        self._gain = ""
        """The last gain on held-out tasks, and its step."""
        self._directory: Path | None = None
        self._recent: deque[StepRow] = deque(maxlen=WINDOW)
        self._seconds: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=WINDOW))
        """What each phase took in earlier steps."""
        self._phases: dict[str, float] = {"starting": clock()}
        """The phases of this step that have begun, and when; the bar's thread reads it."""
        self._work = (0, 0)
        """What the phase has done of what it has to do."""
        self._last_line = clock()
        self._live: Live | None = None

    @contextmanager
    def showing(
        self, config: Config, directory: Path, done: int = 0, earlier: Iterable[StepRow] = ()
    ) -> Iterator[None]:
        """Say what run this is, and on a terminal from its first phase on show a bar.

        done: steps that it has. earlier: their rows, whose seconds tell how long others take.
        """
        self._config, self._directory, self.done = config, directory, done
        for row in earlier:
            self._learn(row)
        self._print(_header(config, directory, done))
        self._print(f"  {program()} resume {quote(directory)}", whole=True)
        if not done and (warning := _warning(config)):
            self._print(warning)
        if self._console.is_terminal and not self._console.quiet:
            self._live = Live(get_renderable=self.bar, console=self._console, transient=True)
        try:
            yield
        finally:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def workers(self, places: str) -> None:
        """Say which processes share the work."""
        self._print(f"  on {places}")

    def phase(self, phase: str) -> None:
        """Say which phase of the next step begins; the first one brings the bar.

        Before it, what loads the base model writes to the terminal itself.
        """
        now, begun, config = self._clock(), dict(self._phases), self._config
        if not self._recent and next(reversed(begun), "") == "eval" and config is not None:
            # The base alone was measured: members take about as long, each of the larger role.
            size = 1 if config.mode == "azr" else max(config.teachers, config.students)
            self._seconds["eval"].append(size * (now - begun["eval"]))
        begun.pop(phase, None)
        self._phases, self._work = begun | {phase: now}, (0, 0)
        if self._live is not None:
            self._live.start(refresh=True)

    def advance(self, done: int, total: int) -> None:
        """Say how many pieces of its work the phase has done."""
        self._work = done, total

    def step(
        self, row: StepRow, measured: Sequence[EvalRow] = (), before: Sequence[float | None] = ()
    ) -> None:
        """Say what a finished step brought. before: what the base solves of each held-out task."""
        self.done = row.step
        self._learn(row)
        base = np.array(before, float)
        learned = [m.rate for m in measured if m.rate and before and m.born is not True]
        rates = [np.array(rate.rates, float) for rate in learned]
        if gain := mean_gain([rate - base for rate in rates]):
            self._gain = f"{points(gain)} held-out (step {row.step})"
        self._phases, self._work = {}, (0, 0)
        last = self._config is not None and row.step == self._config.steps
        waited = self._clock() - self._last_line >= PATIENCE_S
        if last or waited or row.step % EVERY == 0:
            self._print(self._line())
            self._last_line = self._clock()
        for b in row.evolution:
            parents = "+".join(b.parents)
            spared = f"; spared: {', '.join(b.spared)}" if b.spared else ""
            self._print(f"  {b.child} replaces {b.removed} ({b.operator} {parents}){spared}")
        for line in (*_eval_lines(measured), *self._falls(row.step if measured else 0)):
            self._print(line)

    def bar(self) -> Table:
        """Return one line: steps, phase, what that has done, and the time left."""
        steps = self._config.steps if self._config else 0
        phases, (done, total), left = self._phases, self._work, self.seconds_left()
        phase = next(reversed(phases), "").replace("_", " ")
        since = self._clock() - next(iter(phases.values()), self._clock())
        spent, word = (since, "so far") if left is None else (left, "left")
        parts = [
            f"{self.done}/{steps} steps",
            f"{phase} {done}/{total}" if total else phase,
            f"{timedelta(seconds=round(spent))} {word}",
        ]
        row = Table.grid(padding=(0, 1), expand=True)
        row.add_column(no_wrap=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True, overflow="ellipsis")
        bar = ProgressBar(total=max(1, steps), completed=self.done)
        mode = self._config.mode if self._config else ""
        row.add_row(Text(mode, style="bold"), bar, " · ".join(filter(None, parts)))
        return row

    def seconds_left(self) -> float | None:
        """Estimate what the rest takes, by the phases of earlier steps; None before the first.

        The phase that runs counts with the share of its work that is left.
        """
        config, phases, (done, total) = self._config, self._phases, self._work
        if config is None or not self._recent:
            return None
        # Copies: the bar's thread asks, too.
        cost = {phase: mean([*times]) or 0.0 for phase, times in [*self._seconds.items()]}
        ahead = range(self.done + 1, config.steps + 1)
        counts = {
            "evolve": sum(map(config.evolves, ahead)),
            "eval": sum(map(config.measures, ahead)),
        }
        left = sum(s * counts.get(phase, len(ahead)) for phase, s in cost.items())
        left -= sum(cost.get(phase, 0.0) for phase in phases)
        phase, since = next(reversed(phases.items()), ("", 0.0))
        if done:
            left += cost.get(phase, 0.0) * (1 - done / total)
        else:
            left += max(0.0, cost.get(phase, 0.0) - (self._clock() - since))
        return max(0.0, left)

    def _learn(self, row: StepRow) -> None:
        self._recent.append(row)
        for phase, seconds in row.seconds.items():
            self._seconds[phase].append(seconds)

    def _print(self, text: str, *, whole: bool = False) -> None:
        """Print text, on a terminal in lines no wider than it, broken between words only.

        whole: not broken, as a command that is to be copied.
        """
        if self._console.is_terminal and not whole:
            text = wrapped(text, self._console.width)
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _line(self) -> str:
        """Say where the run is: means of the last steps, and the time that the rest may take."""
        recent = self._recent
        points_above = [100 * d for r in recent if (d := r.same_tasks.difference) is not None]
        own = mean_and_error(points_above)
        gains = ", ".join(filter(None, (self._gain, own and f"{points(own)} own tasks")))
        left = self.seconds_left()
        return (
            f"step {self.done}"
            + (f" of {self._config.steps}" if self._config else "")
            + f": valid {_percent(mean(r.valid_share for r in recent))}, "
            f"solved {_percent(mean(r.solve_rate for r in recent))}, "
            f"structures {recent[-1].coverage.structures}"
            + (f"; about {duration(left)} left" if left else "")
            + (f"\n  points above the base: {gains}" if gains else "")
            + "".join(f"\n  warning: {sign}" for sign in signs_in([*recent]))
        )

    def _falls(self, step: int) -> list[str]:
        """Warn of members that have fallen at the evaluation after this step."""
        if not step or self._directory is None:
            return []
        rows = read_rows(self._directory / METRICS, StepRow)
        evals = read_rows(self._directory / EVALS, EvalRow)
        run = RunRecord(self._directory, "", {}, tuple(rows), tuple(evals))
        return [f"  warning: {fall}" for fall in falls(run) if fall.after == step]


def _warning(config: Config) -> str:
    """Say how a run of this configuration may end; empty where its teachers never learn."""
    teachers = replace(config, mode="populora").founders[: config.teachers]
    if config.mode == "azr":
        return LEARNING_AGENT + ",".join(teachers)
    learn = any(config.learner.learning_rate_of("teacher", t) for t in teachers)
    return LEARNING_TEACHERS + ",".join(teachers) if learn else ""


def _header(config: Config, directory: Path, done: int) -> str:
    """Say base, members, steps and folder, and how to stop and resume."""
    members = f"{config.teachers} teachers, {config.students} students"
    if config.mode == "azr":
        members = "one agent"
    steps = f"{done} of {config.steps} steps done" if done else f"{config.steps} steps"
    every = "step" if config.save_every == 1 else f"{config.save_every} steps"
    return (
        f"{config.mode} on {config.base}: {members}, {steps}, seed {config.seed}, in {directory}\n"
        f"Ctrl-C stops it; from its last checkpoint (one every {every}) it goes on with:"
    )


def _eval_lines(measured: Sequence[EvalRow]) -> list[str]:
    """Say the last measurement on held-out tasks and of the teachers' tasks."""
    rates = {m.member: m.rate for m in measured if m.rate}
    taught = {m.member: m.taught for m in measured if m.taught}
    born = {m.member: "born now" if m.born is True else "" for m in measured}
    lines = []
    if rates:
        over_start = any(isinstance(rate.over_start, float) for rate in rates.values())
        solving = [
            f"{name} {_percent(rate.solve_rate)} "
            f"({gain_text(rate.difference, rate.standard_error)}"
            + (f", {gain_text(rate.over_start, None)} over the start" if over_start else "")
            + (f", {born[name]})" if born[name] else ")")
            for name, rate in rates.items()
        ]
        base = _percent(next(iter(rates.values())).base_solve_rate)
        lines.append(f"  held-out tasks: {', '.join(solving)}; frozen base {base}")
    if taught:
        teaching = [
            f"{name} {_percent(t.base_solve_rate)}" + (f" ({born[name]})" if born[name] else "")
            for name, t in taught.items()
        ]
        lines.append(f"  teachers' tasks solved by the frozen base: {', '.join(teaching)}")
    return lines


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
