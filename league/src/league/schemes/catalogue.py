"""Rating schemes by name, as `LeagueConfig.scheme` chooses them."""

from collections.abc import Callable

from league.config import LeagueConfig
from league.schemes.batch import Batch
from league.schemes.elo import Elo
from league.schemes.scheme import RatingScheme
from league.schemes.trueskill_games import TrueSkillGames
from league.schemes.weng_lin import WengLin

SCHEMES: dict[str, Callable[[LeagueConfig], RatingScheme]] = {
    "batch": lambda config: Batch(config.model),
    "trueskill": lambda config: TrueSkillGames(config.model),
    "weng_lin": lambda config: WengLin(config.model),
    "elo": lambda config: Elo(config.model, config.elo_k),
}
"""Every scheme by the name that `LeagueConfig.scheme` gives it."""


def scheme_of(config: LeagueConfig) -> RatingScheme:
    """Return the scheme that a config asks for, with the constants of that config."""
    return SCHEMES[config.scheme](config)
