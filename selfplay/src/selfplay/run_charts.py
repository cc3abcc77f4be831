"""Charts of runs; a function returns None where there is nothing to show."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import altair as alt

from selfplay.rows import BASE, START
from selfplay.run_record import Points, RunRecord, mean_and_error, smooth, thin

MOST_POINTS, MOST_LABELLED, MOST_REASONS = 200, 10, 8
LETTER = 6.5
"""Pixels that a letter takes at most, on average: what does not fit its place is left out."""
WHOLE_STEPS = alt.Axis(format="d", tickMinStep=1)


def curves(points: Mapping[str, Points], unit: str, what: str = "run") -> alt.LayerChart | None:
    """Return a light raw line and a strong smoothed one for each named series; what: they are."""
    rows: list[dict[str, Any]] = []
    for name, series in points.items():
        short = thin(series, MOST_POINTS)
        means = dict(smooth(short))
        rows += [
            {what: name, "step": step, "value": value, "mean": means.get(step)}
            for step, value in short
        ]
    if all(row["value"] is None for row in rows):
        return None
    share = unit.startswith("%")
    axis = alt.Axis(format="%" if share else alt.Undefined, tickCount=4)
    value, mean = (
        alt.Y(f"{f}:Q", title=unit, axis=axis).scale(zero=False) for f in ("value", "mean")
    )
    base, pick, shown = _switched(rows, what, list(points))
    numbers = [alt.Tooltip(f"{f}:Q", format=".1%" if share else ",.4~r") for f in ("value", "mean")]
    alone = sum(row["value"] is not None for row in rows) <= len(points)
    dots = base.mark_point(filled=True, size=35, opacity=float(alone))
    line = base.transform_filter("isValid(datum.mean)").mark_line(strokeWidth=2.2)
    layers = [
        base.mark_line(strokeWidth=1, strokeOpacity=0.38).encode(y=value),
        line.encode(y=mean, opacity=shown).properties(name="lines").add_params(pick),
        dots.encode(y=value, tooltip=[f"{what}:N", "step:Q", *numbers]),
    ]
    return alt.LayerChart(layer=layers).properties(width=340, height=165)


def bands(
    rows: Sequence[dict[str, Any]], name: str, names: Sequence[str], unit: str
) -> alt.LayerChart | None:
    """Return lines with bands of rows with `step`, `low`, `middle` and `high`, one a `name`."""
    if not rows:
        return None
    base, pick, shown = _switched(rows, name, names)
    low, middle = (alt.Y(f"{f}:Q", title=unit).scale(zero=False) for f in ("low", "middle"))
    faint = alt.when(pick).then(alt.value(0.16)).otherwise(alt.value(0.0))
    tooltip = [alt.Tooltip(f"{name}:N"), alt.Tooltip("step:Q")]
    tooltip += [alt.Tooltip(f"{f}:Q", format=",.4~r") for f in ("middle", "low", "high")]
    line = base.mark_line(strokeWidth=2.2).encode(y=middle, opacity=shown)
    layers = [
        base.mark_area().encode(y=low, y2=alt.Y2("high:Q"), opacity=faint),
        line.properties(name="lines").add_params(pick),
        base.mark_point(filled=True, size=40, opacity=0).encode(y=middle, tooltip=tooltip),
    ]
    return alt.LayerChart(layer=layers).properties(width=480, height=230)


def ratings(run: RunRecord, role: str) -> alt.LayerChart | None:
    """Return the rating of every member of a role over the steps of its life, mu in mu ± sigma."""
    rows = []
    lives = [life for life in run.lives() if life.role == role]
    for life in lives:
        end = run.last if life.died is None else life.died
        track = [
            (step.step, *step.ratings[life.name])
            for step in run.steps
            if life.born <= step.step <= end and life.name in step.ratings
        ]
        rows += [
            {"step": step, "member": life.name, "middle": mu, "low": mu - sigma, "high": mu + sigma}
            for step, mu, sigma in track[:: -(-len(track) // MOST_POINTS) or 1]
        ]
    return bands(rows, "member", [life.name for life in lives], "TrueSkill rating, μ ± σ")


def held_out(run: RunRecord) -> alt.LayerChart | None:
    """Return the held-out gain of every student over the frozen base, with its standard error."""
    rows = []
    if run.solvers() and not any(row.role == START for row in run.evals):
        solvers = [life.name for life in run.lives() if not life.birth and life.role != "teacher"]
        rows = [_band(0, name, 0.0, 0.0) for name in solvers]  # they begin as the frozen base
    for row in run.solvers():
        if row.rate and row.rate.difference is not None:
            rows.append(_band(row.step, row.member, row.rate.difference, row.rate.standard_error))
    return bands(rows, "member", list(dict.fromkeys(r["member"] for r in rows)), "points")


def taught(run: RunRecord) -> alt.LayerChart | None:
    """Return what the base solves of every teacher's tasks, with its standard error over tasks."""
    rows = []
    for row in run.evals:
        found = mean_and_error(row.taught.rates) if row.taught else None
        if found and row.role not in (BASE, START):
            rows.append(_band(row.step, row.member, *found))
    return bands(rows, "member", list(dict.fromkeys(r["member"] for r in rows)), "% of attempts")


def _band(step: int, member: str, share: float, error: float | None) -> dict[str, Any]:
    middle, half = 100 * share, 100 * (error or 0.0)
    row = {"step": step, "member": member, "middle": middle}
    return row | {"low": middle - half, "high": middle + half}


def skill(run: RunRecord) -> dict[str, dict[int, float]]:
    """Return by member and step its measured skill, in points above the frozen base.

    A solver's is its held-out solve rate minus the base's; a teacher's, how much less of its tasks
    the base solves than of tasks that the base wrote itself. At step 0 members are the base, or the
    warm start.
    """
    own = next((row.taught.base_solve_rate for row in run.evals if row.taught), None)
    found: dict[str, dict[int, float]] = {life.name: {} for life in run.lives()}
    start = {"teacher": 0.0, "student": 0.0, "agent": 0.0}
    for row in run.evals:
        value = row.rate.difference if row.rate else None
        if value is None and own is not None and row.taught:
            theirs = row.taught.base_solve_rate
            value = None if theirs is None else own - theirs
        if value is not None and row.role != BASE:
            if row.role == START:
                start |= {"student" if row.rate else "teacher": 100 * value}
            else:
                found.setdefault(row.member, {})[row.step] = 100 * value
    founders = [life for life in run.lives() if life.birth is None and run.evals]
    return found | {f.name: {0: start.get(f.role, 0.0)} | found[f.name] for f in founders}


def lineage(run: RunRecord) -> alt.LayerChart | None:
    """Return the lives of a run's members as bars coloured by skill, parents joined to children."""
    lives, skills = {life.name: life for life in run.lives()}, skill(run)
    if not lives:
        return None
    bars, names, joints = [], [], []
    for name, life in lives.items():
        died = run.last if life.died is None else life.died
        parents = life.birth.parents if life.birth else ()
        operator = life.birth.operator if life.birth else ""
        told = {"member": name, "role": life.role, "place": life.place}
        told |= {"life": f"steps {life.born} to {died}" + (", replaced" if life.died else "")}
        told |= {"parents": " × ".join(parents), "operator": operator}
        told |= {"generation": life.generation}
        known = {step: value for step, value in skills[name].items() if step <= died}
        steps = [life.born, *(step for step in known if life.born < step < died), died]
        bars += [told | {"born": a, "died": b, "skill": known.get(a)} for a, b in pairwise(steps)]
        last = max(known, default=None)
        gain = "" if last is None or life.died is not None else f"{known[last]:+.1f}"
        title = f"{name}, generation {life.generation}" if life.generation else name
        names.append(told | {"born": life.born, "died": died, "title": title})
        names[-1] |= {"gain": gain.replace("-", "−")}
        joints += [
            {"step": life.born, "from": lives[parent].place, "place": life.place}
            | {"parent": parent, "child": name, "operator": operator}
            for parent in parents
            if parent in lives
        ]
    scale = alt.Scale(domain=[0, run.last])
    born, at, died_at = (
        alt.X(f"{f}:Q", title="step", scale=scale, axis=WHOLE_STEPS)
        for f in ("born", "step", "died")
    )
    place = alt.Y("place:O", title=None, axis=None)
    base, texts, children = (alt.Chart(alt.InlineData(values=r)) for r in (bars, names, joints))
    legend = alt.Legend(title="points above the base", orient="bottom", gradientLength=160)
    shade = alt.Color("skill:Q", scale=alt.Scale(scheme="viridis"), legend=legend)
    colour = alt.when("isValid(datum.skill)").then(shade).otherwise(alt.value("#8888"))
    told_of = ("member", "role", "generation", "life", "parents", "operator")
    tips = [alt.Tooltip(f"{f}:N") for f in told_of] + [alt.Tooltip("skill:Q", format="+.1f")]
    made = ["parent:N", "child:N", "operator:N"]
    line = children.mark_rule(strokeWidth=1.3, color="#888").encode(x=at, tooltip=made)
    bar = base.mark_bar(height={"band": 0.28})
    room = f"{LETTER} * length({{}}) < (datum.died - datum.born) / {run.last} * width"
    fits = [f"{room.format(f'datum.{f}')} ? datum.{f} : " for f in ("title", "member")]
    label = texts.transform_calculate(shown="".join(fits) + "''")
    label = label.mark_text(align="left", baseline="bottom", dx=3, dy=-8)
    gain = texts.mark_text(align="left", baseline="middle", dx=5, fontWeight="bold")
    layers = [
        line.encode(y=alt.Y("from:O", axis=None), y2="place:O"),
        bar.encode(x=born, x2="died:Q", y=place, color=colour, tooltip=tips),
        children.mark_point(filled=True, size=36, color="#888").encode(x=at, y=place, tooltip=made),
        label.encode(x=born, y=place, text="shown:N"),
        gain.encode(x=died_at, y=place, text="gain:N"),
    ]
    return alt.LayerChart(layer=layers).properties(width=1040, height=alt.Step(40))


def payoffs(run: RunRecord) -> alt.LayerChart | None:
    """Return a matrix of teachers against students for each quarter: what share students solved."""
    found: dict[tuple[str, str, str], list[float]] = {}
    size = -(-len(run.steps) // 4)
    for i, step in enumerate(run.steps):
        part = run.steps[i - i % size : i - i % size + size]
        title = f"steps {part[0].step} to {part[-1].step}"
        for m in step.matches:
            if m.observed is not None and m.teacher != m.student:
                found.setdefault((title, m.teacher, m.student), []).append(m.observed)
    rows = [
        {"steps": steps, "teacher": teacher, "student": student}
        | {"solved": fmean(rates), "matches": len(rates), "label": f"{fmean(rates):.0%}"}
        for (steps, teacher, student), rates in found.items()
    ]
    if not rows:
        return None
    order = list(dict.fromkeys(steps for steps, _, _ in found))
    students = [life.name for life in run.lives() if life.role == "student"]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("steps:O", sort=order, title=None, axis=alt.Axis(orient="top", labelAngle=0)),
        xOffset=alt.XOffset("student:O", sort=students),
        y=alt.Y("teacher:O", title=None),
        tooltip=["teacher:N", "student:N", alt.Tooltip("solved:Q", format=".0%"), "matches:Q"],
    )
    legend = alt.Legend(format="%", orient="bottom", gradientLength=160)
    shade = alt.Color("solved:Q", scale=alt.Scale(scheme="viridis", domain=[0, 1]), legend=legend)
    ink = alt.when("datum.solved > 0.6").then(alt.value("black")).otherwise(alt.value("white"))
    layers = [base.mark_rect().encode(color=shade)]
    if len(students) <= MOST_LABELLED:
        for dy, text in ((-6, "student:N"), (7, "label:N")):
            layers.append(base.mark_text(dy=dy, fontSize=10).encode(text=text, color=ink))
    return alt.LayerChart(layer=layers).properties(width=1040, height=alt.Step(34))


def rejected(run: RunRecord) -> alt.LayerChart | None:
    """Return why proposals were rejected: the commonest reasons, as shares of all proposals."""
    totals = sum((Counter(step.rejected) for step in run.steps), Counter[str]())
    shares = [
        (step, max(1, sum(kind.proposed for kind in step.kinds.values()))) for step in run.steps
    ]
    reasons = {
        name: [(step.step, step.rejected.get(name, 0) / proposed) for step, proposed in shares]
        for name, count in totals.most_common(MOST_REASONS)
        if count
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


def _switched(
    rows: Iterable[dict[str, Any]], name: str, names: Sequence[str]
) -> tuple[alt.Chart, alt.Parameter, Any]:
    """Return a chart of rows over steps, coloured by a field; its legend switches the series.

    With it come the selection, which one layer has to add, and the opacity that follows it.
    """
    pick = alt.selection_point(name="pick", fields=[name], bind="legend")
    entry = 30 + LETTER * max(map(len, names), default=0)
    legend = alt.Legend(
        title=None,
        symbolType="stroke",
        symbolStrokeWidth=3,
        symbolOpacity=1,
        orient="bottom",
        columns=alt.ExprRef(f"max(1, floor(width / {entry}))"),
    )
    scale = alt.Scale(domain=list(names))
    colour = alt.Color(f"{name}:N", legend=legend if len(names) > 1 else None, scale=scale)
    step = alt.X("step:Q", title="step", axis=WHOLE_STEPS)
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(x=step, color=colour)
    return base, pick, alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.05))
