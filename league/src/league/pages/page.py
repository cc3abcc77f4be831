"""The whole page and its charts."""

from league.drawing.frame import Charts, written
from league.drawing.words import number, percent, plural, sentences
from league.pages.bands import left_out, rating_bands
from league.pages.family_tree import family_tree, kept_lives, survival_words
from league.pages.gathered import NO_MATCH, Gathered
from league.pages.matrices import (
    alpha_rank_shares,
    generations_matrix,
    nash_shares,
    payoff_matrix,
    skills,
)
from league.pages.summary import verdict
from league.pages.tables import (
    ROWS,
    board_table,
    headlines,
    oddities_table,
    replacement_table,
)
from league.pages.trends import (
    against_anchors,
    calibration_plot,
    drift_words,
    offset_words,
    rating_gap,
)


def charts_of(gathered: Gathered) -> Charts:
    """Every chart of the page by name; those that cannot be drawn yet are left out."""
    found = {f"ratings-{role}": rating_bands(gathered, role) for role in gathered.boards}
    if gathered.replacements:
        for role in gathered.boards:
            found[f"centred-{role}"] = rating_bands(gathered, role, centred=True)
    for role in gathered.boards:
        found[f"skills-{role}"] = skills(gathered, role)
        found[f"family-{role}"] = family_tree(gathered, role)
        if gathered.nash:
            found[f"nash-{role}"] = nash_shares(gathered, role)
        if gathered.alpha_rank:
            found[f"alpha-rank-{role}"] = alpha_rank_shares(gathered, role)
    found |= {"payoff": payoff_matrix(gathered), "generations": generations_matrix(gathered)}
    found["gap"] = rating_gap(gathered)
    if gathered.drift.against_anchors:
        found["anchors"] = against_anchors(gathered)
    if gathered.calibration.matches:
        found["calibration"] = calibration_plot(gathered)
    return found


def page(gathered: Gathered) -> str:
    """The page as one text: it fetches nothing, all names are escaped, and the same league gives
    the same bytes."""
    return written(
        "page.html",
        charts_of(gathered),
        league=gathered,
        roles={role: f"{role.capitalize()}s" for role in gathered.boards},
        tiles=headlines(gathered),
        first_words=_first_words(gathered),
        bands_left_out=" and ".join(left_out(gathered)),
        lives_left_out=_lives_left_out(gathered),
        boards={role: board_table(gathered, role) for role in gathered.boards},
        most_rows=ROWS,
        cut=_cut(gathered),
        drift_words=drift_words(gathered),
        verdict=verdict(gathered.interaction) if gathered.interaction else "",
        oddities=oddities_table(gathered),
        survival=survival_words(gathered),
        replaced=replacement_table(gathered),
        offsets=offset_words(gathered),
        number=number,
        percent=percent,
        sentences=sentences,
        plural=plural,
    )


def _first_words(gathered: Gathered) -> str:
    if not gathered.history.matches:
        return f"{NO_MATCH}: the ratings below are what everybody starts with"
    if gathered.since:
        which = "calibration, interaction, Nash averaging and diversity are of round"
        return f"{which} {gathered.since} and later"
    return ""


def _cut(gathered: Gathered) -> list[str]:
    shown = {"teacher": gathered.grid.teachers, "student": gathered.grid.students}
    return [
        f"the best {len(kept)} of {len(gathered.boards[role])} {role}s are shown"
        for role, kept in shown.items()
        if len(kept) < len(gathered.boards[role])
    ]


def _lives_left_out(gathered: Gathered) -> str:
    counts = {r: (len(kept_lives(gathered, r)), len(gathered.history.everyone(r))) for r in _ROLES}
    return " and ".join(
        f"{kept} of {every} {role}s" for role, (kept, every) in counts.items() if kept < every
    )


_ROLES = ("teacher", "student")
