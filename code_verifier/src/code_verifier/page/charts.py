"""Charts of measured programs: histograms, trends over the steps of a run, coverage."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

import altair as alt

from code_verifier.metrics.diversity import Coverage
from code_verifier.metrics.summary import Window
from code_verifier.page.words import number

Points = Sequence[tuple[float, float]]
_GREY = "#8a94a0"


def histogram(
    values: Sequence[float], whole: bool, marks: Sequence[tuple[str, float]], name: str
) -> alt.LayerChart:
    """Return a histogram of sorted values with vertical marks (name, value).

    The last bar, a grey one, holds a long tail. whole: the values count something.
    """
    low, high = values[0], values[-1]
    cut = values[min(len(values) - 1, math.ceil(0.99 * (len(values) - 1)))]
    tail = high > cut + (cut - low)
    top = cut if tail else high
    width = max(1.0, math.ceil((top - low + 1) / 40)) if whole else (top - low) / 30 or 1.0
    number_of = max(1, math.floor((top - low) / width + 1e-9) + 1) if whole else 30
    counts = [0] * (number_of + tail)
    for value in values:
        over = tail and value > top
        place = min(int((min(value, top) - low) / width + 1e-9), number_of - 1)
        counts[number_of if over else place] += 1
    offset = low - 0.5 if whole else low
    bars = []
    for index, count in enumerate(counts):
        first = low + index * width
        last = first + width - 1 if whole else first + width
        said = number(first) if first == last else f"{number(first)} to {number(last)}"
        over = tail and index == number_of
        bars.append(
            {
                "from": offset + index * width,
                "to": offset + (index + 1) * width,
                "programs": count,
                "values": f"more than {number(top)}" if over else said,
                "tail": "rare larger ones" if over else "usual",
            }
        )
    end = offset + width * len(counts)
    lines = [{"at": min(value, end), "mark": mark} for mark, value in marks]
    axis = alt.Axis(tickMinStep=1) if whole else alt.Axis()
    scale = alt.Scale(domain=[offset, end], nice=False)
    x, at = (alt.X(f"{f}:Q", title=name, axis=axis, scale=scale) for f in ("from", "at"))
    tails = alt.Scale(domain=["usual", "rare larger ones"])
    bar = (
        alt.Chart(alt.InlineData(values=bars))
        .mark_rect(strokeWidth=0)
        .encode(
            x=x,
            x2="to:Q",
            y=alt.Y("programs:Q", axis=alt.Axis(tickMinStep=1, tickCount=4, titleY=-20)),
            y2=alt.datum(0),
            color=alt.Color("tail:N", legend=None, scale=tails),
            tooltip=["values:N", "programs:Q"],
        )
    )
    ruler = alt.Chart(alt.InlineData(values=lines))
    rule = ruler.mark_rule(strokeDash=[3, 2]).encode(x=at, tooltip=["mark:N", "at:Q"])
    text = ruler.mark_text(dy=-6).encode(x=at, y=alt.value(0), text="mark:N")
    return alt.LayerChart(layer=[bar, rule, text]).properties(
        width=340, height=150, description=f"Programs by {name}"
    )


def trend(found: Sequence[Window], metric: str) -> alt.LayerChart:
    """Return the median of a number over the steps, in a band that holds 90 % of the programs."""
    rows = [
        {"step": _middle(window), "median": band[1], "low": band[0], "high": band[2]}
        for window in found
        for band in [window.bands[metric]]
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=_STEP)
    tips = ["step:Q", *(alt.Tooltip(f"{f}:Q", format=",.4~r") for f in ("median", "low", "high"))]
    line, low = (alt.Y(f"{f}:Q", title=None, axis=alt.Axis(tickCount=4)) for f in ("median", "low"))
    layers = [
        base.mark_area(opacity=0.2).encode(y=low, y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(y=line),
        base.mark_point(filled=True, size=40, opacity=_dot(rows)).encode(y=line, tooltip=tips),
    ]
    return alt.LayerChart(layer=layers).properties(
        width=340, height=150, description=f"{metric} over the steps: median and 90 % of programs"
    )


def variety(found: Sequence[Window]) -> alt.LayerChart:
    """Return different structures and programs of each stretch of steps."""
    lines = {
        "structures": [(_middle(window), float(window.distinct)) for window in found],
        "programs": [(_middle(window), float(window.programs)) for window in found],
    }
    return curves(lines, "step", "Different structures over the steps")


def growth(found: Coverage) -> alt.LayerChart:
    """Return how many structures were found after so many programs."""
    points = [(float(n), float(distinct)) for n, distinct in found.growth]
    every = [(points[0][0], points[0][0]), (points[-1][0], points[-1][0])]
    lines = {"structures found": points, "if all were new": every}
    return curves(lines, "programs so far", "Structures found after so many programs")


def evenness(found: Coverage, counts: Sequence[int]) -> alt.LayerChart:
    """Return the share of programs that the most common structures hold. counts: largest first."""
    held = [0.0, *(100.0 * part / found.programs for part in accumulate(counts))]
    keep = max(1, len(held) // 200)
    points = [(float(i), y) for i, y in enumerate(held) if i % keep == 0 or i == len(counts)]
    lines = {"programs, %": points, "if used evenly": [(0.0, 0.0), (float(len(counts)), 100.0)]}
    return curves(lines, "structures, the most common first", "Share of the most common structures")


def curves(lines: Mapping[str, Points], x_name: str, about: str) -> alt.LayerChart:
    """Return named lines over one pair of axes; the legend switches them."""
    rows = [
        {"x": x, "y": round(y, 3), "line": name}
        for name, points in lines.items()
        for x, y in points
    ]
    pick = alt.selection_point(name="pick", fields=["line"], bind="legend")
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("x:Q", title=x_name, axis=alt.Axis(tickMinStep=1, tickCount=5)),
        y=alt.Y("y:Q", title=None, axis=alt.Axis(tickCount=4)),
        color=alt.Color("line:N", sort=list(lines), legend=alt.Legend(title=None)),
    )
    shown = alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.1))
    line = base.mark_line(strokeWidth=2).encode(opacity=shown)
    dots = base.mark_point(filled=True, size=40, opacity=_dot(next(iter(lines.values()))))
    tips = [alt.Tooltip("x:Q", title=x_name), alt.Tooltip("y:Q", title=" "), "line:N"]
    layers = [line.properties(name="lines").add_params(pick), dots.encode(tooltip=tips)]
    return alt.LayerChart(layer=layers).properties(width=340, height=150, description=about)


_STEP = alt.X("step:Q", axis=alt.Axis(tickMinStep=1, tickCount=5), scale=alt.Scale(zero=False))


def _middle(window: Window) -> float:
    return (window.first_step + window.last_step) / 2


def _dot(points: Sequence[object]) -> float:
    """A single point is seen by itself; those of a line only by the pointer."""
    return 1.0 if len(points) == 1 else 0.0
