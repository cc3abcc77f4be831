"""The tables and matrices of the page: who stands where, who met whom, who was replaced."""

from league.drawing.heat_map import Labelled, heat_map
from league.drawing.markup import Html, escape, html_table, notes, number, percent, section
from league.history.generations import Cohort
from league.pages.gathered import Gathered
from league.pages.trends import offsets
from league.rating.normal import Z95
from league.selection.leaderboard import Standing

ROWS = 40
"""At most so many members of a role, or replacements, are listed."""
_WIDTH = 130.0


def board_section(gathered: Gathered) -> str:
    """The section: one table a role."""
    rows = [row for board in gathered.boards.values() for row in board[:ROWS]]
    low = min(row.mu - Z95 * row.sigma for row in rows)
    high = max(row.mu + Z95 * row.sigma for row in rows)
    parts = []
    for role, board in gathered.boards.items():
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


def payoff_section(gathered: Gathered) -> str:
    """Who solves whose tasks, best first."""
    grid = gathered.grid
    sentence = (
        "Each row is a teacher, each column a student, the best first: the share of rollouts that "
        "solved the teacher's valid tasks, in per cent. Blue cells are easy for the student, "
        "orange ones hard, colourless ones balanced; an empty cell: the two have never met."
    )
    shown = Labelled(grid.teachers, grid.students, grid.solve_rate, grid.tasks, "solve rates")
    cut = [
        f"the best {len(kept)} of {len(gathered.boards[role])} {role}s are shown"
        for role, kept in (("teacher", grid.teachers), ("student", grid.students))
        if len(kept) < len(gathered.boards[role])
    ]
    return section("Who solves whose tasks", sentence, heat_map(shown), notes(cut))


def generations_section(gathered: Gathered) -> str:
    """Later members against earlier ones."""
    found = gathered.generations
    sentence = (
        "Members grouped by when they came (in rounds), oldest first. Read along a row: if later "
        "students solve more of the same teachers' tasks, the row turns blue to the right and "
        "students progress. Read down a column: if it turns orange, teachers progress. Cells far "
        "from the diagonal need old and new members that met; anchors provide such meetings."
    )
    shown = Labelled(
        [f"born {_span(cohort)}" for cohort in found.teachers],
        [_span(cohort) for cohort in found.students],
        found.solve_rate,
        found.tasks,
        "solve rates by generation",
    )
    return section("Generation against generation", sentence, heat_map(shown), notes(found.notes))


def _span(cohort: Cohort) -> str:
    return str(cohort.first) if cohort.first == cohort.last else f"{cohort.first}–{cohort.last}"


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
    cells = []
    for row in rows[:ROWS]:
        shares = zip(row.parents, row.weights, strict=True)
        parents = " + ".join(
            name if len(row.parents) == 1 else f"{name} ({number(weight)})"
            for name, weight in shares
        )
        first = (row.rounds, role[row.member], row.member, row.child)
        cells.append((*first, parents, row.operator, row.reason, number(row.offset)))
    header = ("round", "role", "out", "in", "parents", "operator", "reason", "offset")
    more = f"The latest {ROWS} of {len(rows)}. " if len(rows) > ROWS else ""
    words = f"<p>{escape(more + offsets(gathered))}</p>"
    return section(title, sentence, html_table(header, cells, words=7), words)
