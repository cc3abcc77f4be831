"""The family tree: a column for every generation, lines from parents to children."""

from collections.abc import Sequence
from itertools import pairwise

import altair as alt

from lora_evo.operators.catalogue import OPERATORS
from lora_evo.pages.layered import placement
from lora_evo.population.family import Member, Pedigree, pedigree

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _TOP, _EDGE = 158, 38, 44, 10, 26, 6
_KINDS = ["mutation", "crossover", "root", "another change", "not found here"]


def family_tree(members: Sequence[Member]) -> alt.LayerChart:
    """Return the tree of a family in its natural size, 1 pixel a unit."""
    return drawing(pedigree(members))


def drawing(links: Pedigree) -> alt.LayerChart:
    """Return the tree of a family whose members are linked already."""
    rows = placement(links.layers, links.parents)
    first = min(links.layers.values(), default=0)
    top = _TOP - min(0.0, _y(min(rows.bends.values(), default=0.0)))

    def spot(layer: int, row: float) -> tuple[float, float]:
        return _EDGE + (layer - first) * (_WIDTH + _GAP_X), round(top + _y(row), 1)

    spots = {node: spot(links.layers[node], row) for node, row in rows.nodes.items()}
    bends = {point: spot(point[1], row) for point, row in rows.bends.items()}
    width = max((x for x, _ in spots.values()), default=0) + _WIDTH + _EDGE
    height = max((y for _, y in [*spots.values(), *bends.values()]), default=0) + _HEIGHT + _EDGE
    boxes = [
        {"left": x, "right": x + _WIDTH, "top": y, "bottom": y + _HEIGHT} | _box(node, links)
        for node, (x, y) in spots.items()
    ]
    ways = [
        {"way": f"{parent} → {child}", "at": at, "x": x, "y": y, "parent": kind}
        for child, names in links.parents.items()
        for number, parent in enumerate(names)
        for kind in ["further" if number else "first"]
        for at, (x, y) in enumerate(
            _way(
                spots[parent],
                [
                    bends[parent, layer]
                    for layer in range(links.layers[parent] + 1, links.layers[child])
                ],
                spots[child],
            )
        )
    ]
    heads = [
        {"left": _EDGE + (layer - first) * (_WIDTH + _GAP_X), "name": f"generation {layer}"}
        for layer in range(first, max(links.layers.values(), default=0) + 1)
    ]
    across = alt.Scale(domain=[0, width], nice=False)
    down = alt.Scale(domain=[0, height], nice=False, reverse=True)
    x, left = (alt.X(f"{f}:Q", scale=across, axis=None) for f in ("x", "left"))
    y, upper = (alt.Y(f"{f}:Q", scale=down, axis=None) for f in ("y", "top"))
    base = alt.Chart(alt.InlineData(values=boxes)).encode(x=left, y=upper)
    kinds = alt.Color("kind:N", sort=_KINDS, scale=alt.Scale(domain=_KINDS))
    pick = alt.selection_point(name="pick", fields=["kind"], bind="legend")
    shown = alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.15))
    tips = [alt.Tooltip(f"{f}:N") for f in _TOLD]
    box = base.mark_rect(cornerRadius=6, strokeWidth=1.4, fillOpacity=0.14).encode(
        x2="right:Q",
        y2="bottom:Q",
        color=kinds.legend(title=None),
        stroke=alt.Stroke("kind:N", sort=_KINDS, scale=alt.Scale(domain=_KINDS)).legend(title=None),
        opacity=shown,
        tooltip=tips,
    )
    dash = alt.StrokeDash("parent:N", scale=alt.Scale(domain=["first", "further"], range=_DASHES))
    line = alt.Chart(alt.InlineData(values=ways)).mark_line(strokeWidth=1.3, interpolate="monotone")
    line = line.encode(
        x=x,
        y=y,
        detail="way:N",
        order="at:Q",
        strokeDash=dash.legend(title="parent"),
        color=alt.value("#8a94a0"),
    )
    text = base.mark_text(align="left", dx=9, limit=_WIDTH - 24)
    name = text.mark_text(align="left", dx=9, dy=12, fontWeight=600, limit=_WIDTH - 26)
    below = text.mark_text(align="left", dx=9, dy=27, limit=_WIDTH - 18)
    trained = base.transform_filter("datum.trained !== ''").mark_text(
        text="●", dx=_WIDTH - 12, dy=11, fontSize=9
    )
    head = alt.Chart(alt.InlineData(values=heads)).mark_text(align="left")
    layers = [
        line,
        box.properties(name="boxes").add_params(pick),
        name.encode(text="name:N"),
        below.encode(text="below:N"),
        trained.encode(tooltip=tips),
        head.encode(x=left, y=alt.value(10), text="name:N"),
    ]
    return alt.LayerChart(layer=layers).properties(
        width=width, height=height, autosize="pad", description="Family tree"
    )


_DASHES = [[1, 0], [4, 3]]
_TOLD = ("name", "content", "made", "settings", "change", "parents", "moments", "trained")


def kind_of(member: Member) -> str:
    """How a member came about: root, mutation, crossover, or another change."""
    if member.lineage is None:
        return "root"
    operator = OPERATORS.get(member.lineage.operator)
    return "another change" if operator is None else operator.kind


def change_of(member: Member) -> str:
    """The recorded relative change, in three digits."""
    if member.lineage is None:
        return ""
    change = member.lineage.relative_change
    return "from zero" if change is None else f"{change:.3g}"


def _y(row: float) -> float:
    return row * (_HEIGHT + _GAP_Y)


def _way(
    start: tuple[float, float], between: Sequence[tuple[float, float]], end: tuple[float, float]
) -> list[tuple[float, float]]:
    """From the right side of the first box to the left one of the last, level across columns."""
    points: list[tuple[float, float]] = []
    for (x1, y1), (x2, y2) in pairwise([start, *between, end]):
        points += [(x1 + _WIDTH, y1 + _HEIGHT / 2), (x2, y2 + _HEIGHT / 2)]
    return points


def _box(node: str, links: Pedigree) -> dict[str, str]:
    """What a box says and what it tells under the pointer."""
    member = links.members.get(node)
    told = dict.fromkeys(_TOLD, "")
    if member is None:
        short = node.partition(":")[2][:10]
        gone = {"name": short, "content": node, "made": "not found here, or trained since"}
        return told | gone | {"kind": "not found here", "below": "not found here"}
    told |= {"name": member.name, "content": member.content, "kind": kind_of(member)}
    told["trained"] = "since it was bred" if member.trained else ""
    record = member.lineage
    if record is None:
        return told | {"made": "root: not bred here", "below": "root"}
    settings = {**record.parameters}
    if record.strength is not None:
        settings["strength"] = record.strength
    if record.weights is not None:
        settings["weights"] = list(record.weights)
    return told | {
        "below": f"{change_of(member)} · {record.operator}",
        "made": f"generation {record.generation}, {record.operator}, seed {record.seed}",
        "settings": ", ".join(f"{name} {value}" for name, value in settings.items()),
        "change": f"{change_of(member)}, truncation lost {record.truncation_loss:.3g}",
        "parents": ", ".join(links.parents[member.name]),
        "moments": "valid" if record.moments_valid else "to be reset",
    }
