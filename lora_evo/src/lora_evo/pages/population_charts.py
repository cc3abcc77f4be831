"""Charts of a population of adapters: heat maps of pairs, a map, shares by type of module."""

from collections.abc import Sequence

import altair as alt

from lora_evo.pages.frame import Charts
from lora_evo.population.diversity import Diversity
from lora_evo.population.seriation import PopulationMap, neighbour_order

_NUMBERS_UP_TO = 14
_NAME = alt.Axis(labelLimit=190, domain=False, ticks=False)


def population_charts(found: Diversity, drawn: PopulationMap) -> Charts:
    """Return every chart of the page by name."""
    charts = {
        "distances": distances(found),
        "map": member_map(found, drawn),
        "types": module_shares(found),
    }
    if found.overlaps is not None:
        charts["overlap-columns"] = heat_map(found, found.overlaps.columns, "overlap")
        charts["overlap-rows"] = heat_map(found, found.overlaps.rows, "overlap")
    return charts


def distances(found: Diversity) -> alt.LayerChart:
    """Return the distances of all pairs; similar members stand side by side."""
    return heat_map(found, found.distances, "distance")


def heat_map(
    found: Diversity, values: Sequence[Sequence[float | None]], unit: str
) -> alt.LayerChart:
    """Return a number of all pairs of members, shape [n, n], in the order of neighbours.

    Numbers stand in the cells as long as they have room.
    """
    order = neighbour_order(found.distances)
    names = [f"{found.names[at]} {row}" for row, at in enumerate(order, 1)]
    rows = [
        {
            "row": row,
            "column": column,
            "name": names[row - 1],
            "other": names[column - 1],
            "value": None if (value := values[at][other]) is None else float(f"{value:.4g}"),
            "said": "-" if value is None else _cell_text(value),
        }
        for row, at in enumerate(order, 1)
        for column, other in enumerate(order, 1)
    ]
    many = len(order)
    top = alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False, labelOverlap=True)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("column:O", axis=top, title=None),
        y=alt.Y("name:N", sort=names, axis=_NAME, title=None),
        tooltip=["name:N", "other:N", alt.Tooltip("value:Q", title=unit)],
    )
    legend = alt.Legend(title=unit, gradientLength=200, tickCount=3)
    colour = alt.Color("value:Q", legend=legend, scale=alt.Scale(zero=True, interpolate="rgb"))
    layers = [base.mark_rect().encode(color=colour)]
    if many <= _NUMBERS_UP_TO:
        layers.append(base.mark_text().encode(text="said:N"))
    cell = alt.Step(46 if many <= _NUMBERS_UP_TO else 20 if many <= 40 else 9)
    return alt.LayerChart(layer=layers).properties(
        width=cell, height=cell, description=f"{unit.capitalize()} of all pairs of members"
    )


def member_map(found: Diversity, drawn: PopulationMap) -> alt.LayerChart:
    """Return members as points whose distances come near to their own, numbered by neighbours."""
    order = neighbour_order(found.distances)
    reach = max((abs(c) for point in drawn.points for c in point), default=0.0) or 1.0
    rows = [
        {"x": drawn.points[at][0], "y": drawn.points[at][1]}
        | {
            "name": found.names[at],
            "number": number,
            "shown": _free(drawn, order[: number - 1], at, reach),
        }
        for number, at in enumerate(order, 1)
    ]
    scale = alt.Scale(domain=[-1.1 * reach, 1.1 * reach])
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("x:Q", scale=scale, axis=None),
        y=alt.Y("y:Q", scale=scale, axis=None),
        tooltip=["number:Q", "name:N"],
    )
    numbers = base.transform_filter("datum.shown").mark_text(align="left", dx=8)
    layers = [base.mark_point(filled=True, size=60, opacity=0.9), numbers.encode(text="number:Q")]
    return alt.LayerChart(layer=layers).properties(
        width=480, height=400, description="Map of the members by their distances"
    )


def module_shares(found: Diversity) -> alt.LayerChart:
    """Return each type of module's part of the distances, and how many members differ by it."""
    rows = [
        {
            "type": name,
            "share": kind.distance_share,
            "said": f"{100 * kind.distance_share:.1f} %, {kind.effective_members:.2f} in effect",
            "modules": kind.modules,
        }
        for name, kind in found.module_types.items()
    ]
    most = max((kind.distance_share for kind in found.module_types.values()), default=0.0) or 1.0
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("share:Q", scale=alt.Scale(domain=[0, 2 * most]), axis=None),
        y=alt.Y("type:N", sort="-x", axis=_NAME, title=None),
        tooltip=["type:N", alt.Tooltip("share:Q", format=".1%"), "modules:Q"],
    )
    layers = [
        base.mark_bar(cornerRadius=2),
        base.mark_text(align="left", dx=6).encode(text="said:N"),
    ]
    return alt.LayerChart(layer=layers).properties(
        width=480, height=alt.Step(24), description="Parts of the types of modules in the distances"
    )


def _free(drawn: PopulationMap, before: Sequence[int], at: int, reach: float) -> bool:
    """Whether no member drawn before is so close that their numbers would touch."""
    x, y = drawn.points[at]
    return all(
        abs(x - drawn.points[other][0]) > 0.11 * reach
        or abs(y - drawn.points[other][1]) > 0.07 * reach
        for other in before
    )


def _cell_text(value: float) -> str:
    if value == 0 or value >= 0.01:
        return f"{value:.2f}" if value else "0"
    return f"{value:.0e}".replace("e-0", "e-")
