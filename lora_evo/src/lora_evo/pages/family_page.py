"""The family tree as a page: one HTML file with one drawing and a table."""

from collections.abc import Sequence

from lora_evo.pages.extra import extra_report
from lora_evo.population.family import Member, Pedigree, pedigree


def family_page(members: Sequence[Member], title: str = "Family tree") -> str:
    """The whole page as text, which works offline.

    Raises `LoraEvoError` without the extra `report`.
    """
    with extra_report():
        from lora_evo.pages.family_drawing import drawing
        from lora_evo.pages.frame import Listing, written
    links = pedigree(members)
    bred = [member for member in members if member.lineage is not None]
    cells = [
        (str(len(members)), "adapters"),
        (str(len(members) - len(bred)), "roots (not bred here)"),
        (str(max(links.layers.values(), default=0)), "generations of children"),
        (str(sum(member.trained for member in members)), "trained since they were bred"),
    ]
    if links.missing:
        cells.append((str(len(links.missing)), "parents not found"))
    head = ("adapter", "generation", "operator", "change", "parents")
    return written(
        "family.html",
        {"family": drawing(links)},
        title=title,
        tiles=cells,
        adapters=Listing(head, _rows(links), words=len(head)),
    )


def _rows(links: Pedigree) -> list[tuple[object, ...]]:
    from lora_evo.pages.family_drawing import change_of

    rows: list[tuple[object, ...]] = []
    for name in sorted(links.members, key=lambda name: (links.layers[name], name)):
        record = links.members[name].lineage
        if record is None:
            rows.append((name, 0, "", "", ""))
            continue
        others = ", ".join(
            parent if parent in links.members else parent.partition(":")[2][:10]
            for parent in links.parents[name]
        )
        change = change_of(links.members[name])
        rows.append((name, record.generation, record.operator, change, others))
    return rows
