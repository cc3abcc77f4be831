"""Charts of runs. A function returns None if there is nothing to show."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import altair as alt

from selfplay.files.intervals import mean_and_error
from selfplay.files.record import Points, RunRecord, downsample, smooth
from selfplay.files.rows import BASE, START, BirthRow
from selfplay.tasks.held_out import HELD_OUT

MOST_POINTS, MOST_REASONS = 200, 8
FEW = 8
"""Most evaluations that are each marked with a dot and a tick."""
LETTER = 6.5
"""Upper bound of a letter's mean width in pixels; labels that do not fit are left out."""
SKILLS: dict[str, tuple[str, dict[str, Any]]] = {
    "student": ("students: points above the base", {"scheme": "viridis"}),
    "agent": ("points above the base", {"scheme": "viridis"}),
    "teacher": ("teachers: points harder for the base", {"range": ["#6b3a00", "#ffc46b"]}),
}
"""Title and colours of each role's skill: students' and teachers' skills differ."""
WHOLE_STEPS = alt.Axis(format="d", tickMinStep=1)
_POWERS = "datum.value ? format(datum.value, '.2~e') : '0'"
"""Labels of a small axis, such as 1e-12."""


def curves(points: Mapping[str, Points], unit: str, title: str = "run") -> alt.LayerChart | None:
    """Return a light raw line and a strong smoothed one for each series, by name.

    title: of the names. Units that begin with % are of shares, drawn as percentages.
    """
    rows: list[dict[str, Any]] = []
    factor = 100 if unit.startswith("%") else 1
    for name, series in points.items():
        short = downsample([(s, None if v is None else factor * v) for s, v in series], MOST_POINTS)
        means = dict(smooth(short))
        rows += [
            {title: name, "step": step, "value": value, "middle": means.get(step)}
            | {"dot": len(means) == 1}
            for step, value in short
            if means
        ]
    steps = sorted({row["step"] for row in rows})
    return _lines(rows, title, list(points), unit, steps if len(steps) < 4 else ())


def bands(
    rows: Sequence[dict[str, Any]],
    name: str,
    names: Sequence[str],
    unit: str,
    level: tuple[float, str] | None = None,
) -> alt.LayerChart | None:
    """Return a line with a band for each name, from rows of `step`, `low`, `middle` and `high`.

    name: the field of the names. With few steps all points are marked; a name with one point has a
    dot, and a bar for its band. level: a horizontal line, and its label.
    """
    counts, steps = Counter(row[name] for row in rows), sorted({row["step"] for row in rows})
    few = len(steps) <= FEW
    single = {member for member, count in counts.items() if count == 1}
    rows = [r | {"dot": few or r[name] in single, "alone": r[name] in single} for r in rows]
    return _lines(rows, name, names, unit, steps if few else (), level)


def _lines(
    rows: Sequence[dict[str, Any]],
    name: str,
    names: Sequence[str],
    unit: str,
    ticks: Sequence[int] = (),
    level: tuple[float, str] | None = None,
) -> alt.LayerChart | None:
    """Return a strong line of `middle` over the steps for each name, in the colour of its place.

    Behind it is its raw `value`, or its band from `low` to `high`. The legend has the names with
    rows, and switches their lines on and off. ticks: the labelled steps besides 0; () for all.
    """
    if not rows:
        return None
    step = alt.X("step:Q", title="step", axis=WHOLE_STEPS)
    if ticks:
        step = step.axis(_whole(*ticks)).scale(domain=[0, ticks[-1]])
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=step, color=_colour(rows, name, names))
    pick = alt.selection_point(name="pick", fields=[name], bind="legend")

    is_raw = "value" in rows[0]
    numbers = ("value", "middle") if is_raw else ("middle", "low", "high")
    ends = [row[number] for row in rows for number in numbers if row[number] is not None]
    scale, axis = _fitting([*ends, *([level[0]] if level else [])])

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=unit, scale=scale, axis=axis)

    def seen(opacity: float, **fields: bool) -> Any:
        """Return the opacity of rows with these fields, 0 if their line is switched off."""
        return alt.when(pick, **fields).then(alt.value(opacity)).otherwise(alt.value(0.0))

    tooltip = [alt.Tooltip(f"{name}:N"), alt.Tooltip("step:Q")]
    tooltip += [alt.Tooltip(f"{number}:Q", format=",.4~r") for number in numbers]
    band = base.encode(y=y("low"), y2="high:Q")
    behind = [
        band.mark_rule(strokeWidth=3).encode(opacity=seen(0.5, alone=True)),
        band.mark_area().encode(opacity=seen(0.16)),
    ]
    if is_raw:
        behind = [base.mark_line(strokeWidth=1, strokeOpacity=0.38).encode(y=y("value"))]
    opacity = alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.05))
    line = base.transform_filter("isValid(datum.middle)").mark_line(strokeWidth=2.2)
    dots = base.mark_point(filled=True, size=40)
    layers = [
        *behind,
        line.encode(y=y("middle"), opacity=opacity).properties(name="lines").add_params(pick),
        dots.encode(y=y(numbers[0]), opacity=seen(1.0, dot=True), tooltip=tooltip),
        *(_level(*level, y("middle")) if level else ()),
    ]
    return alt.LayerChart(layer=layers).properties(width=480, height=165 if is_raw else 230)


def _level(value: float, title: str, y: alt.Y) -> list[alt.Chart]:
    """Return a dashed line across the chart, and its title."""
    across = alt.Chart(alt.InlineData(values=[{"middle": value, "title": title}])).encode(y=y)
    label = across.mark_text(align="right", baseline="bottom", dx=-4, dy=-2)
    rule = across.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color="#888")
    return [rule, label.encode(x=alt.value("width"), text="title:N")]


def _fitting(values: Sequence[float]) -> tuple[alt.Scale, alt.Axis]:
    """Return a scale and an axis for these values, which may be flat, all 0 or tiny."""
    largest = max(map(abs, values))
    is_flat = max(values) - min(values) <= 1e-9 * largest
    scale = alt.Scale(zero=is_flat) if largest else alt.Scale(domain=[0, 1])
    return scale, alt.Axis(labelExpr=_POWERS) if 0 < largest < 1e-3 else alt.Axis()


def _colour(rows: Sequence[dict[str, Any]], name: str, names: Sequence[str]) -> alt.Color:
    """Return the colour of each name, by its place, with a legend of the names that have rows."""
    drawn = [n for n in names if any(row[name] == n for row in rows)]
    entry = 30 + LETTER * max(map(len, drawn))
    legend = alt.Legend(
        title=None,
        values=drawn,
        symbolType="stroke",
        symbolStrokeWidth=3,
        symbolOpacity=1,
        orient="bottom",
        # `width` changes during the layout, and the legend's last rows would be cut off.
        columns=alt.ExprRef(f"max(1, floor(((containerSize()[0] || 400) - 70) / {entry}))"),
    )
    scale = alt.Scale(domain=list(names))
    return alt.Color(f"{name}:N", legend=legend if len(drawn) > 1 else None, scale=scale)


def held_out(run: RunRecord) -> alt.LayerChart | None:
    """Return the held-out gain of every student over the frozen base, with its standard error."""
    rows = []
    solvers = {row.member for row in run.solvers()}
    if not any(row.role == START for row in run.evals):
        founders = [life.name for life in run.lives() if not life.birth and life.name in solvers]
        rows = [_band(0, name, 0.0, 0.0) for name in founders]  # they start as the frozen base
    for row in run.solvers():
        if row.rate and row.rate.difference is not None:
            error = row.rate.standard_error or 0.0
            rows.append(_band(row.step, row.member, 100 * row.rate.difference, 100 * error))
    names = _names(run, rows, "student", "agent")
    return bands(rows, "member", names, "points above the base", level=(0.0, "frozen base"))


def held_out_kinds(run: RunRecord) -> alt.LayerChart | None:
    """Return the held-out gain for each kind of task, the mean over members that have learned."""
    gains: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in run.solvers():
        for kind, rate in row.rate.kinds.items() if row.rate and row.born is not True else ():
            if rate.difference is not None and row.role != START:
                gains[kind][row.step].append(100 * rate.difference)
    lines = {
        kind: [(step, fmean(values)) for step, values in sorted(of_step.items())]
        for kind, of_step in sorted(gains.items())
    }
    return curves(lines, "points above the base", "kind")


def taught(run: RunRecord) -> alt.LayerChart | None:
    """Return the base's solve rate of every teacher's tasks, with its standard error over tasks."""
    rows, level = [], None
    for row in run.evals:
        rate = mean_and_error(row.taught.rates) if row.taught else None
        if rate and row.role == BASE:
            level = 100 * rate[0], "tasks that the frozen base wrote"
        elif rate and row.role != START:
            rows.append(_band(row.step, row.member, 100 * rate[0], 100 * rate[1]))
    names = _names(run, rows, "teacher", "agent")
    return bands(rows, "member", names, "% of attempts", level=level)


def _names(run: RunRecord, rows: Sequence[dict[str, Any]], *roles: str) -> list[str]:
    """Return all members of these roles, and the warm start if it is in the rows."""
    lives = [life.name for life in run.lives() if life.role in roles]
    return list(dict.fromkeys([*lives, *(row["member"] for row in rows)]))


def _band(step: int, member: str, middle: float, half: float) -> dict[str, Any]:
    row = {"step": step, "member": member, "middle": middle}
    return row | {"low": middle - half, "high": middle + half}


def skill(run: RunRecord) -> dict[str, dict[int, float]]:
    """Return the skill at every evaluation by member and step, in points above the frozen base.

    A solver's skill is its held-out solve rate minus the base's. A teacher's skill is the base's
    solve rate of the base's own tasks minus that of the teacher's. At step 0 members are the base,
    or the warm start.
    """
    of_base = next((row.taught.base_solve_rate for row in run.evals if row.taught), None)
    skills: dict[str, dict[int, float]] = {life.name: {} for life in run.lives()}
    start = {"teacher": 0.0, "student": 0.0, "agent": 0.0}
    for row in run.evals:
        value = row.rate.difference if row.rate else None
        taught = row.taught.base_solve_rate if row.taught else None
        if value is None and of_base is not None and taught is not None:
            value = of_base - taught
        if value is not None and row.role != BASE:
            if row.role == START:
                start |= {"student" if row.rate else "teacher": 100 * value}
            else:
                skills.setdefault(row.member, {})[row.step] = 100 * value
    founders = [life for life in run.lives() if life.birth is None and run.evals]
    return skills | {f.name: {0: start.get(f.role, 0.0)} | skills[f.name] for f in founders}


def _lineage_rows(run: RunRecord) -> tuple[list[dict[str, Any]], ...]:
    """Return the rows of the lineage: pieces of lives by skill, names, and lines from parents."""
    lives, skills = {life.name: life for life in run.lives()}, skill(run)
    bars, names, joints = [], [], []
    for name, life in lives.items():
        died = run.last if life.died is None else life.died
        birth = life.birth or BirthRow("", name, operator="", generation=0)
        facts = {"member": name, "role": life.role, "place": life.place}
        facts |= {"life": f"steps {life.born} to {died}" + (", replaced" if life.died else "")}
        facts |= {"parents": " × ".join(birth.parents), "operator": birth.operator}
        facts |= {"generation": birth.generation}
        values = {step: value for step, value in skills[name].items() if step <= died}
        steps = [life.born, *(step for step in values if life.born < step < died), died]
        bars += [facts | {"born": a, "died": b, "skill": values.get(a)} for a, b in pairwise(steps)]
        is_measured = values and life.died is None
        gain = f"{values[max(values)]:+.1f}".replace("-", "−") if is_measured else ""
        names.append(facts | {"born": life.born, "died": died, "gain": gain})
        joints += [
            {"step": life.born, "from": lives[parent].place, "place": life.place}
            | {"parent": parent, "child": name, "operator": birth.operator}
            for parent in birth.parents
            if parent in lives
        ]
    return bars, names, joints


def lineage(run: RunRecord) -> alt.LayerChart | None:
    """Return the lives of a run's members as bars coloured by skill, parents joined to children."""
    bars, names, joints = _lineage_rows(run)
    if not bars:
        return None
    scale = alt.Scale(domain=[0, run.last])
    axis = _whole(*range(run.last + 1)) if run.last <= FEW else WHOLE_STEPS
    ends = ("born", "step", "died")
    born, at, died_at = (alt.X(f"{f}:Q", title="step", scale=scale, axis=axis) for f in ends)
    place = alt.Y("place:O", title=None, axis=None)
    base, texts, joined = (alt.Chart(alt.InlineData(values=r)) for r in (bars, names, joints))
    fields = ("member", "role", "generation", "life", "parents", "operator")
    tips = [alt.Tooltip(f"{f}:N") for f in fields] + [alt.Tooltip("skill:Q", format="+.1f")]
    birth = ["parent:N", "child:N", "operator:N"]
    line = joined.mark_rule(strokeWidth=1.3, color="#888").encode(x=at, tooltip=birth)
    bar = base.mark_bar(height={"band": 0.28}).encode(x=born, x2="died:Q", y=place, tooltip=tips)
    fits = f"{LETTER} * length(datum.member) < (datum.died - datum.born) / {run.last} * width"
    label = texts.transform_calculate(shown=f"{fits} ? datum.member : ''")
    label = label.mark_text(align="left", baseline="bottom", dx=3, dy=-8)
    gain = texts.mark_text(align="left", baseline="middle", dx=5, fontWeight="bold")
    shaded = []
    for role in [role for role in SKILLS if any(row["role"] == role for row in bars)]:
        title, colour = SKILLS[role]
        legend = alt.Legend(title=title, titleLimit=400, orient="bottom", gradientLength=160)
        shade = alt.Color("skill:Q", scale=alt.Scale(**colour), legend=legend)
        skill_or_grey = alt.when("isValid(datum.skill)").then(shade).otherwise(alt.value("#8888"))
        shaded += [bar.transform_filter(f"datum.role == '{role}'").encode(color=skill_or_grey)]
    layers = [
        line.encode(y=alt.Y("from:O", axis=None), y2="place:O"),
        *shaded,
        joined.mark_point(filled=True, size=36, color="#888").encode(x=at, y=place, tooltip=birth),
        label.encode(x=born, y=place, text="shown:N"),
        gain.encode(x=died_at, y=place, text="gain:N"),
    ]
    chart: alt.LayerChart = alt.LayerChart(layer=layers).resolve_scale(color="independent")
    return chart.properties(width=1040, height=alt.Step(40))


def rejected(run: RunRecord) -> alt.LayerChart | None:
    """Return the commonest reasons of rejected proposals, as shares of all proposals."""
    totals = sum((Counter(step.rejected) for step in run.steps), Counter[str]())
    counts = [sum(kind.proposed for kind in step.kinds.values()) for step in run.steps]
    apart = [s.rejected.get(HELD_OUT, 0) + s.infra_errors.get("proposals", 0) for s in run.steps]
    pairs = [(s, max(1, n + more)) for s, n, more in zip(run.steps, counts, apart, strict=True)]
    reasons = {
        name: [(step.step, step.rejected.get(name, 0) / count) for step, count in pairs]
        for name, _ in totals.most_common(MOST_REASONS)
    }
    return curves(reasons, "% of proposals", "reason")


def solve_rates(run: RunRecord) -> alt.LayerChart | None:
    """Return the shares of the tasks that no attempt solved, some did, and all did."""
    counts = [(step.step, list(step.solve_rates or ())) for step in run.steps]
    parts = {"no attempt": slice(0, 1), "some": slice(1, 5), "all": slice(5, 6)}
    solved = {
        name: [(step, sum(bins[part]) / sum(bins)) for step, bins in counts if any(bins)]
        for name, part in parts.items()
    }
    return curves(solved, "% of valid tasks", "solved by")


def _whole(*steps: int) -> alt.Axis:
    return alt.Axis(format="d", values=sorted({0, *steps}))
