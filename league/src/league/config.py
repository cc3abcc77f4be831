"""Everything a league can be told when it is founded."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any

from league.errors import LeagueError
from league.rating.rating import RatingModel

MATCHERS = ("sampled", "assignment", "thompson", "uniform")
SCHEMES = ("batch", "trueskill", "weng_lin", "elo")
FITNESSES = ("rating", "lower_bound", "reward", "blend")
SELECTIONS = ("worst_k", "tournament")

_LEAST = {
    "seed": 0,
    "coverage_every": 0,
    "hall_every": 0,
    "hall_size": 1,
    "tournament_size": 1,
    "grace_matches": 0,
    "snapshot_every": 1,
}

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
    matcher: `sampled`, `assignment`, `thompson` or `uniform`. pfsp: the powers (a, b) of the weight
    p^a (1-p)^b on the predicted solve rate p. explore: the share of uniform choice mixed in;
    `thompson` and `uniform` use neither.
    coverage_every: every so many whole rounds is a coverage round, 0 for none; with the larger
    side of n members, n of them hold every pair.
    anchor_share: the share of all matches that is played against frozen anchors, from 0 to 0.9.
    hall_every: after every so many rounds the best member of each role is frozen as an anchor, 0
    for never. hall_at_replacement: freeze the best of a role whenever one of it is replaced.
    hall_size: how many anchors of one role are played against; the latest are.
    history_tasks: how many tasks the rating's prediction is worth against the pair's own past.
    history_decay: how much of that past survives each new match of the pair. In `simulate`,
    where no pair has a past of its own, (100, 0.5) predicts as well as ratings alone even when
    members learn; (20, 0.99) doubles the error then.
    fitness: what `leaderboard` and `select` rank by: `rating` (mu), `lower_bound` (mu - 3 sigma),
    `reward` (mean reward per task) or `blend` of rating and reward, each in standard deviations
    of the role; blend_reward: the reward's share in it.
    selection: `worst_k` (the least fit) or `tournament` (the least fit of tournament_size drawn
    by lot, again and again). grace_matches: a child plays so many matches before it can be
    selected. child_sigma: the unknown jump of a genetic operator, in rating units.
    snapshot_every: the least number of events between two snapshots.
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
    coverage_every: int = 0
    anchor_share: float = 0.0
    hall_every: int = 0
    hall_at_replacement: bool = False
    hall_size: int = 16
    fitness: str = "lower_bound"
    blend_reward: float = 0.5
    selection: str = "worst_k"
    tournament_size: int = 3
    grace_matches: int = 5
    child_sigma: float = 0.3 * RatingModel.sigma
    snapshot_every: int = 64

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise LeagueError(f"{name} is {value!r}; expected a whole number >= {least}")
        _choice("matcher", self.matcher, MATCHERS)
        _choice("scheme", self.scheme, SCHEMES)
        _choice("fitness", self.fitness, FITNESSES)
        _choice("selection", self.selection, SELECTIONS)
        if not isinstance(self.hall_at_replacement, bool):
            raise LeagueError(
                f"hall_at_replacement is {self.hall_at_replacement!r}; expected true or false"
            )
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
        _number("blend_reward", self.blend_reward, 0.0, 1.0)
        _number("anchor_share", self.anchor_share, 0.0, 0.9)
        _number("history_decay", self.history_decay, 0.0, 1.0)
        for name in ("mu", "sigma", "beta", "tau"):
            _number(name, getattr(self, name), -math.inf, math.inf)
        _ = self.model

    @property
    def model(self) -> RatingModel:
        """The rating model of these constants."""
        return RatingModel(self.mu, self.sigma, self.beta, self.tau)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dict that `from_dict` takes back."""
        return asdict(self) | {"pfsp": list(self.pfsp)}

    def difference(self, other: "LeagueConfig") -> str:
        """Return in words which settings the other config has instead of these."""
        new, old = self.to_dict(), other.to_dict()
        return ", ".join(f"{k} {old[k]} not {new[k]}" for k in old if old[k] != new[k])

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "LeagueConfig":
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
