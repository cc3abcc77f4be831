"""The settings of a league."""

import math
from dataclasses import asdict, dataclass

from league.errors import LeagueError, check_number, check_whole, suggestion
from league.ratings import RatingModel

FITNESSES = {
    "rating": "mu",
    "lower_bound": "lower_bound",
    "reward": "mean_reward",
    "random": None,
}
"""The field of a standing for each fitness; None: a number drawn in each round."""

_MOST = dict.fromkeys(("evidence", "max_weight", "history_tasks", "child_sigma"), math.inf)
_MOST |= {"explore": 1.0, "history_decay": 1.0}

F_VAR = (1.0, 1.0)
"""PFSP powers of p(1-p): balanced matches are preferred, for both sides (AlphaStar's f_var)."""
F_HARD = (0.0, 2.0)
"""PFSP powers of (1-p)²: teachers whose tasks the student does not solve yet are preferred
(AlphaStar's f_hard)."""


@dataclass(frozen=True)
class LeagueConfig:
    """The settings of one league; they never change after it is created."""

    seed: int = 0
    """Random seed of pairing and selection."""
    mu: float = RatingModel.mu
    """TrueSkill's mean rating of a new member (`RatingModel`)."""
    sigma: float = RatingModel.sigma
    """TrueSkill's uncertainty of a new member's rating."""
    beta: float = RatingModel.beta
    """TrueSkill's spread of one performance around the skill."""
    tau: float = RatingModel.tau
    """TrueSkill's additional uncertainty at every match. Members that learn faster need more: raise
    it when they train between matches."""
    evidence: float = 1.0
    """How much of an independent game each task counts as (tasks of one teacher are alike)."""
    max_weight: float = 64.0
    """The most games that one match can count as."""
    pfsp: tuple[float, float] = F_VAR
    """The powers (a, b) of the weight p^a (1-p)^b on the predicted solve rate p."""
    explore: float = 0.1
    """The share of uniform choice mixed in; 1 for pairs by chance alone."""
    history_tasks: float = 100.0
    """The weight of the rating's prediction against the pair's own past, in tasks."""
    history_decay: float = 0.5
    """The factor on that past at each new match of the pair."""
    fitness: str = "lower_bound"
    """What `leaderboard` and `select` rank by: `rating` (mu), `lower_bound` (mu - 3 sigma),
    `reward` (mean reward per task), or `random`, a control without selection."""
    grace_matches: int = 5
    """Matches that a child must play before it can be replaced."""
    child_sigma: float = 0.3 * RatingModel.sigma
    """Extra uncertainty of a newborn child's skill, in rating units."""

    def __post_init__(self) -> None:
        for name in ("seed", "grace_matches"):
            check_whole(name, getattr(self, name))
        if self.fitness not in FITNESSES:
            hint = suggestion(str(self.fitness), FITNESSES)
            raise LeagueError(
                f"fitness is {self.fitness!r}; expected one of {', '.join(FITNESSES)}{hint}"
            )
        if not isinstance(self.pfsp, tuple) or len(self.pfsp) != 2:
            raise LeagueError(f"pfsp is {self.pfsp!r}; expected two powers such as (1.0, 1.0)")
        for power in self.pfsp:
            check_number("pfsp", power, 0.0)
        for name, most in _MOST.items():
            check_number(name, getattr(self, name), 0.0, most)
        _ = self.model

    @property
    def model(self) -> RatingModel:
        return RatingModel(self.mu, self.sigma, self.beta, self.tau)

    def difference(self, other: "LeagueConfig") -> str:
        """Return the settings in which the other config differs, for a message."""
        new, old = asdict(self), asdict(other)
        return ", ".join(f"{k} {old[k]} not {new[k]}" for k in old if old[k] != new[k])
