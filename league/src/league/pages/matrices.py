"""The two matrices of the page: members against members, and generation against generation."""

from league.drawing.heat_map import Labelled, heat_map
from league.drawing.markup import notes, section
from league.history.generations import Cohort
from league.pages.gathered import Gathered


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
