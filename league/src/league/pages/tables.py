"""The tables of the page as rows of cells: who stands where, who was replaced."""

from league.drawing.words import Listing, number, percent, plural
from league.pages.gathered import Gathered
from league.rating.normal import Z95

ROWS = 40
"""At most so many members of a role, or replacements, are listed."""


def board_table(gathered: Gathered, role: str) -> Listing:
    """The leaderboard of a role, best first."""
    board = gathered.boards[role][:ROWS]
    worth = "reward" if role == "teacher" else "right"
    void = ["void tasks"] if any(row.void for row in board) else []
    head = ["", role, "mu", "±", "places", "matches", "tasks solved", "valid", "unsolved", worth]
    rows = []
    for place, row in enumerate(board, 1):
        ranks = gathered.ranks[row.member]
        rows.append(
            (
                place,
                row.member,
                number(row.mu, 1),
                number(Z95 * row.sigma, 1),
                str(ranks.low) if ranks.low == ranks.high else f"{ranks.low}–{ranks.high}",
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
    return Listing([*head, *void, "rounds old", "parents"], rows, words=2)


def oddities_table(gathered: Gathered) -> Listing:
    """The pairs that surprise most."""
    found = gathered.interaction.oddities[:6] if gathered.interaction else ()
    head = ("teacher", "student", "solved", "by ratings", "standard errors apart")
    rows = [
        (x.teacher, x.student, percent(x.observed), percent(x.fitted), number(x.z, 1))
        for x in found
    ]
    return Listing(head, rows, words=2)


def replacement_table(gathered: Gathered) -> Listing:
    """Who was replaced by whom, latest first."""
    role = {life.name: life.role for life in gathered.history.lives}
    rows = []
    for row in list(reversed(gathered.replacements))[:ROWS]:
        shares = zip(row.parents, row.weights, strict=True)
        parents = " + ".join(
            name if len(row.parents) == 1 else f"{name} ({number(weight)})"
            for name, weight in shares
        )
        first = (row.rounds, role[row.member], row.member, row.child)
        rows.append((*first, parents, row.operator, row.reason, number(row.offset)))
    head = ("round", "role", "out", "in", "parents", "operator", "reason", "offset")
    return Listing(head, rows, words=7)


def headlines(gathered: Gathered) -> list[tuple[str, str]]:
    """The values at the top of the page, with what they are."""
    past = gathered.history
    teachers, students = gathered.boards.values()
    attempts = sum(match.attempts for match in past.matches)
    solved = sum(match.solved for match in past.matches)
    cells = [
        (f"{len(teachers)} + {len(students)}", "teachers and students alive"),
        (f"{gathered.rounds:,}", f"rounds, {plural(len(past.matches), 'match')} played"),
    ]
    if attempts:
        cells.append((percent(solved / attempts), "of all rollouts solved their task"))
    cells += [
        (rows[0].member, f"first {role} by {gathered.config.fitness.replace('_', ' ')}")
        for role, rows in gathered.boards.items()
        if past.matches
    ]
    cells.append((f"{len(gathered.replacements):,}", "members replaced"))
    if gathered.anchors:
        cells.append((f"{len(gathered.anchors):,}", "anchors: frozen, played against only"))
    if gathered.interaction is not None:
        found = "cycles" if gathered.interaction.found else "no cycles"
        cells.append((found, "found by the test for who-meets-whom effects"))
    return cells
