"""TrueSkill ratings, prioritised matchmaking and replacement for two populations."""

from league.basics.errors import (
    ConflictingResult,
    LeagueError,
    LeagueLocked,
    UnknownMember,
    UnreadableLeague,
)
from league.history.frames import LeagueFrames, read_league
from league.history.rescore import Rescored, rescore
from league.history.tuning import calibrate
from league.league import League
from league.pairing.payoff import Payoff
from league.rating.posterior import rate_matches
from league.rating.rating import (
    Rating,
    RatingModel,
    Skills,
    conservative,
    environment,
    predict,
    quality,
)
from league.rating.schemes import RatingScheme
from league.selection.leaderboard import Standing
from league.simulation import Simulation, SimulationResult, simulate
from league.state.config import F_HARD, F_VAR, SCHEMES, LeagueConfig, scheme_of
from league.state.records import Anchor, Outcome, Pair, Replacement

__version__ = "0.1.0"

__all__ = [
    "F_HARD",
    "F_VAR",
    "SCHEMES",
    "Anchor",
    "ConflictingResult",
    "League",
    "LeagueConfig",
    "LeagueError",
    "LeagueFrames",
    "LeagueLocked",
    "Outcome",
    "Pair",
    "Payoff",
    "Rating",
    "RatingModel",
    "RatingScheme",
    "Replacement",
    "Rescored",
    "Simulation",
    "SimulationResult",
    "Skills",
    "Standing",
    "UnknownMember",
    "UnreadableLeague",
    "__version__",
    "calibrate",
    "conservative",
    "environment",
    "predict",
    "quality",
    "rate_matches",
    "read_league",
    "rescore",
    "scheme_of",
    "simulate",
]
