"""The report of a run: a summary for the terminal, and a page that leads with the evaluation."""

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UnsetType

from league import League, panels
from lora_evo.files import check_output
from lora_evo.terminal import text_table
from selfplay.files.intervals import gain_text
from selfplay.files.record import Points, RunRecord, flatten, number_at, quarters, read_run
from selfplay.files.rows import BASE, START, EvalRow, TaskRow, mean
from selfplay.reports.findings import conclusion, faults, not_judged, warnings_of
from selfplay.reports.pages import Table, counted, duration, figure, visible, write_page
from selfplay.tasks.template import NANO

if TYPE_CHECKING:
    import altair as alt


class Series(NamedTuple):
    """A number of a step: path, unit (`% ...` for a share), and a hint how to read it."""

    title: str
    path: str
    unit: str
    hint: str = ""


_DIFFERENCE = "On a sample of the step's own tasks, so that harder tasks do not hide learning."
_VALID = "They parse, run, and are deterministic."
_STRUCTURES = "Distinct program structures since the start. A flat end means repetition."
_COMMONEST = "Share of a step's tasks with one structure. Near 100: one program, repeated."
PROGRESS = (
    Series("Students minus frozen base", "same_tasks.difference", "% points", _DIFFERENCE),
    Series("Student reward", "student_reward", "mean reward", "1 for a right answer, else less."),
    Series("Teacher reward", "teacher_reward", "mean reward"),
    Series("Valid share", "valid_share", "% of proposals", _VALID),
    Series("Solve rate", "solve_rate", "% of attempts", "Right attempts at the run's own tasks."),
)
COMPLEXITY = (
    Series("AST depth", "complexity.ast_depth", "levels", "How deeply valid programs nest."),
    Series("Cyclomatic complexity", "complexity.cyclomatic", "paths", "Ways through a program."),
    Series("Lines of code", "complexity.loc", "lines"),
    Series("Variables", "complexity.variables", "names"),
)
COMMONEST = Series("Commonest structure", "coverage.commonest", "% of tasks", _COMMONEST)
COVERAGE = Series("Coverage", "coverage.structures", "structures so far", _STRUCTURES)
FLAT = Series("Flat tasks", "flat", "% of tasks")
BY_ROLE = (
    Series("Entropy", "entropy", "nats a token", "Near 0: always the same text."),
    Series("Length", "length", "tokens a text", "Of proposals and attempts, with their thoughts."),
    Series("Cut off", "cut", "% of texts", "They ended at the token limit."),
    Series("Gradient", "grad_norm", "norm", "Before clipping."),
    Series("Clipped", "clip_ratio", "% of tokens", "Their policy ratio was out of bounds."),
    Series("Sampler against learner", "mismatch_kl", "KL, nats a token", "0: they are one model."),
    Series("Members against reference", "kl", "KL, nats a token", "How far they are from {}."),
)
"""Numbers of members, drawn as one line for each role."""
_GAIN = "Solve rate on fixed tasks, minus the frozen base's. Band: ± one standard error."
_BY_KIND = "The mean over the members that have learned."
_TAUGHT = (
    "How often the frozen base solves tasks written after fixed examples. Below the dashed line: "
    "harder than the base's own tasks."
)
_LIVES = (
    "A bar is a member's life, lines lead from parents to their child. Colour and the number at "
    "its end: the last evaluation, in points. For a student: its held-out gain. For a teacher: how "
    "much less the base solves of its tasks than of the base's own. Grey: not evaluated."
)
PLUS_MINUS = "±: one standard error over the tasks."


def _points(run: RunRecord, field: str, role: str) -> Points:
    """Return a number of every step, averaged over the members of a role."""
    return [
        (step.step, mean(number_at(m, field) for m in step.members.values() if m.role == role))
        for step in run.steps
    ]


def measures_of_kinds(run: RunRecord) -> list[Series]:
    """Return the solve rate of each kind of task, with a hint."""
    words = {kind.name: f"The student is to {kind.words}." for kind in NANO.kinds}
    unit = "% of attempts"
    return [
        Series(f"Solve rate, {kind}", f"kinds.{kind}.solve_rate", unit, words.get(kind, ""))
        for kind in run.kinds
    ]


def report(directory: Path, page: Path) -> None:
    """Write the report of a run directory as one HTML page that works offline.

    Charts are over steps, or over the tokens sampled so far. The gallery shows tasks of the first,
    middle and last step. Equal runs give equal bytes. Raises RunDirectoryError for a run that
    cannot be read, LeagueError for its league.

    Example:

        >>> report(Path("runs/mine"), Path("report.html"))
    """
    check_output(page)
    run = read_run(directory)
    charts = report_charts(run)
    steps = [step.step for step in run.steps]
    gallery = {steps[0], steps[len(steps) // 2], steps[-1]}
    tokens = accumulate(step.tokens.sampled for step in run.steps)
    write_page(
        page,
        "report.html",
        {name: chart for name, (chart, _) in charts.items()},
        title=f"PopuLoRA run {run.name}",
        conclusion=conclusion(run),
        warnings=warnings_of(run),
        agent=run.single,
        kinds={kind.name: kind.words for kind in NANO.kinds if kind.name in run.kinds},
        words=" ".join(sentences(run)),
        tables=tables(run),
        time=_time(run),
        tokens=dict(zip(steps, tokens, strict=True)),
        hints={name: hint for name, (_, hint) in charts.items()},
        cards=choose(task for task in run.tasks() if task.step in gallery),
    )


def report_charts(run: RunRecord) -> dict[str, tuple["alt.TopLevelMixin", str]]:
    """Return every chart of the page with a hint how to read it, by `section: title`."""
    from selfplay.reports import charts

    solvers, teachers = ("agent", "The agent's") if run.single else ("students", "Teachers'")
    solved = "Only tasks that some attempts solve, and some do not, teach the student."
    solving = not_judged((row.rate.not_judged for row in run.evals if row.rate), " ")
    teaching = not_judged((row.taught.not_judged for row in run.evals if row.taught), " ")
    hinted: dict[str, tuple[Any, str]] = {
        f"eval: Held-out gain of the {solvers}": (charts.held_out(run), _GAIN + solving),
        f"eval: {teachers} tasks, solved by the base": (charts.taught(run), _TAUGHT + teaching),
        "eval: Held-out gain by kind of task": (charts.held_out_kinds(run), _BY_KIND),
        "lineage: Family tree": (charts.lineage(run), _LIVES),
        **_of_league(run.directory / "league"),
        "tasks: Rejected proposals": (charts.rejected(run), ""),
        "tasks: Solve rates of the tasks": (charts.solve_rates(run), solved),
    }
    for m in (*PROGRESS, *measures_of_kinds(run), *COMPLEXITY, COVERAGE, COMMONEST):
        hint = f"{m.hint}{_left_out(run, m)}"
        hinted[f"moved: {m.title}"] = charts.curves({run.name: run.series(m.path)}, m.unit), hint
    roles = ("agent",) if run.single else ("teacher", "student")
    learner = run.config.get("learner", {})
    from_start = run.config.get("warm_start") and learner.get("reference") == "start"
    reference = "the warm start" if from_start else "the frozen base"
    for m in BY_ROLE:
        lines = {role: _points(run, m.path, role) for role in roles}
        chart = charts.curves(lines, m.unit, "role")
        hinted[f"health: {m.title}"] = chart, m.hint.format(reference)
    return {name: (chart, hint) for name, (chart, hint) in hinted.items() if chart is not None}


def _of_league(home: Path) -> dict[str, tuple[Any, str]]:
    """Return the charts that `league report --html` draws; none without a league."""
    if not home.is_dir():
        return {}
    with League(home, read_only=True) as league:
        return {f"population: {p.title}": (p.chart, p.hint) for p in panels(league)}


def summary(directory: Path) -> str:
    """Return about 20 lines of text about a run, the evaluation against the frozen base first."""
    run = read_run(directory)
    by_name = tables(run)
    parts = [
        "\n".join(filter(None, [conclusion(run), *warnings_of(run)])),
        "\n".join(sentences(run)),
    ]
    for name in ("solving", "teaching", "moved", "board"):
        head, rows = by_name[name]
        parts += [text_table(head, rows, left=len(head))] * bool(rows)
    parts += [PLUS_MINUS, f"Time: {_time(run)}"]
    return "\n".join(map(visible, "\n\n".join(filter(None, parts)).split("\n")))


def tables(run: RunRecord) -> dict[str, Table]:
    """Return the tables of a run by name: a head and rows, which may be empty."""
    return {
        "solving": _solving(run),
        "teaching": _teaching(run),
        "moved": (("", "first quarter", "last quarter"), _moved(run)),
        "board": (("member", "role", "origin", "rating μ ± σ"), _board(run)),
        "settings": (("setting", "value"), [(n, str(v)) for n, v in flatten(run.config).items()]),
    }


def _solving(run: RunRecord) -> Table:
    """Return the last evaluation of the frozen base and of every solver."""
    last = {
        _who(row, row.rate.not_judged): row.rate
        for row in run.latest_evals()
        if row.rate and row.role != BASE
    }
    kinds = sorted({kind for rate in last.values() for kind in rate.kinds})
    started = any(isinstance(rate.over_start, float) for rate in last.values())
    rows = []
    if last and (base := run.base):
        of_kinds = map(base.kinds.get, kinds)
        gains = ["", *[""] * started, *(_percent(r.solve_rate) if r else "" for r in of_kinds)]
        name = f"frozen base{not_judged([base.not_judged])}"
        rows.append((name, _percent(base.solve_rate), *gains, figure(base.tokens)))
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


def _teaching(run: RunRecord) -> Table:
    """Return the last evaluation of the base, the warm start and every teacher, as teachers."""
    base = [row for row in run.evals if row.role in (BASE, START) and row.taught]
    last = [row for row in run.latest_evals() if row.taught and row.role not in (BASE, START)]
    rows = []
    for row in [*base, *last] if last else []:
        if t := row.taught:
            name, reward = _who(row, t.not_judged), figure(t.reward, signed=True)
            solved, valid = _percent(t.base_solve_rate), _percent(t.valid_share)
            rows.append((name, solved, valid, reward, str(t.new_structures)))
    return ("tasks of", "solved by the base", "valid", "reward", "new structures"), rows


def _who(row: EvalRow, left_out: int | UnsetType) -> str:
    """Return a member's name, whether it was born then, and how many texts were not judged."""
    return row.member + ", born then" * (row.born is True) + not_judged([left_out])


def _left_out(run: RunRecord, m: Series) -> str:
    """Return ` 3 not judged.` for a share of proposals or attempts, or a reward; '' for none."""
    attempts = m.path in ("student_reward", "same_tasks.difference") or "attempts" in m.unit
    proposals = m.path in ("teacher_reward", "valid_share")
    noun = "attempts" if attempts else "proposals" if proposals else ""
    text = not_judged(faults(run.steps, noun), " ")
    return f"{text}." if text else ""


def _moved(run: RunRecord) -> list[tuple[str, str, str]]:
    """Return the means of each series over the first and the last quarter of the steps."""
    rows = []
    for m in (*PROGRESS, *measures_of_kinds(run), FLAT, *COMPLEXITY, COMMONEST):
        if means := quarters(run.series(m.path)):
            first, last = (figure(number, share=m.unit[0] == "%") for number in means)
            rows.append((f"{m.title}{_left_out(run, m).rstrip('.')}", first, last))
    return rows


def _board(run: RunRecord) -> list[tuple[str, str, str, str]]:
    """Return the living members with a rating, by role, best mu − 3 sigma first."""
    rated = next((step.ratings for step in reversed(run.steps) if step.ratings), {})
    rows = []
    for life in run.lives():
        if life.died is None and life.name in rated:
            (mu, sigma), birth = rated[life.name], life.birth
            origin = f"{' × '.join(birth.parents)}, {birth.operator}" if birth else "founder"
            row = life.name, life.role, origin, f"{figure(mu)} ± {figure(sigma)}"
            rows.append((life.role != "teacher", 3 * sigma - mu, row))
    return [row for _, _, row in sorted(rows, key=lambda ranked: ranked[:2])]


def _time(run: RunRecord) -> str:
    """Return the share of each phase in the time, in the phases' order."""
    totals = sum((Counter(step.seconds) for step in run.steps), Counter[str]())
    names = list(dict.fromkeys(name for step in run.steps for name in step.seconds))
    return ", ".join(f"{name} {_percent(totals[name] / totals.total())}" for name in names)


def sentences(run: RunRecord) -> list[str]:
    """Return two sentences: members, base and steps; time, tokens and memory."""
    config, steps = run.config, f"{len(run.steps)} steps"
    if run.planned > run.last:
        steps = f"{run.last} of {run.planned} steps so far"
    teachers, students = (counted(config.get(f"{r}s", "?"), r) for r in ("teacher", "student"))
    who = "One agent in both roles" if run.single else f"{teachers} and {students}"
    if file := (config.get("rollout") or {}).get("tasks"):
        who = f"{'One agent' if run.single else students} on the tasks of {file},"
    base, seed = config.get("base", "an unnamed base"), config.get("seed", "?")
    seconds = sum(sum(step.seconds.values()) for step in run.steps)
    sampled = sum(step.tokens.sampled for step in run.steps)
    trained = sum(step.tokens.trained for step in run.steps)
    memory = max((m for s in run.steps if isinstance(m := s.memory_mb, float)), default=0.0)
    return [
        f"{who} on the base model {base}: {steps}, seed {seed}.",
        f"It took {duration(seconds)}, {sampled:,} tokens sampled and {trained:,} trained on, at "
        f"most {memory:,.0f} MB of memory.",
    ]


def choose(tasks: Iterable[TaskRow]) -> list[TaskRow]:
    """Return up to four accepted tasks of every step and kind, and one of each other status."""
    groups: dict[tuple[int, str, bool, str], list[TaskRow]] = {}
    for task in tasks:
        groups.setdefault((task.step, task.kind, not task.accepted, task.status), []).append(task)
    return [task for key, group in sorted(groups.items()) for task in group[: 1 if key[2] else 4]]


def _percent(value: float | None) -> str:
    return figure(value, share=True)
