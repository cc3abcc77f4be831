"""Teachers against students as coloured cells: from orange (nothing solved) to blue (all)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from league.drawing.colours import STEPS, step
from league.drawing.markup import escape, short

_NUMBERS_UP_TO = 14
_NAME = 16


@dataclass(frozen=True)
class Labelled:
    """Cells of shape [rows, columns], None where nothing was played, and the tasks behind them."""

    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[Sequence[float | None]]
    tasks: Sequence[Sequence[int]]
    about: str


def heat_map(shown: Labelled) -> str:
    """The picture; numbers in the cells, in per cent, as long as they have room."""
    size = max(len(shown.rows), len(shown.columns))
    numbered = size <= _NUMBERS_UP_TO
    cell = 44 if numbered else 20
    rows, columns = ([short(n, _NAME) for n in names] for names in (shown.rows, shown.columns))
    left = 12 + round(6.9 * max(map(len, rows)))
    longest = max(map(len, columns))
    slanted = 7.2 * longest > cell - 4
    top = 20 + (round(6.6 * longest * math.sin(math.radians(50))) if slanted else 4)
    parts = [
        _column(name, left + (j + 0.5) * cell, top - 8, slanted) for j, name in enumerate(columns)
    ]
    for i, name in enumerate(rows):
        y = top + i * cell
        parts.append(
            f'<text class="end" x="{left - 6}" y="{y + cell / 2 + 4:g}">{escape(name)}</text>'
        )
        for j in range(len(columns)):
            parts.append(_cell(shown, i, j, left + j * cell, y, cell, numbered))
    bottom = top + len(rows) * cell
    overhang = round(4.4 * longest) if slanted else 0
    width = max(left + len(columns) * cell + overhang, left + 240) + 8
    height = bottom + 46
    return (
        f'<div class="scroll"><svg width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(shown.about)}">'
        f"{''.join(parts)}{_legend(left, bottom + 12)}</svg></div>"
    )


def _column(name: str, x: float, y: float, slanted: bool) -> str:
    if not slanted:
        return f'<text class="mid" x="{x:g}" y="{y}">{escape(name)}</text>'
    return f'<text transform="translate({x + 3:g} {y + 4}) rotate(-50)">{escape(name)}</text>'


def _cell(shown: Labelled, i: int, j: int, x: int, y: int, cell: int, numbered: bool) -> str:
    value = shown.cells[i][j]
    who = f"{shown.rows[i]} and {shown.columns[j]}"
    edge = cell - 2 if numbered else cell - 1
    if value is None:
        return (
            f'<rect class="blank" x="{x + 1}" y="{y + 1}" width="{edge - 1}" height="{edge - 1}">'
            f"<title>{escape(who)}: nothing played</title></rect>"
        )
    tasks = f"{shown.tasks[i][j]:,} tasks"
    found = (
        f'<rect class="c{step(value)}" x="{x}" y="{y}" width="{edge}" height="{edge}">'
        f"<title>{escape(who)}: {100 * value:.1f} % of {tasks}</title></rect>"
    )
    if numbered:
        found += (
            f'<text class="mid i{step(value)}" x="{x + edge / 2:g}" y="{y + cell / 2 + 3:g}">'
            f"{100 * value:.0f}</text>"
        )
    return found


def _legend(left: int, top: int) -> str:
    steps = "".join(
        f'<rect class="c{i}" x="{left + 10 * i}" y="{top}" width="10.5" height="11"/>'
        for i in range(STEPS + 1)
    )
    middle = left + 5 * (STEPS + 1)
    return (
        f'{steps}<text x="{left}" y="{top + 25}" class="tick">0 %</text>'
        f'<text x="{middle}" y="{top + 25}" class="tick mid">50 %: balanced</text>'
        f'<text x="{left + 10 * (STEPS + 1)}" y="{top + 25}" class="tick end">100 %</text>'
    )
