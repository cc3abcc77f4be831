"""The frame of the package's HTML pages: one file, no script, nothing fetched."""

import html
import re
from collections.abc import Iterable, Sequence

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_STYLE = """
:root { --bg: #fff; --panel: #f6f7f9; --ink: #1c2128; --muted: #59636e; --rule: #d8dde3;
  --main: #1f6feb; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #12161b; --panel: #1a2027; --ink: #e6e9ed; --muted: #a2acb7; --rule: #38414b;
    --main: #5ba3ff; }
}
* { box-sizing: border-box; }
html { color-scheme: light dark; }
body { margin: 0; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 20px 16px 56px; }
h1 { font-size: 1.6rem; margin: .4rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--rule); }
p { margin: .3rem 0 .9rem; max-width: 78ch; }
.tiles { display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); }
@media (max-width: 600px) { .tiles { grid-template-columns: 1fr 1fr; } }
.tile { background: var(--panel); border: 1px solid var(--rule); border-radius: 8px;
  padding: 11px 14px; min-width: 0; overflow-wrap: anywhere; }
.tile b { display: block; font-size: 1.5rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span { color: var(--muted); font-size: .84rem; }
svg { display: block; }
svg.fluid { width: 100%; max-width: 640px; height: auto; }
text { font: 12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--ink); }
.tick { fill: var(--muted); }
.mid { text-anchor: middle; }
.end { text-anchor: end; }
.rule { stroke: var(--rule); stroke-width: 1; }
.bar, .dot { fill: var(--main); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; margin-top: .6rem; }
th, td { text-align: right; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--rule);
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--muted); font-weight: 600; }
"""


def page(title: str, body: Iterable[str]) -> str:
    """A whole page with this title and these pieces of HTML, for light and dark screens."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def escape(text: object) -> str:
    """Any text, safe in HTML and in quoted attributes."""
    return html.escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text)))


def tiles(cells: Iterable[tuple[str, str]]) -> str:
    """Headline values with what they are."""
    parts = (
        f'<div class="tile"><b>{escape(a)}</b><span>{escape(b)}</span></div>' for a, b in cells
    )
    return f'<div class="tiles">{"".join(parts)}</div>'


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table that scrolls sideways where the screen is narrow."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
