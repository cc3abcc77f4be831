"""Charts of measured programs, as Altair charts that show themselves in a notebook.

They need the extra `report`. Counting is done here, so that a chart stays small however many
programs there are.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from code_verifier.metrics import NUMBERS, Metrics, quantile

_BINS = 30
_WINDOWS = 40
_TAIL = 0.99


def save_page(metrics: Sequence[Metrics], steps: Sequence[object], page: Path) -> None:
    """Write an HTML page of all charts that works offline. steps: the step of each program of a
    run; where they are numbers, and more than one, the page also has trends."""
    charts = [distributions(metrics)]
    dated = [
        (item, float(step))
        for item, step in zip(metrics, steps, strict=True)
        if isinstance(step, int | float) and math.isfinite(step)
    ]
    if len({step for _, step in dated}) > 1:
        charts.append(trends([item for item, _ in dated], [step for _, step in dated]))
    title = f"{len(metrics)} programs, {len({item.structure for item in metrics})} structures"
    alt.vconcat(*charts, title=title).save(page, format="html", inline=True)


def distributions(metrics: Sequence[Metrics]) -> alt.FacetChart:
    """Return a histogram of every number; the last bar holds what lies beyond 99 %."""
    rows: list[dict[str, Any]] = []
    for name in NUMBERS if metrics else ():
        values = sorted(float(getattr(item, name)) for item in metrics)
        low, high = values[0], quantile(values, _TAIL)
        width = max(
            (high - low) / _BINS, 1.0 if isinstance(getattr(metrics[0], name), int) else 0.0
        )
        counts: dict[int, int] = {}
        for value in values:
            place = int((min(value, high) - low) / width) if width else 0
            counts[place] = counts.get(place, 0) + 1
        rows += [
            {"metric": name, "from": low + place * width, "programs": count}
            | {"to": low + (place + 1) * (width or 1.0)}
            for place, count in counts.items()
        ]
    return _faceted(
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("from:Q", title=None, scale=alt.Scale(zero=False)),
            x2="to:Q",
            y=alt.Y("programs:Q", title="programs"),
            tooltip=["from:Q", "to:Q", "programs:Q"],
        )
    )


def trends(metrics: Sequence[Metrics], steps: Sequence[float]) -> alt.FacetChart:
    """Return the median of every number over the steps, in a band of 90 % of the programs; the
    steps of a long run are joined to at most 40 windows."""
    order = sorted({*steps})
    number = min(_WINDOWS, len(order))
    place = {step: index * number // len(order) for index, step in enumerate(order)}
    groups: list[list[int]] = [[] for _ in range(number)]
    for index, step in enumerate(steps):
        groups[place[step]].append(index)
    rows: list[dict[str, Any]] = []
    for name in NUMBERS:
        for group in groups:
            values = sorted(float(getattr(metrics[index], name)) for index in group)
            low, median, high = (quantile(values, share) for share in (0.05, 0.5, 0.95))
            rows.append(
                {"metric": name, "step": min(steps[index] for index in group)}
                | {"low": low, "median": median, "high": high, "programs": len(group)}
            )
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=alt.X("step:Q", title="step"))
    tips = ["step:Q", "median:Q", "low:Q", "high:Q", "programs:Q"]
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title=None), y2="high:Q")
    line = base.mark_line(point=True).encode(y="median:Q", tooltip=tips)
    return _faceted(alt.layer(band, line))


def _faceted(chart: Any) -> alt.FacetChart:
    faceted: alt.FacetChart = (
        chart.properties(width=260, height=120)
        .facet(alt.Facet("metric:N", title=None, sort=list(NUMBERS)), columns=3)
        .resolve_scale(x="independent", y="independent")
    )
    return faceted
