"""The leaderboard: places, how sure they are, and the counts behind them."""

from league.drawing.markup import Html, html_table, number, percent, section
from league.pages.gathered import Gathered
from league.rating.normal import Z95
from league.roles import ROLES
from league.selection.standing import Standing

ROWS = 40
"""At most so many members of a role are listed."""
_WIDTH = 130.0


def board_section(gathered: Gathered) -> str:
    """The section: one table a role."""
    rows = [row for role in ROLES for row in gathered.boards[role][:ROWS]]
    low = min(row.mu - Z95 * row.sigma for row in rows)
    high = max(row.mu + Z95 * row.sigma for row in rows)
    parts = []
    for role in ROLES:
        board = gathered.boards[role]
        more = f", the first {ROWS} of {len(board)}" if len(board) > ROWS else ""
        parts.append(f"<h3>{role.capitalize()}s{more}</h3>")
        parts.append(_table(gathered, role, board[:ROWS], (low, high)))
    sentence = (
        f"Best first by {gathered.config.fitness.replace('_', ' ')}. The bar is where the skill "
        "lies with 95 % probability; “places” says between which ranks the member could honestly "
        "be: 1–3 of 4 means that the order of the first three is not settled."
    )
    return section("Leaderboard", sentence, *parts)


def _table(
    gathered: Gathered, role: str, rows: tuple[Standing, ...], span: tuple[float, float]
) -> str:
    worth = "reward" if role == "teacher" else "right"
    header = ("", role, "skill, 95 %", "mu", "±", "places", "matches", "tasks solved", "valid")
    void = any(row.void for row in rows)
    counts = ("unsolved", worth, *(["void tasks"] if void else []), "rounds old", "parents")
    cells = []
    for place, row in enumerate(rows, 1):
        ranks = gathered.ranks[row.member]
        places = str(ranks.low) if ranks.low == ranks.high else f"{ranks.low}–{ranks.high}"
        cells.append(
            (
                place,
                row.member,
                Html(_bar(row, span)),
                number(row.mu, 1),
                number(Z95 * row.sigma, 1),
                places,
                f"{row.matches:,}",
                percent(row.mean_solve_rate),
                percent(row.valid_rate),
                percent(row.unsolved_rate),
                number(row.mean_reward),
                *([f"{row.void:,}"] if void else []),
                row.age,
                " + ".join(row.parents) + (f" ({row.operator})" if row.operator else ""),
            )
        )
    return html_table((*header, *counts), cells, words=3)


def _bar(row: Standing, span: tuple[float, float]) -> str:
    low, high = span
    unit = (_WIDTH - 10.0) / (high - low) if high > low else 0.0
    left, middle, right = (
        5.0 + unit * (row.mu + side * Z95 * row.sigma - low) for side in (-1.0, 0.0, 1.0)
    )
    return (
        f'<svg class="{row.role}" width="{_WIDTH:.0f}" height="16" role="img" '
        f'aria-label="interval"><rect class="dead" x="{left:.1f}" y="5" '
        f'width="{max(1.0, right - left):.1f}" height="6" rx="3"/>'
        f'<circle class="dot" cx="{middle:.1f}" cy="8" r="4"/></svg>'
    )
