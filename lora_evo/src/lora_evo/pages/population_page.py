"""A population of adapters as one HTML page."""

from lora_evo.pages.extra import extra_report
from lora_evo.population.diversity import Diversity, member_row
from lora_evo.population.seriation import classical_map, neighbour_order


def population_page(found: Diversity, title: str = "Diversity of adapters") -> str:
    """The page as one text that works offline; all names are escaped.

    Raises `LoraEvoError` without the extra `report`.
    """
    with extra_report():
        from lora_evo.pages.frame import Listing, written
        from lora_evo.pages.population_charts import population_charts
    drawn, order = classical_map(found.distances), neighbour_order(found.distances)
    (one, two), (far, away) = found.closest, found.farthest
    least, largest = found.distances[one][two], found.distances[far][away]
    rows = [
        (f"{number} {name}", *rest)
        for number, (name, *rest) in enumerate((member_row(found, at) for at in order), start=1)
    ]
    return written(
        "population.html",
        population_charts(found, drawn),
        title=title,
        tiles=[
            (str(len(found.names)), "members"),
            (f"{found.effective_members:.2f}", "distinct members in effect"),
            (f"{found.mean_distance:.3g}", "mean distance of two members"),
            (f"{least:.3g}", f"least distance: {found.names[one]}, {found.names[two]}"),
            (f"{largest:.3g}", f"largest distance: {found.names[far]}, {found.names[away]}"),
        ],
        axes=[f"{100 * share:.1f} %" for share in (sum(drawn.shares), *drawn.shares)],
        members=Listing(("member", "norm", "mean distance", "nearest", "distance to it"), rows),
    )
