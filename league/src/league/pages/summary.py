"""The report as text for a terminal."""

import math

from league.drawing.sparkline import sparkline
from league.drawing.text_table import Cell, table
from league.drawing.words import percent, plural
from league.games.interaction import Interaction
from league.pages.gathered import Gathered

ROWS = 12
"""At most so many members of a role are listed."""


def summary(gathered: Gathered) -> str:
    """Both boards with the course of each rating, and a line for each analysis."""
    past = gathered.history
    blocks = [
        f"{gathered.name}: {plural(gathered.rounds, 'round')}, "
        f"{plural(len(past.matches), 'match')}, {plural(len(gathered.replacements), 'replacement')}"
        f", {plural(len(gathered.anchors), 'anchor')}"
    ]
    blocks += [
        *(_board(gathered, role) for role in gathered.boards),
        "\n".join(_findings(gathered)),
    ]
    return "\n\n".join(blocks)


def verdict(found: Interaction) -> str:
    """The interaction in words."""
    if not found.found:
        return (
            "One rating per member is enough: what the ratings do not explain is no more than "
            f"chance leaves (p = {found.p_value:.2f})."
        )
    size = "a small" if found.share < 0.1 else "a sizeable" if found.share < 0.3 else "a large"
    return (
        f"One rating per member is not the whole story: {size} part of the differences between "
        f"pairs ({percent(found.share)}) is who meets whom, more than chance leaves "
        f"(p = {found.p_value:.3f})."
    )


def _board(gathered: Gathered, role: str) -> str:
    past = gathered.history
    column = {life.name: i for i, life in enumerate(past.lives)}
    board = gathered.boards[role]
    shown = [past.mu[:, column[row.member]].tolist() for row in board[:ROWS]]
    real = [value for values in shown for value in values if not math.isnan(value)]
    rows: list[tuple[Cell, ...]] = [
        (
            row.member,
            row.mu,
            1.96 * row.sigma,
            f"{gathered.ranks[row.member].low}-{gathered.ranks[row.member].high}",
            row.matches,
            row.mean_solve_rate,
            row.valid_rate,
            sparkline(values, low=min(real), high=max(real)),
        )
        for row, values in zip(board[:ROWS], shown, strict=True)
    ]
    header = (role, "mu", "±", "places", "matches", "solved", "valid", "mu over rounds")
    more = f"\nthe first {ROWS} of {len(board)}" if len(board) > ROWS else ""
    return table(header, rows) + more


def _findings(gathered: Gathered) -> list[str]:
    drift, calibration = gathered.drift, gathered.calibration
    lines = [
        f"gap        {sparkline(drift.gap_centred)}  students - teachers now "
        f"{drift.gap_centred[-1]:+.2f} without the jumps at replacements"
    ]
    if calibration.rmse is not None and calibration.bias is not None:
        inside = "" if calibration.coverage is None else f", {calibration.coverage:.0%} inside 95 %"
        lines.append(
            f"calibrated RMSE {calibration.rmse:.3f} (chance included), bias "
            f"{calibration.bias:+.3f}{inside}"
        )
    if gathered.interaction is not None:
        lines.append(f"ranking    {verdict(gathered.interaction)}")
    elif gathered.missing:
        lines.append(f"ranking    not to be said yet: {gathered.missing['interaction']}")
    if nash := gathered.nash:
        lines.append(
            f"Nash       value {nash.value:.3f}; against everybody equally often the best teacher "
            f"gains {nash.uniform.teacher_gain:.3f}, the best student "
            f"{nash.uniform.student_gain:.3f}"
        )
    if found := gathered.diversity:
        lines.append(
            f"diversity  {found.teachers:.1f} of {found.teacher_count} teachers, "
            f"{found.students:.1f} of {found.student_count} students in effect "
            f"(alike: {found.teachers_alike:.1f}, {found.students_alike:.1f})"
        )
    for side in (gathered.survival.teachers, gathered.survival.students):
        founders = sum(not life.parents for life in gathered.history.everyone(side.role))
        lines.append(
            f"lineage    of {plural(founders, f'founding {side.role}')}, {side.founders_alive} "
            "left living descendants"
        )
    return lines
