"""TrueSkill ratings, prioritised matchmaking and replacement for two populations."""

from league.config import F_HARD, F_VAR, LeagueConfig
from league.errors import (
    ConflictingResult,
    LeagueError,
    LeagueLocked,
    UnknownMember,
    UnreadableLeague,
)
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
from league.replay.calibrate import calibrate
from league.replay.rescore import Rescored, rescore
from league.schemes.catalogue import SCHEMES, scheme_of
from league.schemes.scheme import RatingScheme
from league.selection.standing import Standing
from league.simulation.simulate import SimulationResult, simulate
from league.simulation.world import Simulation
from league.state.outcome import Outcome
from league.state.records import Anchor, Pair, Replacement

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
