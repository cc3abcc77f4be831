"""What people want to know of a league: each question one function on its history.

    from league import League
    from league.analysis import game, history, nash

    past = history(League("runs/league", read_only=True))
    print(nash(game(past)).value)

Each function takes a `History` (or the `Game` made of it), draws random numbers only from its
`seed`, and returns a frozen dataclass of plain data with `to_json()`.
"""

from league.analysis.alpha_rank import AlphaRank, alpha_rank
from league.analysis.calibration import Calibration, calibration
from league.analysis.diversity import Diversity, diversity
from league.analysis.drift import Drift, drift
from league.analysis.exploitability import Exploitability, exploitability
from league.analysis.game import Game, game
from league.analysis.generations import Generations, generations
from league.analysis.history import History, Life, Match, history, history_of
from league.analysis.interaction import Interaction, interaction
from league.analysis.nash import Nash, nash
from league.analysis.ranks import RankInterval, rank_intervals
from league.analysis.survival import Survival, survival

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
    "game",
    "generations",
    "history",
    "history_of",
    "interaction",
    "nash",
    "rank_intervals",
    "survival",
]
