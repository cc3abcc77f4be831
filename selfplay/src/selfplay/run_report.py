"""The report of runs: a summary for the terminal, and one page that leads with the evaluation."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import altair as alt

from code_verifier import CodeVerifierError
from selfplay import charts
from selfplay.config import read_config
from selfplay.errors import SelfplayError
from selfplay.pages import duration, figure, text_table, visible, write_page
from selfplay.prompts.template import template_named
from selfplay.rows import BASE, EvalRow, RateRow, StepRow, TaskRow
from selfplay.run_record import RunRecord, read_run, read_runs
from selfplay.statistics import Points, Quarter, trend

DRIFT_LIMIT = 1e-3
"""KL divergence (nats a token) of sampler and learner above which they drift apart.

The arithmetic of bfloat16 alone gives about 5e-5 and that of float32 1e-11: twenty times as much
comes from something else, such as weights that did not arrive. Below it the truncated importance
weights correct what there is.
"""
ACCEPTED, REJECTED = 4, 2
"""Accepted tasks and rejected proposals that the gallery shows of a step and kind."""
MOST_CARDS_BYTES = 1_000_000


@dataclass(frozen=True)
class Measure:
    """A number of a step, its unit, and how to read it."""

    title: str
    unit: str
    hint: str
    of: Callable[[StepRow], float | None]
    share: bool = False

    def points(self, run: RunRecord) -> Points:
        """Return the value of every step."""
        return [(step.step, self.of(step)) for step in run.steps]


def _complexity(name: str) -> Callable[[StepRow], float | None]:
    return lambda step: (step.complexity or {}).get(name)


def _of_role(role: str, name: str) -> Callable[[StepRow], float | None]:
    def get(step: StepRow) -> float | None:
        members = [m for m in step.members.values() if m.role in (role, "agent")]
        return _mean(m.number(name) for m in members)

    return get


def _of_kind(kind: str) -> Callable[[StepRow], float | None]:
    return lambda step: step.kinds[kind].solve_rate if kind in step.kinds else None


def _prediction_error(step: StepRow) -> float | None:
    pairs = [(m.predicted, m.observed) for m in step.matches]
    return _mean(abs(p - o) for p, o in pairs if p is not None and o is not None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


SAME_TASKS = Measure(
    "Students minus frozen base",
    "solve rate",
    "Both attempt a sample of the step's own tasks, so harder tasks cannot hide learning.",
    lambda step: step.same_tasks.difference,
)
PROGRESS = (
    Measure(
        "Student reward",
        "mean reward",
        "1 for a right answer, less for a wrong or unreadable one.",
        lambda step: step.student_reward,
    ),
    Measure(
        "Teacher reward",
        "mean reward",
        "−1 for an invalid task, 0 if no attempt solved it, else 1 − its solve rate.",
        lambda step: step.teacher_reward,
    ),
    Measure(
        "Valid share",
        "% of proposals",
        "Proposals that parse, run, and give the same output twice.",
        lambda step: step.valid_share,
        share=True,
    ),
    Measure(
        "Solve rate",
        "% of attempts",
        "Right attempts at the run's own valid tasks.",
        lambda step: step.solve_rate,
        share=True,
    ),
)
COMPLEXITY = (
    Measure("AST depth", "levels", "How deeply valid programs nest.", _complexity("ast_depth")),
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
        lambda step: float(step.coverage.structures),
    ),
)
HEALTH = (
    Measure(
        "Tasks without signal",
        "% of tasks",
        "All attempts earned the same reward, so the task taught its student nothing.",
        lambda step: step.frac_reward_zero_std,
        share=True,
    ),
    *(
        Measure(f"{role.title()}s: {title}", unit, hint, _of_role(role, name))
        for role, noise in (("teacher", "noise_scale_propose"), ("student", "noise_scale_solve"))
        for title, unit, hint, name in (
            ("entropy", "nats a token", "Near 0: always the same text.", "entropy"),
            ("gradient", "norm", "Before clipping.", "grad_norm"),
            ("noise scale", "samples", "Samples at which signal equals noise.", noise),
        )
    ),
    Measure(
        "Prediction error of the ratings",
        "|predicted − observed|",
        "Distance of predicted from observed solve rates.",
        _prediction_error,
    ),
)


def measures_of_kinds(kinds: Sequence[str]) -> list[Measure]:
    """Return the solve rate of each kind of task."""
    return [
        Measure(f"Solve rate, {kind}", "% of attempts", "", _of_kind(kind), share=True)
        for kind in kinds
    ]


def report(runs: Sequence[Path], page: Path, *, gallery_steps: Sequence[int] = ()) -> None:
    """Write the report of one or more run directories as one HTML page that works offline.

    The gallery shows tasks of `gallery_steps`, or of the first, middle and last step. Equal runs
    give equal bytes. Raises RunDirectoryError for a run that cannot be read.
    """
    read = read_runs(runs)
    drawn = report_charts(read)
    cards, left_out = _gallery(read, gallery_steps)
    one = len(read) == 1
    settings = [_flat(run.config) for run in read]
    keys = dict.fromkeys(key for found in settings for key in found)
    write_page(
        page,
        "report.html",
        {name: chart for name, (chart, _) in drawn.items()},
        title=f"PopuLoRA run {read[0].name}" if one else f"{len(read)} PopuLoRA runs",
        runs=[
            {
                "name": run.name,
                "conclusion": conclusion(run),
                "solving": _solving_table(run),
                "teaching": _teaching_table(run),
                "words": " ".join(_sentences(run)),
                "moved": _moved(run),
                "board": _board(run),
                "workers": _workers(run),
                "births": run.births,
            }
            for run in read
        ],
        hints={name: hint for name, (_, hint) in drawn.items()},
        cards=cards,
        left_out=left_out,
        settings=[(key, [found.get(key, "") for found in settings]) for key in keys],
    )


def report_charts(runs: Sequence[RunRecord]) -> dict[str, tuple[alt.TopLevelMixin, str]]:
    """Return every chart of the page with a hint how to read it, by `section: title`."""
    kinds = sorted({kind for run in runs for kind in run.kinds})
    sections = {
        "moved": (SAME_TASKS, *PROGRESS, *measures_of_kinds(kinds)),
        "programs": COMPLEXITY,
        "health": HEALTH,
    }
    found: dict[str, tuple[Any, str]] = {
        "eval: Held-out solve rate": (
            charts.curves({run.name: _held_out(run) for run in runs}, "% of attempts", share=True),
            "Students on tasks that never change; at step 0 the frozen base.",
        ),
        "eval: Teachers' tasks, solved by the base": (
            charts.curves({run.name: _taught(run) for run in runs}, "% of attempts", share=True),
            "The frozen base on proposals after references that never change. Down: harder tasks.",
        ),
    }
    for section, measures in sections.items():
        for m in measures:
            points = {run.name: m.points(run) for run in runs}
            found[f"{section}: {m.title}"] = charts.curves(points, m.unit, share=m.share), m.hint
    for run in runs:
        name = "" if len(runs) == 1 else f" of {run.name}"
        found |= {
            f"population: Ratings of the teachers{name}": (charts.ratings(run, "teacher"), ""),
            f"population: Ratings of the students{name}": (charts.ratings(run, "student"), ""),
            f"tasks: Rejected proposals{name}": (charts.rejected(run), ""),
            f"tasks: Solve rates of the tasks{name}": (
                charts.solve_rates(run),
                "Tasks between 0 and 1 teach the student.",
            ),
            f"lineage: Lineage{name}": (
                charts.lineage(run),
                "A bar is a member's life; lines lead from parents to their child.",
            ),
            f"time: Where the time went{name}": (charts.phase_times(run), ""),
        }
    return {name: (chart, hint) for name, (chart, hint) in found.items() if chart is not None}


def summary(directory: Path) -> str:
    """Return about 20 lines of text about a run, the evaluation against the frozen base first."""
    run = read_run(directory)
    parts = [_sentences(run)]
    if run.evals:
        parts.insert(0, [conclusion(run)])
    for head, rows in (_solving_table(run), _teaching_table(run)):
        if rows:
            parts.append([text_table(head, rows)])
    head = ("", "first quarter", "last quarter", "")
    parts.append([text_table(head, _moved(run))])
    if board := _board(run):
        parts.append([text_table(("member", "role", "origin", "rating μ ± σ"), board)])
    totals = charts.phase_seconds(run)
    whole = sum(totals.values()) or 1.0
    shares = [f"{name} {100 * s / whole:.0f} %" for name, s in totals.items() if s]
    parts.append([f"Time: {', '.join(shares)}"])
    text = "\n\n".join("\n".join(lines) for lines in parts if any(lines))
    return "\n".join(visible(line) for line in text.split("\n"))


def conclusion(run: RunRecord) -> str:
    """Return one line: held-out solve rate of the living against the frozen base; or nothing."""
    last = [row for row in run.latest_evals() if row.rate and row.role != BASE]
    rate = _mean(row.rate.solve_rate for row in last if row.rate)
    base = _mean(row.rate.base_solve_rate for row in last if row.rate)
    if rate is None or base is None:
        return ""
    who = "the agent" if last[0].role == "agent" else "students"
    first = _mean(row.rate.solve_rate for row in run.solvers() if row.rate and row.step == 0)
    start = "" if first is None or not last[0].step else f" (warm start: {_percent(first)})"
    return (
        f"Held-out tasks, never trained on: {who} solve {_percent(rate)} after step "
        f"{last[0].step}{start}, the frozen base {_percent(base)} "
        f"({100 * (rate - base):+.1f} points)"
    )


Table = tuple[Sequence[str], Sequence[tuple[str, ...]]]
"""A head and rows."""


def _solving_table(run: RunRecord) -> Table:
    """Return the last evaluation of every solver, paired with the frozen base."""
    last = {row.member: row.rate for row in run.latest_evals() if row.rate and row.role != BASE}
    kinds = sorted({kind for rate in last.values() for kind in rate.kinds})
    rows = [
        (
            name,
            _percent(rate.base_solve_rate),
            _percent(rate.solve_rate),
            _gain(rate),
            *(_gain(rate.kinds[kind]) if kind in rate.kinds else "" for kind in kinds),
            figure(rate.tokens),
        )
        for name, rate in last.items()
    ]
    tasks = max((len(rate.judged) for rate in last.values()), default=0)
    samples = max((max(rate.judged, default=0) for rate in last.values()), default=0)
    title = f"{tasks} held-out tasks × {samples}"
    return (title, "base", "member", "gain in points", *kinds, "tokens an answer"), rows


def _teaching_table(run: RunRecord) -> Table:
    """Return what teachers wrote after references that never change, the frozen base's first."""
    base = [row for row in run.evals if row.role == BASE and row.taught][:1]
    last = [row for row in run.latest_evals() if row.taught and row.role != BASE]
    rows = [
        (
            row.member,
            _percent(t.base_solve_rate),
            _percent(t.valid_share),
            figure(t.reward, signed=True),
            str(t.new_structures),
        )
        for row in ([*base, *last] if last else [])
        if (t := row.taught)
    ]
    return ("tasks of", "solved by the base", "valid", "reward", "new structures"), rows


def _moved(run: RunRecord) -> list[tuple[str, str, str, str]]:
    """Return the measures of the first and the last quarter of the steps, and what moved."""
    rows = []
    for m in (SAME_TASKS, *PROGRESS, *measures_of_kinds(run.kinds), *COMPLEXITY[:4]):
        if found := trend(m.points(run)):
            first, last = (_quarter(q, m.share) for q in (found.first, found.last))
            rows.append((m.title, first, last, found.verdict))
    return rows


def _board(run: RunRecord) -> list[tuple[str, str, str, str]]:
    """Return the living members with a rating, by role, best mu − 3 sigma first."""
    rated = next((step.ratings for step in reversed(run.steps) if step.ratings), {})
    living = [life for life in run.lives() if life.died is None and life.name in rated]
    living.sort(
        key=lambda life: (life.role != "teacher", 3 * rated[life.name][1] - rated[life.name][0])
    )
    return [
        (
            life.name,
            life.role,
            f"{' × '.join(life.birth.parents)}, {life.birth.operator}" if life.birth else "founder",
            f"{figure(rated[life.name][0])} ± {figure(rated[life.name][1])}",
        )
        for life in living
    ]


def _workers(run: RunRecord) -> list[tuple[str, str, str, str, str]]:
    """Return name, machine, members, share of the time at work, and memory of every worker."""
    rows = []
    used = [(s, run.resources[s.step].workers) for s in run.steps if s.step in run.resources]
    for name in dict.fromkeys(name for _, workers in used for name in workers):
        mine = [(sum(s.seconds.values()), workers[name]) for s, workers in used if name in workers]
        busy = sum(worker.busy for _, worker in mine) / (sum(wall for wall, _ in mine) or 1.0)
        _, last = mine[-1]
        memory = max(worker.memory_mb for _, worker in mine)
        members = " ".join(last.members)
        rows.append((name, last.host, members, figure(busy, share=True), f"{memory:,.0f} MB"))
    return rows


def _sentences(run: RunRecord) -> list[str]:
    """Return who played, what it cost, and whether sampler and learner agree."""
    config, steps = run.config, f"{len(run.steps)} steps"
    planned = config.get("steps")
    if isinstance(planned, int) and planned > run.last:
        steps = f"{run.last} of {planned} steps so far"
    members = f"{config.get('teachers', '?')} teachers and {config.get('students', '?')} students"
    who = "One agent in both roles" if config.get("mode") == "azr" else members
    base, seed = config.get("base", "an unnamed base"), config.get("seed", "?")
    sampled = sum(step.tokens.sampled for step in run.steps)
    trained = sum(step.tokens.trained for step in run.steps)
    memory = max((m for s in run.steps if isinstance(m := s.memory_mb, float)), default=0.0)
    seconds = duration(sum(charts.phase_seconds(run).values()))
    return [
        f"{who} on the base model {base}: {steps}, seed {seed}.",
        f"It took {seconds}, {sampled:,} tokens sampled and {trained:,} trained on, at most "
        f"{memory:,.0f} MB of memory.",
        *_drift(run),
    ]


def _drift(run: RunRecord) -> list[str]:
    """Return a sentence on the divergence of sampler and learner, where there is one to tell."""
    found = [
        (kl, name, step.step)
        for step in run.steps
        for name, member in step.members.items()
        if (kl := member.number("mismatch_kl")) is not None
    ]
    kl, name, step = max(found, default=(0.0, "", 0))
    if kl <= DRIFT_LIMIT and not (found and run.config.get("engine") == "vllm"):
        return []
    rows = [member for step in run.steps for member in step.members.values()]
    cut = max(row.number("importance_sampling_clip_ratio") or 0.0 for row in rows)
    most = f"KL divergence at most {kl:.1e} nats a token ({name}, step {step})"
    weights = f"at most {100 * cut:.2g} % of a member's importance weights truncated"
    about = "Sampler against learner"
    if kl > DRIFT_LIMIT:
        about = f"Warning: sampler and learner drift apart, limit {DRIFT_LIMIT:.0e}"
    return [f"{about}: {most}; {weights}."]


def _gallery(runs: Sequence[RunRecord], wanted: Sequence[int]) -> tuple[list[dict[str, Any]], int]:
    """Return the cards of chosen tasks, and how many more did not fit."""
    cards: list[dict[str, Any]] = []
    left_out = 0
    for run in runs:
        steps = [step.step for step in run.steps]
        chosen = set(wanted) & set(steps) or {steps[0], steps[len(steps) // 2], steps[-1]}
        budget = MOST_CARDS_BYTES // len(runs)
        prompts = _Prompts(run)
        for task in choose(task for task in run.tasks() if task.step in chosen):
            size = sum(len(text or "") for text in (task.program, task.message, task.reason))
            size = min(size, 6000) + sum(min(len(a.thought), 1500) for a in task.attempts[:6])
            budget -= 2 * size + 2000
            if budget < 0:
                left_out += 1
                continue
            asked, shown = prompts.of(task)
            cards.append({"task": task, "run": run.name, "asked": asked, "shown": shown})
    return cards, left_out


def choose(tasks: Iterable[TaskRow]) -> list[TaskRow]:
    """Return a few tasks of every step and kind: accepted ones spread over solve rates, then
    rejected ones of different status."""
    groups: dict[tuple[int, str], list[TaskRow]] = {}
    for task in tasks:
        groups.setdefault((task.step, task.kind), []).append(task)
    chosen: list[TaskRow] = []
    for _, group in sorted(groups.items()):
        accepted = [task for task in group if task.accepted]
        accepted.sort(key=lambda task: -1.0 if task.solve_rate is None else task.solve_rate)
        if len(accepted) > ACCEPTED:
            last = len(accepted) - 1
            accepted = [accepted[round(i * last / (ACCEPTED - 1))] for i in range(ACCEPTED)]
        rejected = {task.status: task for task in reversed(group) if not task.accepted}
        chosen += [*accepted, *list(rejected.values())[:REJECTED]]
    return chosen


class _Prompts:
    """Writes the prompts of tasks again, from the tasks that they show."""

    def __init__(self, run: RunRecord) -> None:
        self._template, self._known = None, {}
        try:
            config = read_config(run.config)
            name = "azr" if config.template == "azr-chat" else config.template
            self._template = template_named(name, config.base)
        except SelfplayError:  # settings that are not known here
            return
        from selfplay.tasks import seed_tasks

        seeds = seed_tasks(config.template, config.rollout.seed_tasks, config.seed)
        self._known = {task.id: task for task in seeds}
        for row in run.tasks():
            try:
                self._known |= {row.id: row.task()} if row.accepted else {}
            except CodeVerifierError:
                continue

    def of(self, task: TaskRow) -> tuple[str | None, str | None]:
        """Return the prompt of a proposal and of its attempts; None where it is not known."""
        if self._template is None:
            return None, None
        references = [self._known[id] for id in task.references if id in self._known]
        complete = references and len(references) == len(task.references)
        asked = self._template.propose_prompt(task.kind, references) if complete else None
        known = self._known.get(task.id)
        return asked, self._template.solve_prompt(known) if known else None


def _held_out(run: RunRecord) -> Points:
    base = next((row.rate for row in run.solvers() if row.rate and row.step > 0), None)
    start: list[tuple[int, float | None]] = [(0, base.base_solve_rate)] if base else []
    return start + _by_step(run.solvers(), lambda row: row.rate.solve_rate if row.rate else None)


def _taught(run: RunRecord) -> Points:
    teachers = [row for row in run.evals if row.taught and row.role != BASE]
    return _by_step(teachers, lambda row: row.taught.base_solve_rate if row.taught else None)


def _by_step(
    rows: Sequence[EvalRow], of: Callable[[EvalRow], float | None]
) -> list[tuple[int, float | None]]:
    steps = sorted({row.step for row in rows})
    return [(step, _mean(of(row) for row in rows if row.step == step)) for step in steps]


def _percent(value: float | None) -> str:
    return figure(value, share=True)


def _gain(rate: RateRow) -> str:
    """Return `+8.4 ± 1.8`, in points, with the standard error paired over tasks."""
    if rate.difference is None:
        return "–"
    error = "" if rate.standard_error is None else f" ± {100 * rate.standard_error:.1f}"
    return f"{100 * rate.difference:+.1f}{error}"


def _quarter(quarter: Quarter, share: bool) -> str:
    """Return `mean ± spread`, to the second significant digit of the spread at most."""
    scale, unit = (100.0, " %") if share else (1.0, "")
    mean, spread = scale * quarter.mean, scale * (quarter.spread or 0.0)
    places = min(max(1 - math.floor(math.log10(spread)), 0), 2) if spread > 0 else 2
    after = "" if quarter.spread is None else f" ± {spread:.{places}f}"
    return f"{mean:.{places}f}{after}{unit}".replace("-", "−")


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = str(value)
    return flat
