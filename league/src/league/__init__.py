"""TrueSkill ratings, prioritised matchmaking and replacement for populations that play each other.

A `League` keeps who plays whom, who is best and who is replaced in a directory; `rate` rates a
table of results without one.
"""

from typing import TYPE_CHECKING, Any

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
from league.ratings import Rating, RatingModel, rate_matches
from league.selection import Payoff, Standing
from league.state import Outcome, Pair, Replacement
from league.table import RatedMember, rate

if TYPE_CHECKING:
    from league.charts import league_chart

__version__ = "0.1.0"

__all__ = [
    "F_HARD", "F_VAR", "ConflictingResult", "League", "LeagueConfig", "LeagueError",
    "LeagueLocked", "LeagueTables", "Outcome", "Pair", "Payoff", "RatedMember", "Rating",
    "RatingModel", "Replacement", "Standing", "UnknownMember", "UnreadableLeague",
    "__version__", "calibrate", "calibration", "league_chart", "rank_intervals", "rate",
    "rate_matches", "read_league",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load the charts when they are first asked for. Raises LeagueError without Altair."""
    if name != "league_chart":
        raise AttributeError(f"module 'league' has no attribute {name!r}")
    from league.charts import league_chart

    return league_chart
