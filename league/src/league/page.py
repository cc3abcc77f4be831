"""The page of `league report --html`: charts in one file that works offline.

It is as wide as its window, and light or dark as the reader's system is.
"""

import json
from html import escape
from pathlib import Path

import vl_convert

from league.charts import Panel
from league.store import write_atomically

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
h2 { font-size: 1rem; margin: 0; }
p { margin: .3rem 0 .9rem; max-width: 78ch; overflow-wrap: anywhere; }
.hint { color: var(--muted); font-size: .86rem; }
.panels { display: grid; gap: 16px; margin: 12px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
figure { margin: 0; padding: 12px 14px; min-width: 0; background: var(--panel);
  border: 1px solid var(--rule); border-radius: 8px; }
figure.wide { grid-column: 1 / -1; }
[data-chart] { width: 100%; }
#vg-tooltip-element { visibility: hidden; position: fixed; z-index: 9; padding: 6px 9px;
  font-size: .82rem; background: var(--panel); border: 1px solid var(--rule); border-radius: 6px;
  pointer-events: none; }
#vg-tooltip-element.visible { visibility: visible; }
#vg-tooltip-element td { border: 0; padding: 0 .5rem 0 0; }
@media (max-width: 480px) { main { padding: 12px 10px 40px; }
  figure { padding: 10px 8px; } }
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


def write_page(path: Path, title: str, lead: str, panels: list[Panel]) -> None:
    """Write the page, whole or not at all: a title, what it is in `lead`, and the panels."""
    charts = []
    figures = ""
    for number, panel in enumerate(panels):
        chart = panel.chart.properties(width="container").to_dict()
        chart["autosize"] = {"type": "fit-x", "contains": "padding"}
        charts.append({k: v for k, v in chart.items() if k not in ("$schema", "config")})
        kind = ' class="wide"' if panel.wide else ""
        figures += (
            f"<figure{kind}><h2>{escape(panel.title)}</h2>"
            f'<p class="hint">{escape(panel.hint)}</p><div data-chart="{number}"></div></figure>\n'
        )
    data = json.dumps(charts).replace("<", "\\u003c")
    text = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>
<style>{_STYLE}</style></head>
<body><main><h1>{escape(title)}</h1><p>{escape(lead)}</p>
<div class="panels">{figures}</div>
</main><script type="application/json" id="charts">{data}</script>
<script>{vl_convert.javascript_bundle(_DRAW)}</script></body></html>
"""
    write_atomically(path, text.encode())
