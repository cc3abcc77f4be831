"""The page of `code-verifier metrics --html`: how a set of programs is spread over every metric.

A page is one file that works offline, as wide as its window, light or dark as the reader's system
is. Texts are escaped, since names of programs come from anywhere.
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

_BINS = 30
_TAIL = 0.99
_LISTED = 10
_COLUMNS = ("cyclomatic", "loc", "max_nesting", "functions")
_FIT: Any = {"type": "fit-x", "contains": "padding"}
_STYLE = """
:root { --bg: #fff; --panel: #f6f7f9; --ink: #1c2128; --muted: #59636e; --rule: #d8dde3; }
@media (prefers-color-scheme: dark) { :root { --bg: #12161b; --panel: #1a2027; --ink: #e6e9ed;
  --muted: #a2acb7; --rule: #38414b; } }
* { box-sizing: border-box; }
html { color-scheme: light dark; }
body { margin: 0; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 20px 16px 56px; }
h1 { font-size: 1.6rem; margin: .4rem 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 0; }
p { margin: .3rem 0 .9rem; max-width: 78ch; overflow-wrap: anywhere; }
.hint { color: var(--muted); font-size: .86rem; }
table { border-collapse: collapse; font-size: .88rem; width: 100%; }
th, td { text-align: right; padding: .2rem 0 .2rem .9rem; border-bottom: 1px solid var(--rule);
  font-variant-numeric: tabular-nums; vertical-align: top; }
th { color: var(--muted); font-weight: 600; }
td:first-child, th:first-child { text-align: left; padding-left: 0; overflow-wrap: anywhere; }
.panels { display: grid; gap: 16px; margin: 12px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 330px), 1fr)); }
figure { margin: 0; padding: 12px 14px; min-width: 0; background: var(--panel);
  border: 1px solid var(--rule); border-radius: 8px; }
[data-chart] { width: 100%; }
#vg-tooltip-element { visibility: hidden; position: fixed; z-index: 9; padding: 6px 9px;
  font-size: .82rem; background: var(--panel); border: 1px solid var(--rule); border-radius: 6px;
  pointer-events: none; }
#vg-tooltip-element.visible { visibility: visible; }
#vg-tooltip-element td { border: 0; padding: 0 .5rem 0 0; }
@media (max-width: 480px) { main { padding: 12px 10px 40px; } table { font-size: .7rem; }
  th, td { padding-left: .4rem; } figure { padding: 10px 8px; } }
"""
_DRAW = """
const charts = JSON.parse(document.getElementById("charts").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
async function draw() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    await vegaEmbed(place, charts[place.dataset.chart], {
      mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false,
      tooltip: { disableDefaultStyle: true }, theme: dark.matches ? "dark" : undefined,
      config: { background: "transparent", axis: { gridOpacity: 0.35 } },
    });
  }
}
dark.addEventListener("change", draw);
draw();
"""


def require_charts() -> None:
    """Raise CodeVerifierError where no page can be made, before any work is done."""
    for name in ("altair", "vl_convert"):
        if importlib.util.find_spec(name) is None:
            raise CodeVerifierError(
                f"charts need {name}; type: "
                f"{sys.executable} -m pip install altair vl-convert-python"
            )


def save_page(measured: Sequence[tuple[str, Metrics]], failed: int, page: Path) -> None:
    """Write an HTML page about programs by their names, with a histogram of every number, whose
    last bar holds what lies beyond 99 %. failed: how many more could not be measured. Needs Altair
    and vl-convert. Counting is done here, so that the page stays small however many there are."""
    import vl_convert

    charts, figures = {}, ""
    for name, (unit, meaning) in MEANINGS.items() if measured else ():
        charts[name] = _histogram([getattr(metrics, name) for _, metrics in measured], unit)
        figures += (
            f'<figure><h3>{name}</h3><p class="hint">{meaning}</p>'
            f'<div data-chart="{name}"></div></figure>\n'
        )
    programs = counted(len(measured), "program")
    structures = counted(len({metrics.structure for _, metrics in measured}), "structure")
    title = f"Structure of {programs}"
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
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>{_STYLE}</style></head>
<body><main><h1>{title}</h1><p>{lead}</p>
<div class="panels">{figures}</div>
{_largest(measured)}
</main><script type="application/json" id="charts">{data}</script>
<script>{vl_convert.javascript_bundle(_DRAW)}</script></body></html>
"""
    part = page.with_name(f".{page.name}.part")
    part.write_bytes(text.encode("utf-8", "backslashreplace"))
    os.replace(part, page)


def _histogram(numbers: Sequence[float], unit: str) -> dict[str, Any]:
    """The chart of a metric's numbers, one a program, in Vega-Lite."""
    import altair as alt

    values = sorted(map(float, numbers))
    low, high = values[0], quantile(values, _TAIL)
    width = (high - low) / _BINS
    if isinstance(numbers[0], int):  # as many numbers in every bar
        width = max(1.0, math.ceil(width))
    counts = Counter(int((min(v, high) - low) / width) if width else 0 for v in values)
    bars = [
        {"from": low + place * width, "to": low + place * width + (width or 1.0), "programs": n}
        for place, n in counts.items()
    ]
    chart = (
        alt.Chart(alt.InlineData(values=bars), width="container", height=130, autosize=_FIT)
        .mark_bar()
        .encode(
            x=alt.X(
                "from:Q", title=unit, bin="binned", axis=alt.Axis(tickCount=_ticks(bars, "to"))
            ).scale(zero=False),
            x2="to:Q",
            y=alt.Y(
                "programs:Q", title="programs", axis=alt.Axis(tickCount=_ticks(bars, "programs"))
            ),
            tooltip=["from:Q", "to:Q", "programs:Q"],
        )
    )
    return {k: v for k, v in chart.to_dict().items() if k not in ("$schema", "config")}


def _ticks(bars: Sequence[dict[str, Any]], name: str) -> int:
    """How many ticks an axis up to the largest number of that name has: whole ones, and few."""
    least = min(bar["from"] for bar in bars) if name == "to" else 0
    most = max(float(bar[name]) for bar in bars)
    return min(5, math.ceil(most - least))


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural where it is not 1."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _largest(measured: Sequence[tuple[str, Metrics]]) -> str:
    """A table of the most complex programs."""
    ranked = sorted(measured, key=lambda item: -item[1].cyclomatic)[:_LISTED]
    if not ranked:
        return ""
    rows = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td>{getattr(metrics, column):,}</td>" for column in _COLUMNS)
        + "</tr>\n"
        for name, metrics in ranked
    )
    heads = "".join(f"<th>{name}</th>" for name in ("program", *_COLUMNS))
    return f"<h2>The most complex, by cyclomatic</h2><table><tr>{heads}</tr>\n{rows}</table>"
