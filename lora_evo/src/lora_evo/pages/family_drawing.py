"""The family tree as an SVG: a column for every generation, lines from parents to children."""

from itertools import pairwise

from lora_evo.operators.catalogue import OPERATORS
from lora_evo.pages.frame import escape
from lora_evo.pages.layered import placement
from lora_evo.population.family import Member, Pedigree

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _TOP, _EDGE = 158, 38, 44, 10, 26, 6
_LETTERS = 23
Spot = tuple[float, float]
STYLE = """
.tree { margin: 14px 0; }
.tree rect { fill: var(--panel); stroke: var(--rule); stroke-width: 1.4; }
.tree .root rect { fill: var(--main); stroke: var(--main); }
.tree .root text, .tree .root .tick { fill: var(--bg); }
.tree .mutation rect { stroke: var(--main); }
.tree .crossover rect { stroke: var(--mark); }
.tree .gone rect { fill: none; stroke: var(--muted); stroke-dasharray: 4 3; }
.tree .gone text { fill: var(--muted); }
.tree .name { font-weight: 600; }
.tree .tick { font-size: 11px; }
.tree path { fill: none; stroke: var(--muted); stroke-width: 1.3; opacity: .75; }
.tree path.further { stroke: var(--mark); stroke-dasharray: 4 3; }
.tree .trained { fill: var(--mark); }
p.legend { max-width: none; display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 16px 0 0;
  font-size: .86rem; }
.legend i { display: inline-block; width: 16px; height: 11px; margin-right: 7px; border-radius: 3px;
  border: 1.4px solid var(--rule); background: var(--panel); }
.legend .root { background: var(--main); border-color: var(--main); }
.legend .mutation { border-color: var(--main); }
.legend .crossover { border-color: var(--mark); }
.legend .gone { background: none; border: 1.4px dashed var(--muted); }
.legend .dot { width: 9px; height: 9px; border: 0; border-radius: 50%; background: var(--mark); }
.kin th, .kin td { text-align: left; }
.legend .dashes { height: 0; border: 0; border-top: 2px dashed var(--mark); border-radius: 0;
  background: none; vertical-align: middle; }
.tree, .legend { --mark: #b3541e; }
@media (prefers-color-scheme: dark) { .tree, .legend { --mark: #ff9f66; } }
"""


def drawing(links: Pedigree) -> str:
    """The tree in its natural size, in pixels; the page scrolls where the screen is narrower."""
    rows = placement(links.layers, links.parents)
    first = min(links.layers.values(), default=0)
    top = _TOP - min(0.0, _y(min(rows.bends.values(), default=0.0)))

    def spot(layer: int, row: float) -> Spot:
        return _EDGE + (layer - first) * (_WIDTH + _GAP_X), round(top + _y(row), 1)

    spots = {node: spot(links.layers[node], row) for node, row in rows.nodes.items()}
    bends = {point: spot(point[1], row) for point, row in rows.bends.items()}
    width = max((x for x, _ in spots.values()), default=0) + _WIDTH + _EDGE
    height = max((y for _, y in [*spots.values(), *bends.values()]), default=0) + _HEIGHT + _EDGE
    parts = [
        f'<svg class="tree" role="img" aria-label="family tree" width="{width}" '
        f'height="{height:g}" viewBox="0 0 {width} {height:g}">'
    ]
    for layer in range(first, max(links.layers.values(), default=0) + 1):
        x = _EDGE + (layer - first) * (_WIDTH + _GAP_X)
        parts.append(f'<text class="tick" x="{x}" y="14">generation {layer}</text>')
    for child, names in links.parents.items():
        for number, parent in enumerate(names):
            between = range(links.layers[parent] + 1, links.layers[child])
            way = [spots[parent], *(bends[parent, layer] for layer in between), spots[child]]
            parts.append(_edge(way, further=number > 0))
    for node, place in spots.items():
        member = links.members.get(node)
        parts.append(_stub(node, place) if member is None else _box(member, links, place))
    return "".join([*parts, "</svg>"])


def kind_of(member: Member) -> str:
    """How a member came about: root, mutation, crossover, or other."""
    if member.lineage is None:
        return "root"
    operator = OPERATORS.get(member.lineage.operator)
    return "other" if operator is None else operator.kind


def change_of(member: Member) -> str:
    """The recorded relative change, in three digits."""
    if member.lineage is None:
        return ""
    change = member.lineage.relative_change
    return "from zero" if change is None else f"{change:.3g}"


def _y(row: float) -> float:
    return row * (_HEIGHT + _GAP_Y)


def _edge(way: list[Spot], *, further: bool) -> str:
    """From the right side of the first box to the left one of the last, level across columns."""
    steps: list[str] = []
    for (x1, y1), (x2, y2) in pairwise((x, y + _HEIGHT / 2) for x, y in way):
        start, bend = x1 + _WIDTH, x2 - _GAP_X / 2
        lead = f"L{start:g} {y1:g}" if steps else f"M{start:g} {y1:g}"
        steps.append(f"{lead}C{bend:g} {y1:g} {bend:g} {y2:g} {x2:g} {y2:g}")
    mark = ' class="further"' if further else ""
    return f'<path{mark} d="{"".join(steps)}"/>'


def _box(member: Member, links: Pedigree, spot: Spot) -> str:
    x, y = spot
    record = member.lineage
    below = "root" if record is None else f"{record.operator} \u00b7 {change_of(member)}"
    dot = f'<circle class="trained" cx="{x + _WIDTH - 10:g}" cy="{y + 11:g}" r="3.5"/>'
    return (
        f'<g class="{kind_of(member)}"><title>{escape(_told(member, links))}</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text class="name" x="{x + 9:g}" y="{y + 16:g}">{escape(_short(member.name, 20))}</text>'
        f'<text class="tick" x="{x + 9:g}" y="{y + 30:g}">{escape(_squeezed(below))}</text>'
        f"{dot if member.trained else ''}</g>"
    )


def _stub(content: str, spot: Spot) -> str:
    x, y = spot
    return (
        f'<g class="gone"><title>{escape(content)}\nnot found here, or trained since</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text x="{x + 9:g}" y="{y + 16:g}">{escape(content.partition(":")[2][:10])}</text>'
        f'<text class="tick" x="{x + 9:g}" y="{y + 30:g}">not found here</text></g>'
    )


def _told(member: Member, links: Pedigree) -> str:
    record = member.lineage
    lines = [member.name, member.content]
    if record is None:
        return "\n".join([*lines, "root: not bred here"])
    settings = {**record.parameters}
    if record.strength is not None:
        settings["strength"] = record.strength
    if record.weights is not None:
        settings["weights"] = list(record.weights)
    lines += [
        f"generation {record.generation}, {record.operator}, seed {record.seed}",
        ", ".join(f"{name} {value}" for name, value in settings.items()),
        f"relative change {change_of(member)}, truncation lost {record.truncation_loss:.3g}",
        "parents: " + ", ".join(links.parents[member.name]),
        f"optimiser moments {'valid' if record.moments_valid else 'to be reset'}",
    ]
    if member.trained:
        lines.append("trained since it was bred")
    return "\n".join(line for line in lines if line)


def _short(text: str, letters: int) -> str:
    """The end of a name tells more than its start."""
    return text if len(text) <= letters else "\u2026" + text[1 - letters :]


def _squeezed(text: str) -> str:
    name, dot, change = text.partition(" \u00b7 ")
    room = _LETTERS - len(dot) - len(change)
    return (name if len(name) <= room else name[: room - 1] + "\u2026") + dot + change
