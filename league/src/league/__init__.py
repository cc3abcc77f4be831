"""TrueSkill ratings, prioritised matchmaking and replacement for populations that play each other.

A `League` keeps who plays whom, who is best and who is replaced in a directory; `rate` rates a
table of results without one.
"""

from typing import TYPE_CHECKING

from league.analysis import LeagueTables, calibrate, calibration, rank_intervals, read_league
from league.config import F_HARD, F_VAR, LeagueConfig
from league.errors import (
    ConflictingResult,
    LeagueError,
    LeagueLocked,
    UnknownMember,
    UnreadableLeague,
)
from league.league import League
from league.ratings import Prediction, Rating, RatingModel, predict, rate_matches
from league.selection import Payoff, Standing
from league.state import Outcome, Pair, Replacement
from league.table import RatedMember, find_cycle, rate

if TYPE_CHECKING:
    from league.charts import Panel

__version__ = "0.1.0"

__all__ = [
    "F_HARD", "F_VAR", "ConflictingResult", "League", "LeagueConfig", "LeagueError",
    "LeagueLocked", "LeagueTables", "Outcome", "Pair", "Payoff", "Prediction", "RatedMember",
    "Rating", "RatingModel", "Replacement", "Standing", "UnknownMember", "UnreadableLeague",
    "__version__", "calibrate", "calibration", "find_cycle", "panels", "predict", "rank_intervals",
    "rate", "rate_matches", "read_league",
]  # fmt: skip


def panels(league: League) -> list["Panel"]:
    """Return the charts of `league report --html`, each with `title`, `hint` and `chart` (of
    altair). Needs the extra `report`."""
    from league.charts import panels

    return panels(league)
