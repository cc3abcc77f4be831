"""The picture of the house: packages on floors, the rooms of each in rows, imports pointing down.

Arrows that others imply are left out: where a room imports from a second and from a third, and the
second from the third, the arrow from the first to the third is not drawn. An arrow that passes a
row goes through a gap of its own in that row.
"""

from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise

FLOORS = (("selfplay",), ("evals",), ("lora_evo", "code_verifier", "league"))
STEPS = (("selfplay", "evals"), ("selfplay", "league"))
STEPS += (("evals", "lora_evo"), ("evals", "code_verifier"))
ACROSS = 3
"""At most so many rooms stand side by side."""
WIDE, HIGH, GAP, RISE, PAD, HEAD, ASIDE = 92, 24, 12, 30, 14, 32, 26
"""A room's box, the space beside and below it, a package's margin and head, the space between
packages; pixels."""

Graph = dict[str, set[str]]
Row = list[str]
Frame = tuple[list[str], float, float]
"""Elements of a package, its width and its height."""


def below(graph: Graph, room: str) -> set[str]:
    """All rooms that can be reached from a room."""
    found: set[str] = set()
    ahead = [room]
    while ahead:
        new = graph[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def reduced(graph: Graph) -> Graph:
    """The same graph, which must have no cycle, without the arrows that others imply."""
    return {
        start: {end for end in ends if not any(end in below(graph, o) for o in ends - {end})}
        for start, ends in graph.items()
    }


def rows_of(graph: Graph) -> list[Row]:
    """The rooms in rows, every room above all that it imports from.

    A room that imports from none hangs right below the lowest that imports from it.
    """
    height: dict[str, int] = {}
    for room in sorted(graph, key=lambda name: len(below(graph, name))):
        height[room] = 1 + max((height[end] for end in graph[room]), default=-1)
    for room in graph:
        above = [height[start] for start, ends in graph.items() if room in ends]
        if above and not graph[room]:
            height[room] = min(above) - 1
    rows: list[Row] = []
    for level in sorted(set(height.values()), reverse=True):
        names = [room for room in graph if height[room] == level]
        rows += [names[i : i + ACROSS] for i in range(0, len(names), ACROSS)]
    return rows


def routes(graph: Graph, rows: list[Row]) -> dict[tuple[str, str], Row]:
    """What each arrow passes, its ends included; adds a gap to every row that it crosses."""
    at = {name: number for number, row in enumerate(rows) for name in row}
    found = {}
    for start, ends in graph.items():
        for end in sorted(ends):
            passed = [f"{start} {end} {number}" for number in range(at[start] + 1, at[end])]
            for number, gap in enumerate(passed, at[start] + 1):
                rows[number].append(gap)
            found[start, end] = [start, *passed, end]
    return found


def centres(rows: list[Row], paths: list[Row]) -> dict[str, float]:
    """The middle of every box and gap, from left; a row stands in the order of what leads to it."""
    leading: dict[str, Row] = {}
    for path in paths:
        for first, second in pairwise(path):
            leading.setdefault(second, []).append(first)
    found: dict[str, float] = {}
    for row in rows:
        above = {name: [found[lead] for lead in leading.get(name, [])] for name in row}
        row.sort(key=lambda name: sum(above[name]) / len(above[name]) if above[name] else 0.0)
        x = -sum(_width(name) + GAP for name in row) / 2
        for name in row:
            found[name] = x + (_width(name) + GAP) / 2
            x += _width(name) + GAP
    return found


def package_frame(package: str, graph: Graph, files: int) -> Frame:
    """A package with its rooms, their arrows, and the number of files outside of rooms."""
    graph = reduced(graph)
    rows = rows_of(graph)
    arrows = routes(graph, rows)
    x = centres(rows, list(arrows.values()))
    reach = max([abs(x[name]) + _width(name) / 2 for name in x], default=0.0)
    width = 2 * max(reach + PAD, 1.5 * WIDE)
    y = {name: HEAD + n * (HIGH + RISE) for n, row in enumerate(rows) for name in row}
    height = max(y.values(), default=HEAD) + HIGH + PAD
    parts = [
        f'<rect class="package" width="{width:g}" height="{height:g}" rx="8"/>',
        f'<text class="name" x="{PAD}" y="21">{escape(package)}</text>',
        f'<text class="files" x="{width - PAD:g}" y="21">{files} files outside</text>',
    ]
    for path in arrows.values():
        points = [(width / 2 + x[name], float(y[name])) for name in path]
        parts.append(f'<path d="{_curve(points)}"/>')
    for name in graph:
        left, top = width / 2 + x[name] - WIDE / 2, y[name]
        parts.append(f'<rect x="{left:g}" y="{top:g}" width="{WIDE}" height="{HIGH}"/>')
        parts.append(f'<text x="{left + WIDE / 2:g}" y="{top + 16:g}">{escape(name)}</text>')
    return parts, width, height


def picture(graphs: Mapping[str, Graph], files: Mapping[str, int]) -> str:
    """The whole house as SVG. graphs: of each package; files: how many lie outside of rooms."""
    frames = {name: package_frame(name, graphs[name], files[name]) for name in graphs}
    spans = [sum(frames[name][1] + ASIDE for name in floor) - ASIDE for floor in FLOORS]
    width, top = max(spans), 0.0
    drawn: list[str] = []
    place: dict[str, tuple[float, float]] = {}
    for floor, span in zip(FLOORS, spans, strict=True):
        left = (width - span) / 2
        for name in floor:
            drawn += [f'<g transform="translate({left:g} {top:g})">', *frames[name][0], "</g>"]
            place[name] = (left + frames[name][1] / 2, top)
            left += frames[name][1] + ASIDE
        top += max(frames[name][2] for name in floor) + 1.5 * ASIDE
    drawn += _steps(place, {name: frame[2] for name, frame in frames.items()})
    return "\n".join([*_opening(width, top - 1.5 * ASIDE), *drawn, "</svg>", ""])


def _width(name: str) -> int:
    return 0 if " " in name else WIDE


def _curve(points: list[tuple[float, float]]) -> str:
    x, y = points[0]
    text = f"M{x:g} {y + HIGH:g}"
    y += HIGH
    for number, (u, v) in enumerate(points[1:], 1):
        goal = v - 2 if number == len(points) - 1 else v
        bend = (goal - y) / 2
        text += f"C{x:g} {y + bend:g} {u:g} {goal - bend:g} {u:g} {goal:g}"
        x, y = u, goal
        if goal == v:
            y += HIGH
            text += f"V{y:g}"
    return text


def _steps(place: Mapping[str, tuple[float, float]], high: Mapping[str, float]) -> Iterator[str]:
    for start, end in STEPS:
        (x, y), (u, v) = place[start], place[end]
        x += (u - x) / 3 if abs(u - x) > 1 else 0
        yield f'<path class="step" d="M{x:g} {y + high[start]:g}L{u:g} {v - 4:g}"/>'


def _opening(width: float, height: float) -> list[str]:
    box = f"-6 -6 {width + 12:g} {height + 12:g}"
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" '
        'font-size="13" text-anchor="middle">',
        "<title>The packages of PopuLab and their rooms; arrows point at what is imported</title>",
        '<defs><marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 0L6 3L0 6z"/></marker></defs>',
        "<style>rect{fill:#fff;stroke:#55606e}rect.package{fill:#f5f7fa;stroke:#8a96a5}"
        "path{fill:none;stroke:#55606e;marker-end:url(#tip)}"
        "marker path{fill:#55606e;stroke:none;marker-end:none}"
        "path.step{stroke-width:2.5}text.name{font-weight:bold;text-anchor:start}"
        "text.files{font-size:11px;fill:#55606e;text-anchor:end}</style>",
        f'<rect x="-6" y="-6" width="{width + 12:g}" height="{height + 12:g}" '
        'style="stroke:none"/>',
    ]
