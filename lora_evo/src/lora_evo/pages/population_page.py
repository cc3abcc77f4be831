"""A population of adapters as one HTML page: heat map, map, shares by type of module."""

from collections.abc import Sequence

from lora_evo.pages.colour_scale import colour, ink
from lora_evo.pages.frame import escape, html_table, page, tiles
from lora_evo.population.diversity import Diversity, Overlaps, member_row
from lora_evo.population.seriation import PopulationMap, classical_map, neighbour_order

_NUMBERS_UP_TO = 14
_NAME_CHARS = 26


def population_page(found: Diversity, title: str = "Diversity of adapters") -> str:
    """The page as one text: nothing in it is fetched or run, and all names are escaped."""
    order = neighbour_order(found.distances)
    one, two = found.closest
    far, away = found.farthest
    body = [
        f"<h1>{escape(title)}</h1>",
        "<p>How different the members are in what they do to the base model. All numbers belong "
        "to the updates s&middot;B&middot;A, whatever factors hold them.</p>",
        tiles(
            [
                (str(len(found.names)), "members"),
                (f"{found.effective_members:.2f}", "distinct members in effect"),
                (f"{found.mean_distance:.3g}", "mean distance of two members"),
                (
                    f"{found.distances[one][two]:.3g}",
                    f"least distance: {found.names[one]}, {found.names[two]}",
                ),
                (
                    f"{found.distances[far][away]:.3g}",
                    f"largest distance: {found.names[far]}, {found.names[away]}",
                ),
            ]
        ),
        "<h2>Distances</h2><p>0: the same update. 1.41: nothing in common. 2: opposite. Similar "
        "members stand side by side (average linkage); the numbers on top are those of the rows."
        "</p>",
        f'<div class="scroll">{_heat_map(found.names, found.distances, order)}</div>',
        _map_section(found.names, classical_map(found.distances), order),
        "<h2>Types of modules</h2><p>Where the members differ: each type's part of the summed "
        "squared distances of all pairs. Beside it, the distinct members in effect if there were "
        "no other type.</p>",
        _bars(found),
        "<h2>Members</h2>",
        _members(found, order),
    ]
    if found.overlaps is not None:
        body.append(_overlaps(found.names, found.overlaps, order))
    return page(title, body)


def _heat_map(
    names: Sequence[str], values: Sequence[Sequence[float | None]], order: list[int]
) -> str:
    """Cells from dark (least) to pale (largest); numbers inside as long as they have room."""
    size = len(order)
    cell, gap = (46, 1) if size <= _NUMBERS_UP_TO else (20, 1) if size <= 40 else (9, 0)
    font = 12 if size <= 40 else 8.5
    shown = [_short(names[place]) for place in order]
    left, top = 34 + round(0.56 * font * max(map(len, shown))), 22
    most = max((x for row in values for x in row if x is not None), default=0.0)
    parts: list[str] = []
    for row, place in enumerate(order):
        y = top + row * cell
        parts.append(
            f'<text class="end" style="font-size:{font}px" x="{left - 6}" '
            f'y="{y + cell / 2 + font / 3:.1f}">{escape(shown[row])} '
            f"{row + 1}<title>{escape(names[place])}</title></text>"
        )
        if size <= 40 or row % 5 == 4:
            x = left + row * cell + cell / 2
            parts.append(f'<text class="mid tick" x="{x:g}" y="{top - 7}">{row + 1}</text>')
        for column, other in enumerate(order):
            x, value = left + column * cell, values[place][other]
            share = value / most if value is not None and most else 0.0
            text = "none" if value is None else f"{value:.4g}"
            parts.append(
                f'<rect x="{x}" y="{y}" width="{cell - gap}" height="{cell - gap}" '
                f'fill="{colour(share)}"><title>{escape(names[place])}, '
                f"{escape(names[other])}: {text}</title></rect>"
            )
            if size <= _NUMBERS_UP_TO:
                number = "-" if value is None else _cell_text(value)
                parts.append(
                    f'<text class="mid" x="{x + cell / 2 - 0.5:g}" y="{y + cell / 2 + 4:g}" '
                    f'style="fill:{ink(share)};pointer-events:none">{number}</text>'
                )
    bottom = top + size * cell
    width = max(left + size * cell, left + 230) + 8
    parts.append(_legend(left, bottom + 14, most))
    return (
        f'<svg width="{width}" height="{bottom + 52}" viewBox="0 0 {width} {bottom + 52}" '
        f'role="img" aria-label="matrix of all pairs">{"".join(parts)}</svg>'
    )


def _legend(left: int, top: int, most: float) -> str:
    steps = "".join(
        f'<rect x="{left + 10 * step}" y="{top}" width="10.5" height="12" '
        f'fill="{colour(step / 20)}"/>'
        for step in range(21)
    )
    return (
        f'{steps}<text x="{left}" y="{top + 27}" class="tick">0</text>'
        f'<text x="{left + 210}" y="{top + 27}" class="tick end">{most:.3g}</text>'
    )


def _map_section(names: Sequence[str], drawn: PopulationMap, order: list[int]) -> str:
    width, height, edge = 480.0, 340.0, 26.0
    spans = [max(axis) - min(axis) for axis in zip(*drawn.points, strict=True)]
    unit = min(
        (room - 2 * edge) / span if span > 1e-12 else float("inf")
        for room, span in zip((width - 24, height), spans, strict=True)
    )
    unit = 0.0 if unit == float("inf") else unit
    middles = [(max(axis) + min(axis)) / 2 for axis in zip(*drawn.points, strict=True)]
    dots: list[str] = []
    labels: list[str] = []
    taken: list[tuple[float, float]] = []
    for row, place in enumerate(order):
        x = width / 2 + unit * (drawn.points[place][0] - middles[0])
        y = height / 2 - unit * (drawn.points[place][1] - middles[1])
        dots.append(
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4">'
            f"<title>{row + 1} {escape(names[place])}</title></circle>"
        )
        if all(abs(x - a) > 26 or abs(y - b) > 14 for a, b in taken):
            taken.append((x, y))
            labels.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{row + 1}</text>')
    one, two = (f"{100 * share:.1f} %" for share in drawn.shares)
    both = f"{100 * sum(drawn.shares):.1f} %"
    return (
        f"<h2>Map</h2><p>Members as points whose distances come near to the ones above (classical "
        f"multidimensional scaling). The plane shows {both} of the variance: {one} from left to "
        f"right, {two} from bottom to top. Numbers are those of the heat map; members too close to "
        "another to be numbered are drawn without.</p>"
        f'<svg class="fluid" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="map of the members"><rect x="0.5" y="0.5" width="{width - 1:g}" '
        f'height="{height - 1:g}" class="rule" fill="none"/>{"".join(dots + labels)}</svg>'
    )


def _bars(found: Diversity) -> str:
    kinds = sorted(found.module_types.items(), key=lambda item: (-item[1].distance_share, item[0]))
    most = max((kind.distance_share for _, kind in kinds), default=0.0)
    parts = []
    for row, (name, kind) in enumerate(kinds):
        y = 26 + row * 26
        wide = 200 * kind.distance_share / most if most else 0.0
        parts.append(
            f'<text class="end" x="110" y="{y + 14}">{escape(_short(name, 16))}</text>'
            f'<rect class="bar" x="118" y="{y}" width="{wide:.1f}" height="19" rx="2">'
            f"<title>{escape(name)}, {kind.modules} modules</title></rect>"
            f'<text x="{124 + wide:.1f}" y="{y + 14}">{100 * kind.distance_share:.1f} %</text>'
            f'<text class="end" x="452" y="{y + 14}">{kind.effective_members:.2f}</text>'
        )
    height = 30 + 26 * len(kinds)
    return (
        f'<div class="scroll"><svg width="460" height="{height}" viewBox="0 0 460 {height}" '
        'role="img" aria-label="shares of the types of modules">'
        '<text class="tick" x="118" y="14">part of the distances</text>'
        '<text class="tick end" x="452" y="14">in effect</text>'
        f"{''.join(parts)}</svg></div>"
    )


def _members(found: Diversity, order: list[int]) -> str:
    rows = [
        (f"{number} {name}", *rest)
        for number, (name, *rest) in enumerate((member_row(found, at) for at in order), start=1)
    ]
    return html_table(("member", "norm", "mean distance", "nearest", "distance to it"), rows)


def _overlaps(names: Sequence[str], overlaps: Overlaps, order: list[int]) -> str:
    return (
        "<h2>Overlap of spaces</h2><p>Mean squared cosine of the principal angles between what two "
        "members write to: 1 where one space holds the other, 0 where they are orthogonal.</p>"
        f'<div class="scroll">{_heat_map(names, overlaps.columns, order)}</div>'
        "<p>The same for what they read:</p>"
        f'<div class="scroll">{_heat_map(names, overlaps.rows, order)}</div>'
    )


def _cell_text(value: float) -> str:
    if value == 0 or value >= 0.01:
        return f"{value:.2f}" if value else "0"
    return f"{value:.0e}".replace("e-0", "e-")


def _short(name: str, limit: int = _NAME_CHARS) -> str:
    return name if len(name) <= limit else "…" + name[-limit + 1 :]
