"""Rating schemes by name, as `LeagueConfig.scheme` chooses them."""

from collections.abc import Callable

from league.config import LeagueConfig
from league.rating.normal import Floats
from league.rating.rating import Rating
from league.rating.skills import Skills
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


def rate(
    scheme: RatingScheme,
    teachers: list[Rating],
    students: list[Rating],
    score: Floats,
    weight: Floats,
) -> tuple[list[Rating], list[Rating]]:
    """Return the new ratings of n teachers and n students after one match of each pair.

    score, weight: shape [n], as in `RatingScheme.update`. No member may occur twice.
    """
    new = scheme.update(Skills.of(teachers), Skills.of(students), score, weight)
    return new[0].ratings(), new[1].ratings()
