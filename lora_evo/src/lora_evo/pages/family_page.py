"""The family tree as a page: one HTML file with one drawing and a table."""

from collections.abc import Sequence

from lora_evo.pages.family_drawing import STYLE, change_of, drawing, kind_of
from lora_evo.pages.frame import escape, html_table, page, tiles
from lora_evo.population.family import Member, Pedigree, pedigree


def family_page(members: Sequence[Member], title: str = "Family tree") -> str:
    """The whole page as text; nothing in it is fetched or run."""
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
    body = [
        f"<style>{STYLE}</style><h1>{escape(title)}</h1>",
        "<p>Children stand to the right of their parents. A line under a name gives the operator "
        "and the relative change of the update against the first parent; hover for the rest.</p>",
        tiles(cells),
        _legend(links),
        f'<div class="scroll">{drawing(links)}</div>',
        "<h2>All adapters</h2>",
        '<div class="kin">'
        + html_table(("adapter", "generation", "operator", "change", "parents"), _rows(links))
        + "</div>",
    ]
    return page(title, body)


def _legend(links: Pedigree) -> str:
    kinds = {
        "root": "root",
        "mutation": "mutation",
        "crossover": "crossover",
        "other": "another change (resize, plug-in)",
        "gone": "parent not found here",
    }
    present = {kind_of(member) for member in links.members.values()}
    if links.missing:
        present.add("gone")
    parts = [
        f'<span><i class="{kind}"></i>{escape(words)}</span>'
        for kind, words in kinds.items()
        if kind in present
    ]
    if any(len(names) > 1 for names in links.parents.values()):
        parts.append('<span><i class="dashes"></i>further parents</span>')
    if any(member.trained for member in links.members.values()):
        parts.append('<span><i class="dot"></i>trained since it was bred</span>')
    return f'<p class="legend">{"".join(parts)}</p>'


def _rows(links: Pedigree) -> list[tuple[object, ...]]:
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
