"""The frame of the page: one file, no script, nothing fetched, for light and dark screens."""

from collections.abc import Iterable

from league.drawing.colours import scale_style
from league.drawing.markup import escape

_STYLE = """
:root { --bg: #fff; --panel: #f6f7f9; --ink: #1c2128; --muted: #59636e; --rule: #d8dde3;
  --teacher: #b65a06; --student: #1f6feb; --quiet: #8a94a0; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #12161b; --panel: #1a2027; --ink: #e6e9ed; --muted: #a2acb7; --rule: #38414b;
    --teacher: #f0a04b; --student: #5ba3ff; --quiet: #7c8894; }
}
* { box-sizing: border-box; }
html { color-scheme: light dark; }
body { margin: 0; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 20px 16px 56px; }
h1 { font-size: 1.6rem; margin: .4rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--rule); }
p { margin: .3rem 0 .9rem; max-width: 78ch; overflow-wrap: anywhere; }
.apart { margin-top: 1.2rem; }
h3 { font-size: 1rem; margin: 1rem 0 0; }
.note { color: var(--muted); font-size: .88rem; }
.tiles { display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(200px, 1fr));
  margin: .6rem 0; }
@media (max-width: 600px) { .tiles { grid-template-columns: 1fr 1fr; } }
.tile { background: var(--panel); border: 1px solid var(--rule); border-radius: 8px;
  padding: 11px 14px; min-width: 0; overflow-wrap: anywhere; }
.tile b { display: block; font-size: 1.4rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span { color: var(--muted); font-size: .84rem; display: block; line-height: 1.35; }
.figures { display: grid; gap: 10px 28px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); }
figure { margin: 0; min-width: 0; max-width: 570px; }
figcaption { font-weight: 600; font-size: .92rem; margin: .3rem 0; }
svg { display: block; }
svg.fluid { width: 100%; height: auto; }
text { font: 12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--ink); }
.tick { fill: var(--muted); }
.small { font-size: 10.5px; }
.halo { paint-order: stroke; stroke: var(--bg); stroke-width: 3px; stroke-linejoin: round; }
.mid { text-anchor: middle; }
.end { text-anchor: end; }
.rule { stroke: var(--rule); stroke-width: 1; fill: none; }
.line { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
.teacher .line { stroke: var(--teacher); } .student .line { stroke: var(--student); }
.teacher .band, .teacher .dot, .teacher .bar { fill: var(--teacher); }
.student .band, .student .dot, .student .bar { fill: var(--student); }
.teacher .dead { fill: var(--teacher); opacity: .42; }
.student .dead { fill: var(--student); opacity: .42; }
.teacher .cross { stroke: var(--teacher); fill: none; stroke-width: 1.5; }
.student .cross { stroke: var(--student); fill: none; stroke-width: 1.5; }
.band { opacity: .13; }
.thin { opacity: .07; }
.gone { opacity: .55; stroke-width: 1.1; }
.dashed { stroke-dasharray: 5 4; }
.quiet { stroke: var(--quiet); fill: none; stroke-width: 1.2; }
.heavy { stroke-width: 2.4; }
.blank { fill: none; stroke: var(--rule); stroke-dasharray: 2 3; }
.onbar { fill: #fff; }
@media (prefers-color-scheme: dark) { .onbar { fill: #12161b; } }
.scroll { overflow-x: auto; }
.scroll svg { margin: 4px 0; }
table { border-collapse: collapse; font-size: .88rem; margin-top: .6rem; }
th, td { text-align: right; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--rule);
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th.left, td.left { text-align: left; }
th { color: var(--muted); font-weight: 600; }
td svg { display: inline-block; vertical-align: middle; }
"""


def framed(title: str, body: Iterable[str]) -> str:
    """A whole page with this title and these pieces of HTML; it is well-formed XML as well."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title><style>{_STYLE}{scale_style()}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )
