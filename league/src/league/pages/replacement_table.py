"""Who was replaced by whom, and why."""

from league.drawing.markup import escape, html_table, number, section
from league.pages.drift_plots import offsets
from league.pages.gathered import Gathered

ROWS = 40
"""At most so many replacements are listed, the latest."""


def replacement_section(gathered: Gathered) -> str:
    """The section; latest first."""
    title = "Replacements"
    rows = list(reversed(gathered.replacements))
    if not rows:
        return section(title, "Nobody has been replaced yet.")
    role = {life.name: life.role for life in gathered.history.lives}
    sentence = (
        "Latest first. The offset is how far the role's mean rating moved because one member left "
        "and another came: no learning."
    )
    cells = [
        (
            row.rounds,
            role[row.member],
            row.member,
            row.child,
            " + ".join(
                name if len(row.parents) == 1 else f"{name} ({number(weight)})"
                for name, weight in zip(row.parents, row.weights, strict=True)
            ),
            row.operator,
            row.reason,
            number(row.offset),
        )
        for row in rows[:ROWS]
    ]
    header = ("round", "role", "out", "in", "parents", "operator", "reason", "offset")
    more = f"The latest {ROWS} of {len(rows)}. " if len(rows) > ROWS else ""
    words = f"<p>{escape(more + offsets(gathered))}</p>"
    return section(title, sentence, html_table(header, cells, words=7), words)
