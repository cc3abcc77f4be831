"""Charts over steps: measures of one or more runs, and ratings with their bands."""

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from selfplay.report.measures import Measure
from selfplay.report.reading.lineage import lives
from selfplay.report.reading.run_data import Run
from selfplay.report.reading.trend import smooth, thin

MOST_POINTS = 200
COLOURS = 8
"""So many series have a colour of their own; the lines of the next ones are dashed."""
STEP = alt.X("step:Q", title="step", axis=alt.Axis(format="d", tickMinStep=1))


def curve(runs: Sequence[Run], measure: Measure) -> alt.LayerChart | None:
    """Return one measure of all runs: a light raw line and a strong smoothed one each.

    Long runs are thinned. None when no run has a value.
    """
    rows = [row for run in runs for row in _curve_rows(run, measure)]
    if not any(row["value"] is not None for row in rows):
        return None
    number = ".1%" if measure.share else ",.4~r"
    axis = alt.Axis(format="%" if measure.share else alt.Undefined, tickCount=4)
    value, mean = (
        alt.Y(f"{f}:Q", title=measure.unit, axis=axis).scale(zero=False) for f in ("value", "mean")
    )
    base, pick, shown = switched(rows, "run", [run.name for run in runs])
    layers: list[alt.Chart] = []
    if births := sorted({birth.step for birth in runs[0].births}) if len(runs) == 1 else []:
        marks = alt.Chart(alt.InlineData(values=[{"step": step} for step in births]))
        layers.append(marks.mark_rule(strokeDash=[2, 3], strokeWidth=0.8).encode(x=STEP))
    if not measure.total:
        layers.append(base.mark_line(strokeWidth=1, strokeOpacity=0.38).encode(y=value))
    strong = base.transform_filter("isValid(datum.mean)").mark_line(strokeWidth=2.2)
    layers.append(strong.encode(y=mean, opacity=shown).properties(name="lines").add_params(pick))
    alone = sum(row["value"] is not None for row in rows) <= len(runs)
    dots = base.mark_point(filled=True, size=35, opacity=1 if alone else 0)
    layers.append(dots.encode(y=value, tooltip=tips("run", number, "value", "mean")))
    return alt.LayerChart(layer=layers).properties(
        width=340, height=165, description=f"{measure.title} over steps"
    )


def ratings(run: Run, role: str) -> alt.LayerChart | None:
    """Return mu of every member of a role over the steps of its life, in a band of one sigma."""
    everyone = [life for life in lives(run) if life.role == role]
    rows = []
    for life in everyone:
        track = [
            (step.step, *step.ratings[life.name])
            for step in run.steps
            if life.name in step.ratings and life.born <= step.step <= (life.died or run.last)
        ]
        stride = -(-len(track) // MOST_POINTS)
        rows += [
            {"step": step, "member": life.name, "mu": mu, "low": mu - sigma, "high": mu + sigma}
            for step, mu, sigma in (track if stride <= 1 else [*track[:-1:stride], track[-1]])
        ]
    if not rows:
        return None
    return banded(rows, "member", [life.name for life in everyone], "TrueSkill rating, μ ± σ", "mu")


def banded(
    rows: Sequence[dict[str, Any]], name: str, names: Sequence[str], unit: str, middle: str
) -> alt.LayerChart:
    """Return lines of rows with `step`, `low`, `high` and the fields `middle` and `name`."""
    base, pick, shown = switched(rows, name, names)
    band = base.mark_area().encode(
        y=alt.Y("low:Q", title=unit).scale(zero=False),
        y2=alt.Y2("high:Q"),
        opacity=alt.when(pick).then(alt.value(0.16)).otherwise(alt.value(0.0)),
    )
    y = alt.Y(f"{middle}:Q", title=unit).scale(zero=False)
    line = base.mark_line(strokeWidth=2.2).encode(y=y, opacity=shown)
    if len(names) > COLOURS:
        dashes = [[1, 0] if i % (2 * COLOURS) < COLOURS else [6, 4] for i in range(len(names))]
        scale = alt.Scale(domain=list(names), range=dashes)
        line = line.encode(strokeDash=alt.StrokeDash(f"{name}:N", legend=_LEGEND, scale=scale))
    dots = base.mark_point(filled=True, size=40, opacity=0)
    dots = dots.encode(y=y, tooltip=tips(name, ",.4~r", middle, "low", "high"))
    said = alt.Chart(alt.InlineData(values=_ends(rows, middle))).encode(
        x=STEP, y=alt.Y("at:Q"), color=base.encoding.color, text=alt.Text(f"{name}:N")
    )
    said = said.mark_text(align="left", dx=4, limit=60, fontWeight="bold").encode(opacity=shown)
    layers = [band, line.properties(name="lines").add_params(pick), dots, said]
    return alt.LayerChart(layer=layers).properties(
        width=480, height=230, description=f"{unit} over steps, by {name}"
    )


def tips(name: str, form: str, *fields: str) -> list[alt.Tooltip]:
    """Return what is told under the mouse: the series, the step, and numbers of that form."""
    numbers = [alt.Tooltip(f"{field}:Q", format=form) for field in fields]
    return [alt.Tooltip(f"{name}:N"), alt.Tooltip("step:Q"), *numbers]


def switched(
    rows: Iterable[dict[str, Any]], name: str, names: Sequence[str]
) -> tuple[alt.Chart, alt.Parameter, Any]:
    """Return a chart of rows over steps, coloured by a field; its legend switches the series.

    With it come the selection, which one layer has to add, and the opacity that follows it.
    """
    pick = alt.selection_point(name="pick", fields=[name], bind="legend")
    legend = _LEGEND if len(names) > 1 else None
    colour = alt.Color(f"{name}:N", legend=legend, scale=alt.Scale(domain=list(names)))
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(x=STEP, color=colour)
    return base, pick, alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.05))


_LEGEND = alt.Legend(title=None, symbolType="stroke")


def _ends(rows: Sequence[dict[str, Any]], middle: str) -> list[dict[str, Any]]:
    """Return the rows of the last step, each with a height `at` that has room for its name."""
    last = max(row["step"] for row in rows)
    span = max(row["high"] for row in rows) - min(row["low"] for row in rows)
    room = (span or 1.0) / 18
    ends: list[dict[str, Any]] = []
    for row in sorted((r for r in rows if r["step"] == last), key=lambda r: float(r[middle])):
        at = max(row[middle], ends[-1]["at"] + room) if ends else row[middle]
        ends.append(row | {"at": at})
    return ends


def _curve_rows(run: Run, measure: Measure) -> list[dict[str, Any]]:
    points = thin(measure.values(run), MOST_POINTS)
    means = dict(points if measure.total else smooth(points))
    return [
        {"run": run.name, "step": step, "value": _short(value), "mean": _short(means.get(step))}
        for step, value in points
    ]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
