"""TrueSkill ratings, prioritised matchmaking and replacement for two populations."""

from league.calibrate import calibrate
from league.config import F_HARD, F_VAR, LeagueConfig
from league.errors import (
    ConflictingResult,
    LeagueError,
    LeagueLocked,
    UnknownMember,
    UnreadableLeague,
)
from league.league import League
from league.outcome import Outcome
from league.payoff import Payoff
from league.posterior import rate_matches
from league.rating import Rating, RatingModel, conservative, environment, predict, quality
from league.records import Anchor
from league.rescore import Rescored, rescore
from league.schemes import SCHEMES, RatingScheme, scheme_of
from league.simulate import Simulation, SimulationResult, simulate
from league.skills import Skills
from league.standing import Standing
from league.state import Pair, Replacement

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
    "rescore",
    "scheme_of",
    "simulate",
]
