"""A league for people: one HTML page that works offline, its charts, and a summary in text.

from league import League
from league.report import gather, page, rating_bands

found = gather(League("runs/league", read_only=True))
html = page(found)
rating_bands(found, "student").save("ratings.svg")

Charts are Altair charts, which show themselves in a notebook. They and the page need the extra
`report`; `gather`, `save`, `sparkline` and `summary` do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from league.basics.errors import LeagueError
from league.drawing.sparkline import sparkline
from league.pages.gathered import Gathered, gather
from league.pages.page_file import save
from league.pages.summary import summary

if TYPE_CHECKING:
    from league.drawing.frame import save_charts
    from league.pages.bands import rating_bands
    from league.pages.family_tree import family_tree
    from league.pages.matrices import (
        alpha_rank_shares,
        generations_matrix,
        heat_map,
        nash_shares,
        payoff_matrix,
        skills,
    )
    from league.pages.page import charts_of, page
    from league.pages.trends import against_anchors, calibration_plot, rating_gap

__all__ = [
    "Gathered",
    "against_anchors",
    "alpha_rank_shares",
    "calibration_plot",
    "charts_of",
    "family_tree",
    "gather",
    "generations_matrix",
    "heat_map",
    "nash_shares",
    "page",
    "payoff_matrix",
    "rating_bands",
    "rating_gap",
    "save",
    "save_charts",
    "skills",
    "sparkline",
    "summary",
]

_DRAWN = ("pages.page", "pages.bands", "pages.family_tree", "pages.matrices", "pages.trends")


def __getattr__(name: str) -> Any:
    """Bring what draws when it is first asked for. Raises LeagueError without the extra."""
    if name not in __all__:
        raise AttributeError(f"league.report has no {name}")
    try:
        rooms = [import_module(f"league.{room}") for room in ("drawing.frame", *_DRAWN)]
    except ModuleNotFoundError as error:
        raise LeagueError(
            f"charts and pages need {error.name}; type: pip install 'populab-league[report]'"
        ) from error
    return next(found for room in rooms if (found := getattr(room, name, None)))
