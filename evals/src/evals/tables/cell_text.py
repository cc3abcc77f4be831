"""How a score is written: per cent with one decimal, as in the paper."""

from evals.tables.table import TITLES, Cell, Table

NOTHING = "-"


def cell_text(
    cell: Cell | None,
    intervals: bool = False,
    *,
    partial: str = "*",
    incomplete: str = "†",
    dash: str = "-",
) -> str:
    """ "66.7", "66.7*", or "66.7* (48.3-81.2)"; `-` for no score. The marks are the format's."""
    if cell is None:
        return NOTHING
    score = cell.score
    text = f"{100 * score.value:.1f}"
    text += (partial if cell.partial else "") + (incomplete if cell.incomplete else "")
    if intervals:
        text += f" ({100 * score.low:.1f}{dash}{100 * score.high:.1f})"
    return text


def heading(table: Table) -> list[str]:
    """Titles of all columns, the first that of the row labels."""
    return [f"{table.measure}, %", *(TITLES.get(column, column) for column in table.columns)]
