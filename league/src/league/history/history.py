"""What happened in a league, as plain rows: its members' lives, its matches, its ratings."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from league.basics.data import Floats
from league.basics.errors import LeagueError
from league.events.files import EVENTS
from league.events.fold import apply, results
from league.events.journal import read_events
from league.history.agreement import task_agreement
from league.league import League
from league.rating.rating import Rating
from league.state.config import LeagueConfig
from league.state.records import Pair, check_role
from league.state.state import State


@dataclass(frozen=True, slots=True)
class Match:
    """One recorded match."""

    round: int
    teacher: str
    student: str
    predicted: float
    """The student's share of the tasks, as expected when the round was paired."""
    uncertainty: float
    """Standard deviation of the two skills' gap at that time, in rating units."""
    counted: int
    """Tasks with a winner."""
    won: float
    """How many of them the student won (a fraction of a task for a fraction of right rollouts)."""
    valid: int
    """As in `Outcome`, like the two below."""
    attempts: int
    solved: int
    imbalance: float | None = None
    """How far the mean of the two ratings moved, in rating units, weighted by precision (equally
    under Elo); None where nothing is kept: under another scheme, against an anchor, or for a
    member that met several others in this round."""


@dataclass(frozen=True, slots=True)
class Life:
    """One member from beginning to end."""

    name: str
    role: str
    slot: int
    born: int
    """How many rounds had been paired when it came."""
    ended: int | None
    """How many had been when it was replaced; None while it lives."""
    rating: Rating
    """Its last one."""
    parents: tuple[str, ...] = ()
    """Empty for a founder; of an anchor, the member that it is a copy of."""
    weights: tuple[float, ...] = ()
    operator: str = ""
    anchor: bool = False
    """Whether it is frozen, and only a yardstick."""
    offset: float = 0.0
    """How far its arrival moved the mean rating of its role."""

    @property
    def main_parent(self) -> str:
        """The parent of the largest weight, the first of equals; "" for a founder."""
        pairs = zip(self.weights, self.parents, strict=True)
        return max(pairs, key=lambda pair: pair[0], default=(0.0, ""))[1]


@dataclass(frozen=True)
class History:
    """All lives and matches of a league, and its ratings at some points in time."""

    config: LeagueConfig
    lives: tuple[Life, ...]
    matches: tuple[Match, ...] = ()
    rounds: int = 0
    """How many have been paired."""
    sampled: tuple[int, ...] = ()
    """The points in time, as numbers of paired rounds, rising."""
    mu: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """Shape [points, lives], NaN where a member was not alive."""
    sigma: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """Of the same shape."""
    agreement: float | None = None
    """The correlation of two rollouts of one task (`task_agreement`), None if nothing tells."""

    def living(self, role: str) -> list[Life]:
        """The living members of a role by slot, without anchors."""
        found = [life for life in self.everyone(role) if life.ended is None]
        return sorted(found, key=lambda life: life.slot)

    def everyone(self, role: str) -> list[Life]:
        """All members that a role ever had, in order of arrival, without anchors."""
        check_role(role)
        return [life for life in self.lives if life.role == role and not life.anchor]


SAMPLES = 200
"""At most about so many points in time are kept of a long history."""
TELLING = 2000
"""At most about so many matches are asked how far the rollouts of a task agree."""


def history(league: League) -> History:
    """Return the history of an open league, from its log alone."""
    events = read_events(league.directory / EVENTS, league.byte_length)
    return history_of(league.config, events, len(league.state.rounds))


def history_of(
    config: LeagueConfig, events: Iterable[Mapping[str, Any]], rounds: int | None = None
) -> History:
    """Return the history of a list of events, the first of which founds the league.

    rounds: how many of the events pair a round, where that is known; it saves a look ahead.
    """
    if rounds is None:
        events = list(events)
        rounds = sum(event.get("event") == "round_paired" for event in events)
    every = max(1, math.ceil(rounds / SAMPLES))
    state = State(config)
    matches: list[Match] = []
    uncertainty: dict[str, float] = {}
    samples: dict[int, dict[str, Rating]] = {}
    for number, event in enumerate(events, 1):
        kind = event.get("event")
        if kind == "round_paired" and len(state.rounds) % every == 0:
            samples[len(state.rounds)] = _ratings(state)
        try:
            if results(event):
                matches += _recorded(state, event, uncertainty)
            else:
                apply(state, event)
        except LeagueError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise LeagueError(f"event {number} is not one of ours: {error!r}") from error
        if kind == "round_paired":
            for pair_id in state.rounds[event["round"]]:
                pair = state.pairs[pair_id]
                sigmas = (state.members[n].rating.sigma for n in (pair.teacher, pair.student))
                uncertainty[pair_id] = math.hypot(*sigmas)
    samples[len(state.rounds)] = _ratings(state)
    lives = _lives(state)
    column = {life.name: i for i, life in enumerate(lives)}
    mu, sigma = np.full((2, len(samples), len(lives)), np.nan)
    for row, known in enumerate(samples.values()):
        for name, rating in known.items():
            mu[row, column[name]], sigma[row, column[name]] = rating.mu, rating.sigma
    outcomes = list(state.outcomes.values())
    every = max(1, math.ceil(len(outcomes) / TELLING))
    return History(
        config=config,
        lives=lives,
        matches=tuple(matches),
        rounds=len(state.rounds),
        sampled=tuple(samples),
        mu=mu,
        sigma=sigma,
        agreement=task_agreement(outcomes[::every]),
    )


def _recorded(
    state: State, event: Mapping[str, Any], uncertainty: Mapping[str, float]
) -> list[Match]:
    """Apply an event with one result or many, and return its matches."""
    pairs = [state.pairs[pair_id] for pair_id, _outcome in results(event)]
    before = {n: state.members[n].rating for p in pairs for n in (p.teacher, p.student)}
    apply(state, event)
    return [_match(state, pair, before, uncertainty[pair.id]) for pair in pairs]


def _match(state: State, pair: Pair, before: Mapping[str, Rating], uncertainty: float) -> Match:
    outcome = state.outcomes[pair.id]
    paired = (pair.round, pair.teacher, pair.student, pair.predicted, uncertainty)
    won = outcome.counted * outcome.student_score
    counts = (outcome.valid, outcome.attempts, outcome.solved)
    return Match(*paired, outcome.counted, won, *counts, _imbalance(state, pair, before))


def _imbalance(state: State, pair: Pair, before: Mapping[str, Rating]) -> float | None:
    """Movement of the mean that a match should keep, by the weights of the league's scheme."""
    names, config = (pair.teacher, pair.student), state.config
    if any(len(state.open_pairs.get(name, ())) != 1 for name in names):
        return None  # it met several others, or it is frozen
    if config.scheme not in ("batch", "elo"):
        return None  # nothing is kept
    variances = [before[name].sigma ** 2 + config.tau**2 for name in names]
    weights = [1.0 / x if config.scheme == "batch" else 1.0 for x in variances]
    moved = [
        weight * (state.members[name].rating.mu - before[name].mu)
        for weight, name in zip(weights, names, strict=True)
    ]
    return sum(moved) / sum(weights)


def _ratings(state: State) -> dict[str, Rating]:
    return {member.name: member.rating for member in state.members.values() if member.alive}


def _lives(state: State) -> tuple[Life, ...]:
    ended = {r.member: r.rounds for r in state.replacements}
    births = {r.child: (r.weights, r.offset) for r in state.replacements}
    lives = []
    for m in state.members.values():
        weights, offset = births.get(m.name, ((1.0,) * len(m.parents), 0.0))
        first = (m.name, m.role, m.slot, m.born, ended.get(m.name), m.rating)
        lives.append(Life(*first, m.parents, weights, m.operator, m.anchor, offset))
    return tuple(lives)
