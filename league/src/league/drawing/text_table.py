"""Plain text tables for terminals."""

from collections.abc import Sequence

Cell = str | int | float | None


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return aligned columns; text to the left, numbers to the right, None as a blank dot."""
    text = [[_text(cell) for cell in row] for row in rows]
    widths = [
        max(len(header[i]), *(len(row[i]) for row in text)) if text else len(header[i])
        for i in range(len(header))
    ]
    words = [any(isinstance(row[i], str) for row in rows) for i in range(len(header))]
    lines = [_line(header, widths, words)]
    lines += [_line(row, widths, words) for row in text]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], words: Sequence[bool]) -> str:
    parts = [
        cell.ljust(width) if word else cell.rjust(width)
        for cell, width, word in zip(cells, widths, words, strict=True)
    ]
    return "  ".join(parts).rstrip()


def _text(cell: Cell) -> str:
    if cell is None:
        return "·"
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return str(cell)
