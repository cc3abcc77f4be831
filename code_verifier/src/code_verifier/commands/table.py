"""Plain tables for a terminal."""

from collections.abc import Sequence

import click


def print_table(rows: Sequence[Sequence[str]], align: str = "<>") -> None:
    """Columns two spaces apart: `<` to the left, `>` to the right, the last sign for the rest."""
    signs = align.ljust(max(map(len, rows), default=0), align[-1])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            f"{cell:{sign}{width}}" for cell, sign, width in zip(row, signs, widths, strict=False)
        )
        click.echo(f"  {'  '.join(cells)}".rstrip())
