"""A table for a terminal."""

from evals.tables.cell_text import cell_text, heading
from evals.tables.table import Table


def to_text(table: Table, intervals: bool = False) -> str:
    """Aligned columns: labels to the left, scores to the right; a rule above the population."""
    lines = [heading(table)]
    for row in table.rows:
        cells = (cell_text(row.cells.get(column), intervals) for column in table.columns)
        lines.append([row.label, *cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    written = []
    for index, line in enumerate(lines):
        if index and table.rows[index - 1].kind == "mean":
            written.append("-" * (sum(widths) + 2 * len(widths) - 2))
        first, *rest = line
        cells = (text.rjust(width) for text, width in zip(rest, widths[1:], strict=True))
        written.append("  ".join((first.ljust(widths[0]), *cells)).rstrip())
    return "\n".join((*written, *table.notes))
