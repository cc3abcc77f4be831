"""The page of `code-verifier metrics --html`: how programs are distributed over every metric.

A page is one file that works offline, light or dark as the reader's system. Texts are escaped,
because names of programs are untrusted.
"""

import importlib.util
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from code_verifier.errors import CodeVerifierError
from code_verifier.metrics import MEANINGS, Metrics, quantile
from code_verifier.user_files import draft_of

PALETTE = (
    *("#3b82d6", "#d1682a", "#259a72", "#a05fc4", "#b38600"),
    *("#c0473a", "#2a9fb5", "#d0669c", "#7a8b2f", "#8a94a0"),
)
"""Colours of members and bars on all pages; each can be seen on white and on a dark page."""
_BINS = 30
_TAIL = 0.99
_LISTED = 10
_COLUMNS = ("cyclomatic", "loc", "max_nesting", "functions")
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; padding: 20px 16px; max-width: 1160px; }
h3, figure { margin: 0; }
p { margin: .3rem 0 .9rem; max-width: 78ch; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .2rem 0 .2rem .6rem; border-bottom: 1px solid #8886; }
td:first-child, th:first-child { text-align: left; padding-left: 0; overflow-wrap: anywhere; }
section { display: grid; gap: 16px; margin: 12px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 330px), 1fr)); }
figure { padding: 12px 14px; min-width: 0; border: 1px solid #8886; border-radius: 8px; }
[data-chart] { width: 100%; }
@media (max-width: 480px) { table { font-size: .7rem; } }
"""
_DRAW = """
const charts = JSON.parse(document.getElementById("charts").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
async function draw() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    await vegaEmbed(place, charts[place.dataset.chart], {
      ast: true, actions: false, renderer: "svg", config: { background: "transparent" },
      theme: dark.matches ? "dark" : undefined, tooltip: { theme: dark.matches ? "dark" : "light" },
    });
  }
}
dark.addEventListener("change", draw);
draw();
"""


def require_charts() -> None:
    """Raise CodeVerifierError if a library of the charts is missing."""
    for name in ("altair", "vl_convert"):
        if importlib.util.find_spec(name) is None:
            raise CodeVerifierError(
                f"charts need {name}; type: "
                f"{sys.executable} -m pip install altair vl-convert-python"
            )


def save_page(measured: Sequence[tuple[str, Metrics]], failed: int, page: Path) -> None:
    """Write an HTML page about programs by their names, with a histogram of every number, whose
    last bar also holds the largest 1 %. failed: number of programs that could not be measured.
    Needs Altair and vl-convert. The page holds counts, so that it is small for any number."""
    import vl_convert

    charts, figures = {}, ""
    for name, (unit, meaning) in MEANINGS.items() if measured else ():
        charts[name] = _histogram([getattr(metrics, name) for _, metrics in measured], unit)
        figures += f'<figure><h3>{name}</h3>{meaning}<div data-chart="{name}"></div></figure>\n'
    programs = counted(len(measured), "program")
    structures = counted(len({metrics.structure for _, metrics in measured}), "structure")
    lead = (
        "How large and how complex the programs are that code-verifier metrics has read. Each "
        "chart counts programs (upwards) by one measure (across); its last bar also holds the "
        f"largest 1 %. {programs}, {structures}: programs that differ "
        "in names and layout only have one structure."
    )
    if failed:
        lead += f" {failed} more could not be measured; the rows say why."
    data = json.dumps(charts).replace("<", "\\u003c")
    text = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Structure of {programs}</title><style>{_STYLE}</style></head>
<body><h1>Structure of {programs}</h1><p>{lead}</p>
<section>{figures}</section>
{_largest(measured)}
<script type="application/json" id="charts">{data}</script>
<script>{vl_convert.javascript_bundle(_DRAW)}</script></body></html>
"""
    target, part = draft_of(page)
    part.write_bytes(text.encode("utf-8", "backslashreplace"))
    os.replace(part, target)


def _histogram(numbers: Sequence[float], unit: str) -> dict[str, Any]:
    """The chart of a metric's numbers, one a program, in Vega-Lite."""
    import altair as alt

    values = sorted(map(float, numbers))
    low, high = values[0], quantile(values, _TAIL)
    start, width, ticks = low, (high - low) / _BINS, alt.Axis(tickCount=5, grid=False)
    if are_whole := isinstance(numbers[0], int):  # as many in every bar, half before and behind
        start, width = low - 0.5, max(1.0, math.ceil((high - low + 1) / _BINS))
        ticks = alt.Axis(tickCount=5, tickMinStep=1, format="d", grid=False)
    counts = Counter(int((min(v, high) - start) / width) if width else 0 for v in values)
    bars = []
    for place, count in counts.items():
        first, last = start + place * width, start + (place + 1) * width if width else start + 1.0
        label = f"{first:.3g} to {last:.3g}"
        if are_whole:
            label = f"{first + 0.5:g}" + (f" to {last - 0.5:g}" if width > 1 else "")
        gap = 0.04 * (last - first)
        bars.append({"from": first + gap, "to": last - gap, "value": label, "programs": count})
    bar = alt.Chart(alt.InlineData(values=bars), width="container", height=130)
    of_programs = alt.Axis(format="d", tickCount=5, tickMinStep=1)
    chart = bar.mark_rect(color=PALETTE[0]).encode(
        x=alt.X("from:Q", title=unit, axis=ticks).scale(zero=False, nice=False),
        x2="to:Q",
        y=alt.Y("programs:Q", title="programs", axis=of_programs),
        y2=alt.datum(0),
        tooltip=["value:N", "programs:Q"],
    )
    return dict(chart.to_dict())


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if it is not 1."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _largest(measured: Sequence[tuple[str, Metrics]]) -> str:
    """A table of the most complex programs."""
    ranked = sorted(measured, key=lambda item: -item[1].cyclomatic)[:_LISTED]
    rows = "".join(f"<th>{name}</th>" for name in ("program", *_COLUMNS))
    for name, metrics in ranked:
        cells = [escape(name), *(f"{getattr(metrics, column):,}" for column in _COLUMNS)]
        rows += "</tr>\n<tr>" + "".join(f"<td>{cell}</td>" for cell in cells)
    title = "<h2>The most complex, by cyclomatic</h2>"
    return f"{title}<table><tr>{rows}</tr></table>" if ranked else ""
