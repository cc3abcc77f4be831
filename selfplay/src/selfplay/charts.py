"""Charts of runs: each function returns an Altair chart, or None where there is nothing to show."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from selfplay.pages import duration, figure
from selfplay.rows import StepRow
from selfplay.run_record import Life, RunRecord
from selfplay.statistics import Points, smooth, thin

MOST_POINTS, MOST_COLUMNS = 200, 40
RATE_BINS = ("0", "0 to ¼", "¼ to ½", "½ to ¾", "¾ to 1", "1")
"""The bins of `StepRow.solve_rates`."""
RATE_COLOURS = ["#b3541e", "#2b4f8c", "#4f7fb5", "#82aed3", "#bcd6ea", "#e3a23a"]
STEP = alt.X("step:Q", title="step", axis=alt.Axis(format="d", tickMinStep=1))
PHASES = ("match", "propose", "verify", "solve", "update", "evolve", "weight_sync", "save")


def curves(
    points: Mapping[str, Points], unit: str, *, share: bool = False
) -> alt.LayerChart | None:
    """Return a light raw line and a strong smoothed one for each named series."""
    rows: list[dict[str, Any]] = []
    for name, series in points.items():
        short = thin(series, MOST_POINTS)
        means = dict(smooth(short))
        rows += [
            {"run": name, "step": step, "value": value, "mean": means.get(step)}
            for step, value in short
        ]
    if all(row["value"] is None for row in rows):
        return None
    axis = alt.Axis(format="%" if share else alt.Undefined, tickCount=4)
    value, mean = (
        alt.Y(f"{f}:Q", title=unit, axis=axis).scale(zero=False) for f in ("value", "mean")
    )
    base, pick, shown = _switched(rows, "run", list(points))
    number = ".1%" if share else ",.4~r"
    tooltip = [
        "run:N",
        "step:Q",
        *(alt.Tooltip(f"{f}:Q", format=number) for f in ("value", "mean")),
    ]
    alone = sum(row["value"] is not None for row in rows) <= len(points)
    layers = [
        base.mark_line(strokeWidth=1, strokeOpacity=0.38).encode(y=value),
        base.transform_filter("isValid(datum.mean)")
        .mark_line(strokeWidth=2.2)
        .encode(y=mean, opacity=shown)
        .properties(name="lines")
        .add_params(pick),
        base.mark_point(filled=True, size=35, opacity=float(alone)).encode(
            y=value, tooltip=tooltip
        ),
    ]
    return alt.LayerChart(layer=layers).properties(width=340, height=165)


def bands(
    rows: Sequence[dict[str, Any]], name: str, names: Sequence[str], unit: str
) -> alt.LayerChart | None:
    """Return lines with bands of rows with `step`, `low`, `middle` and `high`, one a `name`."""
    if not rows:
        return None
    base, pick, shown = _switched(rows, name, names)
    area = base.mark_area().encode(
        y=alt.Y("low:Q", title=unit).scale(zero=False),
        y2=alt.Y2("high:Q"),
        opacity=alt.when(pick).then(alt.value(0.16)).otherwise(alt.value(0.0)),
    )
    y = alt.Y("middle:Q", title=unit).scale(zero=False)
    tooltip = [alt.Tooltip(f"{name}:N"), alt.Tooltip("step:Q")]
    tooltip += [alt.Tooltip(f"{f}:Q", format=",.4~r") for f in ("middle", "low", "high")]
    line = base.mark_line(strokeWidth=2.2).encode(y=y, opacity=shown)
    dots = base.mark_point(filled=True, size=40, opacity=0).encode(y=y, tooltip=tooltip)
    layers = [area, line.properties(name="lines").add_params(pick), dots]
    return alt.LayerChart(layer=layers).properties(width=480, height=230)


def ratings(run: RunRecord, role: str) -> alt.LayerChart | None:
    """Return the rating of every member of a role over the steps of its life, mu in mu ± sigma."""
    rows = []
    names = [life.name for life in run.lives() if life.role == role]
    for life in run.lives():
        track = [
            (step.step, *step.ratings[life.name])
            for step in run.steps
            if life.name in names
            and life.name in step.ratings
            and life.born <= step.step <= (life.died or run.last)
        ]
        stride = -(-len(track) // MOST_POINTS)
        rows += [
            {"step": step, "member": life.name, "middle": mu, "low": mu - sigma, "high": mu + sigma}
            for step, mu, sigma in ([*track[:-1:stride], track[-1]] if track else [])
        ]
    return bands(rows, "member", names, "TrueSkill rating, μ ± σ")


def lineage(run: RunRecord) -> alt.LayerChart | None:
    """Return the lives of a run's members as bars, and lines from parents to children."""
    everyone = run.lives()
    if not everyone:
        return None
    by_name = {life.name: life for life in everyone}
    joints = [
        {"step": life.born, "from": by_name[parent].place, "place": life.place}
        | {"parent": parent, "child": life.name, "operator": life.birth.operator}
        for life in everyone
        if life.birth
        for parent in life.birth.parents
        if parent in by_name
    ]
    scale = alt.Scale(domain=[0, run.last])
    born, at = (
        alt.X(f"{f}:Q", title="step", scale=scale, axis=alt.Axis(format="d", tickMinStep=1))
        for f in ("born", "step")
    )
    place = alt.Y("place:O", title=None, axis=None)
    base = alt.Chart(alt.InlineData(values=[_bar(life, run.last) for life in everyone]))
    children = alt.Chart(alt.InlineData(values=joints))
    role = alt.Color("role:N", legend=alt.Legend(title=None), sort=["teacher", "student"])
    tips = [f"{f}:N" for f in ("member", "role", "life", "parents", "operator")]
    bar = base.mark_bar(opacity=0.4, height={"band": 0.6}, cornerRadius=3)
    made = ["parent:N", "child:N", "operator:N"]
    line = children.mark_rule(strokeWidth=1.3).encode(x=at, y2="place:O", tooltip=made)
    layers = [
        bar.encode(x=born, x2="died:Q", y=place, color=role, tooltip=tips),
        line.encode(y=alt.Y("from:O", axis=None)),
        children.mark_point(filled=True, size=30).encode(x=at, y=place, tooltip=made),
        base.mark_text(align="left", dx=6).encode(x=born, y=place, text="member:N"),
    ]
    return alt.LayerChart(layer=layers).properties(width=1040, height=alt.Step(32))


def rejected(run: RunRecord) -> alt.LayerChart | None:
    """Return why proposals were rejected, as shares of all proposals of a span of steps."""
    totals: Counter[str] = Counter()
    for step in run.steps:
        totals.update(step.rejected)
    names = [name for name, count in totals.most_common() if count][:8]

    def count(steps: Sequence[StepRow]) -> tuple[list[int], int]:
        proposed = sum(kind.proposed for step in steps for kind in step.kinds.values())
        return [sum(step.rejected.get(name, 0) for step in steps) for name in names], proposed

    return _stack(run, "% of proposals", names, count) if names else None


def solve_rates(run: RunRecord) -> alt.LayerChart | None:
    """Return the histogram of the tasks' solve rates over steps."""
    if not any(step.solve_rates and sum(step.solve_rates) for step in run.steps):
        return None

    def count(steps: Sequence[StepRow]) -> tuple[list[int], int]:
        bins = [sum(s.solve_rates[i] for s in steps if s.solve_rates) for i in range(6)]
        return bins, sum(bins)

    return _stack(run, "% of valid tasks", RATE_BINS, count, RATE_COLOURS)


def phase_times(run: RunRecord) -> alt.LayerChart | None:
    """Return the share of the time that each phase of the steps took."""
    totals = phase_seconds(run)
    whole, start, rows = sum(totals.values()), 0.0, []
    if not whole:
        return None
    for name, seconds in totals.items():
        label = f"{duration(seconds)} ({figure(seconds / whole, share=True)})"
        rows.append({"phase": name, "low": start, "high": start + seconds / whole, "time": label})
        start += seconds / whole
    bar = alt.Chart(alt.InlineData(values=rows)).mark_bar(height=24)
    colour = alt.Color("phase:N", sort=list(totals), legend=alt.Legend(title=None, orient="bottom"))
    x = alt.X("low:Q", axis=None)
    bar = bar.encode(x=x, x2="high:Q", color=colour, tooltip=["phase:N", "time:N"])
    return alt.LayerChart(layer=[bar]).properties(width=480, height=30)


def phase_seconds(run: RunRecord) -> dict[str, float]:
    """Return the seconds per phase over the whole run, known phases first, in their order."""
    found = {name for step in run.steps for name in step.seconds}
    names = [name for name in PHASES if name in found] + sorted(found - set(PHASES))
    return {name: sum(step.seconds.get(name, 0.0) for step in run.steps) for name in names}


def _switched(
    rows: Iterable[dict[str, Any]], name: str, names: Sequence[str]
) -> tuple[alt.Chart, alt.Parameter, Any]:
    """Return a chart of rows over steps, coloured by a field; its legend switches the series.

    With it come the selection, which one layer has to add, and the opacity that follows it.
    """
    pick = alt.selection_point(name="pick", fields=[name], bind="legend")
    legend = (
        alt.Legend(
            title=None, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3, orient="bottom"
        )
        if len(names) > 1
        else None
    )
    colour = alt.Color(f"{name}:N", legend=legend, scale=alt.Scale(domain=list(names)))
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(x=STEP, color=colour)
    return base, pick, alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.05))


def _bar(life: Life, last: int) -> dict[str, object]:
    died = last if life.died is None else life.died
    return {
        "member": life.name,
        "role": life.role,
        "place": life.place,
        "born": life.born,
        "died": died,
        "life": f"steps {life.born} to {died}" + (", replaced" if life.died else ""),
        "parents": " × ".join(life.birth.parents) if life.birth else "",
        "operator": life.birth.operator if life.birth else "",
    }


def _stack(
    run: RunRecord,
    unit: str,
    names: Sequence[str],
    count: Callable[[Sequence[StepRow]], tuple[list[int], int]],
    colours: list[str] | None = None,
) -> alt.LayerChart:
    """Return stacked columns; count: of each name in a span of steps, and of the whole."""
    size = -(-len(run.steps) // MOST_COLUMNS)
    rows: list[dict[str, Any]] = []
    for i in range(0, len(run.steps), size):
        steps, low = run.steps[i : i + size], 0.0
        counts, whole = count(steps)
        for name, found in zip(names, counts, strict=True):
            if found:
                high = low + found / max(1, whole)
                span = {"from": steps[0].step - 0.5, "to": steps[-1].step + 0.5}
                rows.append(
                    {"name": name, **span, "low": low, "high": high, "of": whole, "n": found}
                )
                low = high
    colour = alt.Color(
        "name:N",
        sort=list(names),
        legend=alt.Legend(title=None, orient="bottom"),
        scale=alt.Scale(domain=list(names), range=colours) if colours else alt.Undefined,
    )
    x = alt.X("from:Q", title="step", axis=alt.Axis(format="d", tickMinStep=1))
    y = alt.Y("low:Q", title=unit, axis=alt.Axis(format="%", tickCount=4))
    chart = alt.Chart(alt.InlineData(values=rows)).mark_rect()
    chart = chart.encode(
        x=x.scale(zero=False, nice=False),
        x2="to:Q",
        y=y,
        y2="high:Q",
        color=colour,
        tooltip=["name:N", "n:Q", "of:Q"],
    )
    return alt.LayerChart(layer=[chart]).properties(width=480, height=200)
