"""What people want to know of a league: each question one function on its history.

    from league import League
    from league.analysis import game, history, nash

    past = history(League("runs/league", read_only=True))
    print(nash(game(past)).value)

Each function takes a `History` (or the `Game` made of it), draws random numbers only from its
`seed`, and returns a frozen dataclass of plain data with `to_dict()`.
"""

from league.games.alpha_rank import AlphaRank, alpha_rank
from league.games.diversity import Diversity, diversity
from league.games.game import Game, game
from league.games.interaction import Interaction, interaction
from league.games.nash import Exploitability, Nash, exploitability, nash
from league.history.calibration import Calibration, calibration
from league.history.drift import Drift, drift
from league.history.frames import LeagueFrames, frames
from league.history.generations import Generations, generations
from league.history.history import History, Life, Match, history, history_of
from league.history.ranks import RankInterval, rank_intervals
from league.history.survival import Survival, survival

__all__ = [
    "AlphaRank",
    "Calibration",
    "Diversity",
    "Drift",
    "Exploitability",
    "Game",
    "Generations",
    "History",
    "Interaction",
    "LeagueFrames",
    "Life",
    "Match",
    "Nash",
    "RankInterval",
    "Survival",
    "alpha_rank",
    "calibration",
    "diversity",
    "drift",
    "exploitability",
    "frames",
    "game",
    "generations",
    "history",
    "history_of",
    "interaction",
    "nash",
    "rank_intervals",
    "survival",
]
