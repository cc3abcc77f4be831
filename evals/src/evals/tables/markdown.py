"""A table for a README or an issue."""

import re

from evals.tables.cell_text import cell_text, heading
from evals.tables.table import Table

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


def to_markdown(table: Table, intervals: bool = False) -> str:
    """A pipe table, the notes below it as a list; all names escaped."""
    lines = [heading(table), ["---"] + ["---:"] * len(table.columns)]
    for row in table.rows:
        cells = (
            cell_text(row.cells.get(column), intervals, partial="\\*") for column in table.columns
        )
        lines.append([_escape(row.label), *cells])
    notes = [f"- {_escape(note)}" for note in table.notes]
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join((*rows, *([""] if notes else []), *notes))


def _escape(text: str) -> str:
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", plain)
