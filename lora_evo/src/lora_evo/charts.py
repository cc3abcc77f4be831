"""Charts of a population and of a family, as Altair charts; they need the extra `report`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lora_evo.atomic import appearing
from lora_evo.errors import LoraEvoError
from lora_evo.lineage import Member, pedigree, short_hash
from lora_evo.population import Diversity

try:
    import altair as alt
except ModuleNotFoundError as error:
    raise LoraEvoError(
        f"charts need {error.name}; type: pip install 'populab-lora-evo[report]'"
    ) from error


_NUMBERS_UP_TO = 14


def diversity_chart(found: Diversity) -> alt.LayerChart:
    """Return the distances of all pairs of members, written out where there is room."""
    names = list(found.names)
    cells = [
        {"member": one, "other": two, "value": found.distances[i][j]}
        for i, one in enumerate(names)
        for j, two in enumerate(names)
    ]
    base = alt.Chart(alt.InlineData(values=cells)).encode(
        x=alt.X("other:N", sort=names, title=None),
        y=alt.Y("member:N", sort=names, title=None),
        tooltip=["member:N", "other:N", alt.Tooltip("value:Q", format=".4g")],
    )
    layers = [base.mark_rect().encode(color=alt.Color("value:Q", title="distance"))]
    many = len(names) > _NUMBERS_UP_TO
    if not many:
        layers.append(base.mark_text().encode(text=alt.Text("value:Q", format=".2f")))
    cell = alt.Step(12 if many else 46)
    title = f"{len(names)} adapters, {found.effective_members:.2f} distinct in effect"
    return alt.LayerChart(layer=layers).properties(width=cell, height=cell, title=title)


def family_chart(members: Sequence[Member]) -> alt.LayerChart:
    """Return a family tree: generations from left to right, a line from parent to child."""
    links = pedigree(members)
    generations = {name: member.generation for name, member in links.members.items()}
    generations |= links.missing
    rows: dict[int, int] = {}
    places: dict[str, dict[str, Any]] = {}
    for name, generation in generations.items():
        rows[generation] = rows.get(generation, -1) + 1
        member = links.members.get(name)
        record = member.lineage if member else None
        places[name] = {
            "name": name if member else short_hash(name),
            "generation": generation,
            "row": rows[generation],
            "operator": record.operator if record else "",
            "change": record.relative_change if record else None,
            "state": "missing" if member is None else "trained" if member.trained else "present",
        }
    lines = [
        {
            "generation": places[parent]["generation"],
            "row": places[parent]["row"],
            "to": places[child]["generation"],
            "to_row": places[child]["row"],
        }
        for child, parents in links.parents.items()
        for parent in parents
    ]
    x = alt.X("generation:Q", title="generation", axis=alt.Axis(tickMinStep=1, grid=False))
    y = alt.Y("row:Q", axis=None, scale=alt.Scale(reverse=True))
    points = alt.Chart(alt.InlineData(values=list(places.values()))).encode(x=x, y=y)
    layers = [
        alt.Chart(alt.InlineData(values=lines))
        .mark_rule(opacity=0.4)
        .encode(x=x, y=y, x2="to:Q", y2="to_row:Q"),
        points.mark_circle(size=80).encode(
            color=alt.Color("state:N", title=None),
            tooltip=["name:N", "generation:Q", "operator:N", "change:Q", "state:N"],
        ),
        points.mark_text(dy=-10, fontSize=10).encode(text="name:N"),
    ]
    return alt.LayerChart(layer=layers).properties(
        width=150 * (max(rows) + 1),
        height=40 * (max(rows.values()) + 1),
        title="Family tree",
    )


def save_page(chart: alt.LayerChart, path: Path) -> None:
    """Write a chart as one HTML file that works offline."""
    with appearing(path) as draft:
        chart.save(draft, format="html", inline=True)
