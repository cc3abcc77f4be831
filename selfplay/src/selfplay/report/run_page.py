"""The report of a run: a summary for the terminal, and a page that leads with the evaluation."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lora_evo import check_output
from selfplay.errors import ConfigError
from selfplay.files.read import (
    DRIFT_LIMITS,
    Points,
    Quarter,
    RunRecord,
    conclusion,
    flat,
    gain_text,
    held_out_gain,
    points,
    read_run,
    trend,
    warnings_of,
)
from selfplay.files.rows import BASE, START, EvalRow, TaskRow, mean
from selfplay.objects import load_object
from selfplay.report.pages import Table, duration, figure, text_table, visible, write_page
from selfplay.tasks.template import NANO

if TYPE_CHECKING:
    import altair as alt

ACCEPTED, REJECTED = 4, 2
"""Accepted tasks and rejected proposals that the gallery shows of a step and kind."""
MOST_CARDS_BYTES = 1_000_000


class Series(NamedTuple):
    """A number of a step by its path, its unit (`% ...` for a share), and how to read it."""

    title: str
    path: str
    unit: str
    hint: str = ""


SAME_TASKS = Series(
    "Students minus frozen base",
    "same_tasks.difference",
    "% points",
    "Both attempt a sample of the step's own tasks, so harder tasks cannot hide learning.",
)
PROGRESS = (
    Series(
        "Student reward",
        "student_reward",
        "mean reward",
        "1 for a right answer, less for a wrong or unreadable one.",
    ),
    Series(
        "Teacher reward",
        "teacher_reward",
        "mean reward",
        "−1 for an invalid task, 0 if no attempt solved it, else 1 − its solve rate.",
    ),
    Series(
        "Valid share",
        "valid_share",
        "% of proposals",
        "Proposals that parse, run, and give the same output twice.",
    ),
    Series(
        "Solve rate", "solve_rate", "% of attempts", "Right attempts at the run's own valid tasks."
    ),
)
COMPLEXITY = (
    Series("AST depth", "complexity.ast_depth", "levels", "How deeply valid programs nest."),
    Series("Cyclomatic complexity", "complexity.cyclomatic", "paths", "Ways through a program."),
    Series("Lines of code", "complexity.loc", "lines"),
    Series("Variables", "complexity.variables", "names"),
)
COVERAGE = Series(
    "Coverage",
    "coverage.structures",
    "structures so far",
    "Distinct program structures since the start. A flat end means repetition.",
)
COMMONEST = Series(
    "Commonest structure",
    "coverage.commonest",
    "% of tasks",
    "Share of a step's tasks whose programs have one structure. Near 100: one program, repeated.",
)
FLAT = Series(
    "Flat tasks", "flat", "% of tasks", "All attempts solved them, or none: they teach nothing."
)
HEALTH = (
    Series(
        "Tasks without signal",
        "frac_reward_zero_std",
        "% of tasks",
        "All attempts earned the same reward, so the task taught its student nothing.",
    ),
)
BY_ROLE = (
    Series("Entropy", "entropy", "nats a token", "Near 0: always the same text."),
    Series("Length", "length", "tokens a text", "Of proposals and attempts, with their thoughts."),
    Series(
        "Cut off", "cut", "% of texts", "At the most tokens that are allowed: mostly ill-formed."
    ),
    Series("Gradient", "grad_norm", "norm", "Before clipping."),
    Series(
        "Clipped", "clip_ratio", "% of tokens", "Where the policy left what one update may change."
    ),
    Series("Sampler against learner", "mismatch_kl", "KL, nats a token", "0: they are one model."),
    Series("Members against base", "kl", "KL, nats a token", "How far training has moved them."),
)
"""Numbers of members, of which teachers and students have a line each."""


def _points(run: RunRecord, field: str, role: str) -> Points:
    """Return a number of every step, the mean over the members of a role."""
    return [
        (step.step, mean(m.number(field) for m in step.members.values() if m.role == role))
        for step in run.steps
    ]


def measures_of_kinds(run: RunRecord) -> list[Series]:
    """Return the solve rate of each kind of task, with what it asks."""
    words = kind_words(run)
    return [
        Series(
            f"Solve rate, {kind}",
            f"kinds.{kind}.solve_rate",
            "% of attempts",
            f"The student is to {words[kind]}." if kind in words else "",
        )
        for kind in sorted(run.kinds)
    ]


def kind_words(run: RunRecord) -> dict[str, str]:
    """Return what each kind of task asks, by name; not those that cannot be imported here."""
    words = {kind.name: kind.words for kind in NANO.kinds}
    for name in run.config.get("rollout", {}).get("kinds", ()):
        if name not in words:
            with suppress(ConfigError):
                kind = load_object(name, "rollout.kinds")
                words[kind.name] = kind.words
    return {name: words[name] for name in run.kinds if name in words}


def report(directory: Path, page: Path) -> None:
    """Write the report of a run directory as one HTML page that works offline.

    The gallery shows tasks of the first, middle and last step. Equal runs give equal bytes.
    Raises RunDirectoryError for a run that cannot be read.

    Example:

        >>> report(Path("runs/mine"), Path("report.html"))
    """
    check_output(page)
    run = read_run(directory)
    drawn = report_charts(run)
    cards, left_out = _gallery(run)
    steps = [step.step for step in run.steps]
    write_page(
        page,
        "report.html",
        {name: chart for name, (chart, _) in drawn.items()},
        dict(zip(steps, accumulate(step.tokens.sampled for step in run.steps), strict=True)),
        title=f"PopuLoRA run {run.name}",
        conclusion=conclusion(run),
        warnings=warnings_of(run),
        agent=run.config.get("mode") == "azr",
        tiles=_tiles(run),
        kinds=kind_words(run),
        solving=_solving_table(run),
        teaching=_teaching_table(run),
        words=" ".join(_sentences(run)),
        moved=_moved(run),
        board=_board(run),
        time=_time(run),
        births=run.births,
        hints={name: hint for name, (_, hint) in drawn.items()},
        cards=cards,
        left_out=left_out,
        settings={name: str(value) for name, value in flat(run.config).items()},
    )


def report_charts(run: RunRecord) -> dict[str, tuple["alt.TopLevelMixin", str]]:
    """Return every chart of the page with a hint how to read it, by `section: title`."""
    from selfplay.report import charts as charts

    sections = {
        "moved": (SAME_TASKS, *PROGRESS, *measures_of_kinds(run)),
        "programs": (*COMPLEXITY, COVERAGE, COMMONEST),
        "health": HEALTH,
    }
    alone = run.config.get("mode") == "azr"
    is_paper = run.config.get("reward", {}).get("teacher", "populora") == "populora"
    solvers, teachers = ("agent", "The agent's") if alone else ("students", "Teachers'")
    drawn: dict[str, tuple[Any, str]] = {
        f"eval: Held-out gain of the {solvers}": (
            charts.held_out(run),
            "Solve rate on tasks that never change, minus the frozen base's. Band: ± one standard "
            "error over tasks.",
        ),
        f"eval: {teachers} tasks, solved by the base": (
            charts.taught(run),
            "How often the frozen base solves what is written after examples that never change. "
            "Below the dashed line: harder than the base's own tasks.",
        ),
    }
    drawn["eval: Held-out gain by kind of task"] = (
        charts.held_out_kinds(run),
        "The mean over the members that have learned.",
    )
    for section, measures in sections.items():
        for m in measures:
            curves = charts.curves({run.name: run.series(m.path)}, m.unit)
            unlike = m.path == "teacher_reward" and not is_paper
            drawn[f"{section}: {m.title}"] = curves, "" if unlike else m.hint
    roles = ("agent",) if alone else ("teacher", "student")
    for m in BY_ROLE:
        lines = {role: _points(run, m.path, role) for role in roles}
        drawn[f"health: {m.title}"] = charts.curves(lines, m.unit, "role"), m.hint
    bar = (
        "A bar is a member's life, lines lead from parents to their child. Colour and the number "
        "at its end: the last measurement, in points. Of a student: its solve rate on held-out "
        "tasks minus the frozen base's. Of a teacher: how much less the base solves of its tasks "
        "than of those it writes itself. Grey: not measured."
    )
    drawn |= {
        "population: Ratings of the teachers": (charts.ratings(run, "teacher"), ""),
        "population: Ratings of the students": (charts.ratings(run, "student"), ""),
        "tasks: Rejected proposals": (charts.rejected(run), ""),
        "tasks: Solve rates of the tasks": (
            charts.solve_rates(run),
            "Tasks that some attempts solve teach the student.",
        ),
        "lineage: Family tree": (charts.lineage(run), bar),
        "population: Teachers against students": (
            charts.payoffs(run),
            "The share of attempts at a teacher's tasks that a student solved, by quarter.",
        ),
    }
    return {name: (chart, hint) for name, (chart, hint) in drawn.items() if chart is not None}


PLUS_MINUS = (
    "±: after a solve rate or gain, one standard error over the tasks; after a quarter's mean, the "
    "standard deviation over its steps"
)


def summary(directory: Path) -> str:
    """Return about 20 lines of text about a run, the evaluation against the frozen base first."""
    run = read_run(directory)
    said = [conclusion(run), *warnings_of(run)]
    parts = [list(filter(None, said)), _sentences(run)]
    for head, rows in (_solving_table(run), _teaching_table(run)):
        if rows:
            parts.append([text_table(head, rows)])
    head = ("", "first quarter", "last quarter", "")
    parts.append([text_table(head, _moved(run))])
    board = _board(run)
    if board:
        parts.append([text_table(("member", "role", "origin", "rating μ ± σ"), board)])
    deviation = "; after a rating, TrueSkill's σ." if board else "."
    parts.append([PLUS_MINUS + deviation, f"Time: {_time(run)}"])
    text = "\n\n".join("\n".join(lines) for lines in parts if any(lines))
    return "\n".join(visible(line) for line in text.split("\n"))


def _solving_table(run: RunRecord) -> Table:
    """Return the last evaluation of every solver, below what the frozen base does."""
    last = {_who(row): row.rate for row in run.latest_evals() if row.rate and row.role != BASE}
    kinds = sorted({kind for rate in last.values() for kind in rate.kinds})
    started = any(isinstance(rate.over_start, float) for rate in last.values())
    base = next((row.rate for row in run.evals if row.rate and row.role == BASE), None)
    rows = []
    if base and last:
        solved = {kind: _percent(r.solve_rate) for kind, r in base.kinds.items()}
        gains = ["", *[""] * started, *(solved.get(kind, "") for kind in kinds)]
        rows.append(("frozen base", _percent(base.solve_rate), *gains, figure(base.tokens)))
    for name, rate in last.items():
        gains = [gain_text(rate.difference, rate.standard_error)]
        gains += [gain_text(rate.over_start, rate.over_start_error)] * started
        for r in map(rate.kinds.get, kinds):
            gains.append(gain_text(r.difference, r.standard_error) if r else "")
        rows.append((name, _percent(rate.solve_rate), *gains, figure(rate.tokens)))
    tasks = max((len(rate.judged) for rate in last.values()), default=0)
    samples = max((max(rate.judged, default=0) for rate in last.values()), default=0)
    over = ("over the start",) if started else ()
    head = (f"{tasks} tasks × {samples}", "solved", "gain", *over, *kinds, "tokens an answer")
    return head, rows


def _teaching_table(run: RunRecord) -> Table:
    """Return what teachers wrote after references that never change, the start's first."""
    base = [row for row in run.evals if row.role in (BASE, START) and row.taught]
    last = [row for row in run.latest_evals() if row.taught and row.role not in (BASE, START)]
    rows = [
        (
            _who(row),
            _percent(t.base_solve_rate),
            _percent(t.valid_share),
            figure(t.reward, signed=True),
            str(t.new_structures),
        )
        for row in ([*base, *last] if last else [])
        if (t := row.taught)
    ]
    return ("tasks of", "solved by the base", "valid", "reward", "new structures"), rows


def _who(row: EvalRow) -> str:
    """Return a member's name, and whether it was born in the step and has not learned."""
    return f"{row.member}, born then" if row.born is True else row.member


def _moved(run: RunRecord) -> list[tuple[str, str, str, str]]:
    """Return the measures of the first and the last quarter of the steps, and what moved."""
    rows = []
    for m in (SAME_TASKS, *PROGRESS, *measures_of_kinds(run), FLAT, *COMPLEXITY, COMMONEST):
        if moved := trend(run.series(m.path)):
            first, last = (_quarter(q, m.unit) for q in (moved.first, moved.last))
            rows.append((m.title, first, last, moved.verdict))
    return rows


def _tiles(run: RunRecord) -> list[tuple[str, str]]:
    """Return the numbers of a run that are shown first, and what they are."""
    gain = held_out_gain(run)
    tiles = [(points(gain), "points above the base, held-out")] if gain else []
    if run.births:
        generations = max(life.generation for life in run.lives())
        tiles += [(f"{len(run.births)}", f"members born, up to generation {generations}")]
    return [*tiles, (f"{run.last}", "steps"), (_seconds(run), "of training")]


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


def _time(run: RunRecord) -> str:
    """Return the share of the time that each phase took, in the order in which they come."""
    totals = sum((Counter(step.seconds) for step in run.steps), Counter[str]())
    names = list(dict.fromkeys(name for step in run.steps for name in step.seconds))
    return ", ".join(
        f"{name} {figure(totals[name] / totals.total(), share=True)}" for name in names
    )


def _seconds(run: RunRecord) -> str:
    return duration(sum(sum(step.seconds.values()) for step in run.steps))


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
    return [
        f"{who} on the base model {base}: {steps}, seed {seed}.",
        f"It took {_seconds(run)}, {sampled:,} tokens sampled and {trained:,} trained on, at most "
        f"{memory:,.0f} MB of memory.",
        *_drift(run),
    ]


def _drift(run: RunRecord) -> list[str]:
    """Return a warning where sampler and learner drift apart."""
    rows = [member for step in run.steps for member in step.members.values()]
    kl = max((row.number("mismatch_kl") or 0.0 for row in rows), default=0.0)
    limit = DRIFT_LIMITS[str(run.config.get("dtype", "float32"))]
    about = "Warning: sampler and learner drift apart: KL divergence of up to"
    return [f"{about} {kl:.1e} nats a token, limit {limit:.0e}."] if kl > limit else []


def _gallery(run: RunRecord) -> tuple[list[TaskRow], int]:
    """Return some tasks, and how many more did not fit."""
    cards: list[TaskRow] = []
    left_out = 0
    steps = [step.step for step in run.steps]
    shown = {steps[0], steps[len(steps) // 2], steps[-1]}
    budget = MOST_CARDS_BYTES
    for task in choose(task for task in run.tasks() if task.step in shown):
        size = sum(len(text or "") for text in (task.program, task.message, task.reason))
        size = min(size, 6000) + sum(min(len(a.thought), 1500) for a in task.attempts[:6])
        budget -= 2 * size + 2000
        if budget < 0:
            left_out += 1
        else:
            cards.append(task)
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


def _percent(value: float | None) -> str:
    return figure(value, share=True)


def _quarter(quarter: Quarter, unit: str) -> str:
    """Return `mean ± spread`, shares as percentages and differences of shares in points."""
    numbers = [n for n in (quarter.mean, quarter.spread) if n is not None]
    text = " ± ".join(figure(n, share=unit[0] == "%") for n in numbers)
    return f"{text.replace(' %', '')} points" if unit == SAME_TASKS.unit else text
