"""The curves of a run: each names a number of a step, its unit, and what a reader looks for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from msgspec import UnsetType

from selfplay.records.step_row import Maybe, StepRow
from selfplay.records.yardstick_row import BASE, YardstickRow
from selfplay.report.reading.run_data import Run


@dataclass(frozen=True, slots=True)
class Measure:
    """A number per step.

    `share` marks those in [0, 1], shown as percentages; `total` marks running totals, which are
    smooth by themselves.
    """

    title: str
    unit: str
    hint: str
    get: Callable[[StepRow], float | None]
    share: bool = False
    total: bool = False

    def values(self, run: Run) -> list[tuple[int, float | None]]:
        """Return (step, value) for every step of a run."""
        return [(step.step, self.get(step)) for step in run.steps]


@dataclass(frozen=True, slots=True)
class Reading(Measure):
    """A number of each measurement against the frozen base: the mean over its members."""

    get: Callable[[StepRow], float | None] = lambda step: None
    of: Callable[[YardstickRow], float | None] = lambda standing: None

    def values(self, run: Run) -> list[tuple[int, float | None]]:
        """Return (step, value) for every measurement of a run; where only the base was, of it."""
        found: dict[int, list[float]] = {}
        of_members = {s.step for s in run.standings if s.role != BASE}
        for standing in run.standings:
            value = self.of(standing)
            if value is not None and (standing.role != BASE or standing.step not in of_members):
                found.setdefault(standing.step, []).append(value)
        return [(step, fmean(values)) for step, values in sorted(found.items())]


def _mean(name: str) -> Callable[[StepRow], float | None]:
    def get(step: StepRow) -> float | None:
        value: Maybe = getattr(step, name)
        return None if isinstance(value, UnsetType) else value

    return get


def _kind(kind: str) -> Callable[[StepRow], float | None]:
    return lambda step: step.kinds[kind].solve_rate if kind in step.kinds else None


def _complexity(name: str) -> Callable[[StepRow], float | None]:
    return lambda step: (step.complexity or {}).get(name)


def _gain(step: StepRow) -> float | None:
    return step.same_tasks.difference


def _of_role(role: str, name: str) -> Callable[[StepRow], float | None]:
    def get(step: StepRow) -> float | None:
        members = [m for m in step.members.values() if m.role in (role, "agent")]
        found = [value for m in members if (value := m.number(name)) is not None]
        return fmean(found) if found else None

    return get


def _forecast_error(step: StepRow) -> float | None:
    errors = [
        abs(m.predicted - m.observed)
        for m in step.matches
        if m.predicted is not None and m.observed is not None
    ]
    return fmean(errors) if errors else None


def _tokens_per_second(step: StepRow) -> float | None:
    seconds = sum(step.seconds.values())
    tokens = step.tokens.sampled + step.tokens.trained
    return tokens / seconds if seconds > 0 and tokens else None


YARDSTICK = (
    Reading(
        "Held-out solve rate",
        "% of attempts",
        "Students on tasks that no teacher wrote and that never change; at step 0 as they began.",
        share=True,
        of=lambda standing: standing.rate.solve_rate if standing.rate else None,
    ),
    Measure(
        "Students minus frozen base",
        "on the same tasks",
        "Both attempt a sample of the step's own tasks, so harder tasks cannot hide learning.",
        _gain,
    ),
    Reading(
        "Teachers' tasks, solved by the base",
        "% of attempts",
        "The frozen base on tasks written after references that never change. Down: harder tasks.",
        share=True,
        of=lambda standing: standing.taught.base_solve_rate if standing.taught else None,
    ),
    Reading(
        "Teachers' reward against the base",
        "mean reward",
        "What these tasks would earn with the frozen base as the student.",
        of=lambda standing: standing.taught.reward if standing.taught else None,
    ),
)

REWARDS = (
    Measure(
        "Student reward",
        "mean reward",
        "1 for a right answer, less for a wrong or unreadable one. Up: students solve more.",
        _mean("student_reward"),
    ),
    Measure(
        "Teacher reward",
        "mean reward",
        "−1 for an invalid task, 0 if nobody solved it, else 1 − ρ. Up: valid, hard, but solvable.",
        _mean("teacher_reward"),
    ),
    Measure(
        "Valid share",
        "% of proposals",
        "Proposals that parse, run, and give the same output twice.",
        _mean("valid_share"),
        share=True,
    ),
)

SOLVE_RATE = Measure(
    "Solve rate",
    "% of attempts",
    "Right attempts at valid tasks. Near 100 % for long, the tasks have become too easy to teach.",
    _mean("solve_rate"),
    share=True,
)

KIND_HINTS = {
    "code_o": "Given program and input, predict the output.",
    "code_i": "Given program and output, find an input that leads to it.",
    "code_f": "Given examples, write the program.",
}

COMPLEXITY = (
    Measure(
        "AST depth",
        "levels",
        "How deeply the valid programs nest, as syntax trees.",
        _complexity("ast_depth"),
    ),
    Measure(
        "Cyclomatic complexity",
        "paths",
        "Independent ways through a program: branches, loops, conditions.",
        _complexity("cyclomatic"),
    ),
    Measure("Lines of code", "lines", "Mean length of the valid programs.", _complexity("loc")),
    Measure("Variables", "names", "Distinct variables in a program.", _complexity("variables")),
    Measure(
        "Coverage",
        "structures so far",
        "Distinct program structures since the start. A flat end means repetition.",
        lambda step: step.coverage.structures,
        total=True,
    ),
)

HEALTH = (
    Measure(
        "Tasks without signal",
        "% of tasks",
        "All attempts earned the same reward, so the task taught its student nothing.",
        _mean("frac_reward_zero_std"),
        share=True,
    ),
    Measure(
        "Teachers' entropy",
        "nats a token",
        "Near 0: one proposal only.",
        _of_role("teacher", "entropy"),
    ),
    Measure(
        "Students' entropy",
        "nats a token",
        "Near 0: one answer only.",
        _of_role("student", "entropy"),
    ),
    Measure(
        "Students' noise scale",
        "attempts",
        "At so many attempts a step a student's gradient is as much signal as noise; gaps: none "
        "found.",
        _of_role("student", "noise_scale_solve"),
    ),
    Measure(
        "Teachers' noise scale",
        "proposals",
        "At so many proposals a step a teacher's gradient is as much signal as noise.",
        _of_role("teacher", "noise_scale_propose"),
    ),
    Measure("Teachers' gradient", "norm", "Before clipping.", _of_role("teacher", "grad_norm")),
    Measure("Students' gradient", "norm", "Before clipping.", _of_role("student", "grad_norm")),
    Measure(
        "Forecast error of the ratings",
        "|predicted − observed|",
        "How far the solve rate that the ratings foretold was from what happened.",
        _forecast_error,
    ),
    Measure(
        "Speed",
        "tokens/s",
        "Tokens sampled and trained per second of the step.",
        _tokens_per_second,
    ),
    Measure("Memory", "MB", "As the process reports it.", _mean("memory_mb")),
)


def solve_rates(kinds: Sequence[str]) -> list[Measure]:
    """Return the solve rate overall and per kind of task."""
    per_kind = [
        Measure(
            f"Solve rate, {kind}",
            "% of attempts",
            KIND_HINTS.get(kind, ""),
            _kind(kind),
            share=True,
        )
        for kind in kinds
    ]
    return [SOLVE_RATE, *per_kind]


def moved_measures(kinds: Sequence[str]) -> list[Measure]:
    """Return the measures whose start and end a summary compares."""
    return [YARDSTICK[1], *REWARDS, *solve_rates(kinds), *COMPLEXITY[:4]]
