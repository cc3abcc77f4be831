"""Everything a league can be told when it is founded."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any

from league.errors import LeagueError
from league.rating import RatingModel

MATCHERS = ("sampled", "assignment", "uniform")
SCHEMES = ("batch", "trueskill", "weng_lin", "elo")
FITNESSES = ("rating", "lower_bound", "reward")

F_VAR = (1.0, 1.0)
"""PFSP powers of p(1-p): near-balanced matches, alike for both sides (AlphaStar's f_var)."""
F_HARD = (0.0, 2.0)
"""PFSP powers of (1-p)²: teachers that the student does not yet solve (AlphaStar's f_hard)."""


@dataclass(frozen=True)
class LeagueConfig:
    """The constants of one league; they never change after its founding.

    seed: of all random choices. mu, sigma, beta, tau: the TrueSkill model (`RatingModel`). tau
    must match how fast members learn: raise it when they train between matches.
    scheme: how results become ratings, see `league.schemes`: `batch` (one fractional update per
    match), `trueskill` (one game per task), `weng_lin` or `elo`. elo_k: the most that one task
    can move a rating under `elo`, in rating units; Elo's 200 points are one beta here.
    evidence: what share of a task counts as an independent game (tasks of one teacher are alike).
    max_weight: the most games one match can count as.
    matcher: `sampled`, `assignment` or `uniform`. pfsp: the powers (a, b) of the weight
    p^a (1-p)^b on the predicted solve rate p. explore: the share of uniform choice mixed in.
    history_tasks: how many tasks the rating's prediction is worth against the pair's own past.
    history_decay: how much of that past survives each new match of the pair. In `simulate`,
    where no pair has a past of its own, (100, 0.5) predicts as well as ratings alone even when
    members learn; (20, 0.99) doubles the error then.
    fitness: what `leaderboard` and `select` rank by: `rating` (mu), `lower_bound` (mu - 3 sigma)
    or `reward` (mean reward per task). grace_matches: a child plays so many matches before it
    can be selected. child_sigma: the unknown jump of a genetic operator, in rating units.
    snapshot_every: events between two snapshots.
    """

    seed: int = 0
    mu: float = RatingModel.mu
    sigma: float = RatingModel.sigma
    beta: float = RatingModel.beta
    tau: float = RatingModel.tau
    scheme: str = "batch"
    elo_k: float = 0.16 * RatingModel.beta
    evidence: float = 1.0
    max_weight: float = 64.0
    matcher: str = "sampled"
    pfsp: tuple[float, float] = F_VAR
    explore: float = 0.1
    history_tasks: float = 100.0
    history_decay: float = 0.5
    fitness: str = "lower_bound"
    grace_matches: int = 5
    child_sigma: float = 0.3 * RatingModel.sigma
    snapshot_every: int = 64

    def __post_init__(self) -> None:
        for name in ("seed", "grace_matches", "snapshot_every"):
            value = getattr(self, name)
            least = 1 if name == "snapshot_every" else 0
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise LeagueError(f"{name} is {value!r}; expected a whole number >= {least}")
        _choice("matcher", self.matcher, MATCHERS)
        _choice("scheme", self.scheme, SCHEMES)
        _choice("fitness", self.fitness, FITNESSES)
        if not isinstance(self.pfsp, tuple) or len(self.pfsp) != 2:
            raise LeagueError(f"pfsp is {self.pfsp!r}; expected two powers such as (1.0, 1.0)")
        numbers = {"pfsp": self.pfsp} | {
            name: (getattr(self, name),)
            for name in ("elo_k", "evidence", "max_weight", "history_tasks", "child_sigma")
        }
        for name, values in numbers.items():
            for value in values:
                _number(name, value, 0.0, math.inf)
        _number("explore", self.explore, 0.0, 1.0)
        _number("history_decay", self.history_decay, 0.0, 1.0)
        for name in ("mu", "sigma", "beta", "tau"):
            _number(name, getattr(self, name), -math.inf, math.inf)
        _ = self.model

    @property
    def model(self) -> RatingModel:
        """The rating model of these constants."""
        return RatingModel(self.mu, self.sigma, self.beta, self.tau)

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict that `from_json` takes back."""
        return asdict(self) | {"pfsp": list(self.pfsp)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "LeagueConfig":
        """Return the config of a plain dict; unknown names are an error with a suggestion."""
        known = [field.name for field in fields(cls)]
        for name in data:
            if name not in known:
                close = get_close_matches(name, known, n=1)
                hint = f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"
                raise LeagueError(f"unknown league setting {name!r}{hint}")
        values = dict(data)
        if isinstance(values.get("pfsp"), list):
            values["pfsp"] = tuple(values["pfsp"])
        return cls(**values)


def _choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise LeagueError(f"{name} is {value!r}; expected one of {', '.join(known)}")


def _number(name: str, value: object, low: float, high: float) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not low <= value <= high
    ):
        bounds = "a finite number" + ("" if math.isinf(low) else f" >= {low:g}")
        bounds += "" if math.isinf(high) else f" and <= {high:g}"
        raise LeagueError(f"{name} is {value!r}; expected {bounds}")
