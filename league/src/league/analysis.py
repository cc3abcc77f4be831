"""Analysis of a league: its history as tables, and how sure the ranks of its members are."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from league.events import apply, results
from league.league import League
from league.probability import stream
from league.selection import Standing
from league.state import State
from league.store import EVENTS, read_events

Columns: TypeAlias = dict[str, list[Any]]
"""A table: equally long lists by name, as `pandas.DataFrame` and `polars.DataFrame` take it."""

SAMPLES = 200
"""At most about so many points in time are kept of a long history."""

_MEMBERS = (
    *("name", "role", "slot", "born", "ended", "parents", "weights"),
    *("operator", "anchor", "offset", "mu", "sigma"),
)
_MATCHES = (
    *("round", "teacher", "student", "predicted", "uncertainty"),
    *("counted", "won", "valid", "attempts", "solved", "unsolved"),
)
_RATINGS = ("round", "member", "role", "mu", "sigma")


@dataclass(frozen=True)
class LeagueTables:
    """What happened in a league; docs/reference.md says what each column is."""

    members: Columns
    """A row for each member that ever was, anchors too."""
    matches: Columns
    """A row for each recorded match, in order."""
    ratings: Columns
    """A row for each point in time and member alive; about 200 points of a long league."""


def read_league(directory: str | os.PathLike[str]) -> LeagueTables:
    """Return the history of a league, also while it is written. Raises LeagueError if damaged."""
    with League(directory, read_only=True) as league:
        return tables(league)


def tables(league: League) -> LeagueTables:
    """Return the history of an open league, from its log."""
    every = max(1, math.ceil(len(league.state.rounds) / SAMPLES))
    state = State(league.config)
    matches: list[tuple[Any, ...]] = []
    uncertainty: dict[str, float] = {}
    ratings: list[tuple[Any, ...]] = []
    for event in read_events(league.directory / EVENTS, league.byte_length):
        paired = event.get("event") == "round_paired"
        if paired and len(state.rounds) % every == 0:
            ratings += _ratings(state)
        apply(state, event)
        if paired:
            for pair_id in state.rounds[event["round"]]:
                names = state.pairs[pair_id].teacher, state.pairs[pair_id].student
                uncertainty[pair_id] = math.hypot(*(state.members[n].rating.sigma for n in names))
        for pair_id, outcome in results(event):
            pair = state.pairs[pair_id]
            won = outcome.counted * outcome.student_score
            matches.append(
                (
                    *(pair.round, pair.teacher, pair.student, pair.predicted, uncertainty[pair_id]),
                    *(outcome.counted, won, outcome.valid, outcome.attempts),
                    *(outcome.solved, outcome.unsolved),
                )
            )
    ratings += _ratings(state)
    return LeagueTables(
        members=_columns(_members(state), _MEMBERS),
        matches=_columns(matches, _MATCHES),
        ratings=_columns(ratings, _RATINGS),
    )


def _ratings(state: State) -> list[tuple[Any, ...]]:
    alive = (member for member in state.members.values() if member.alive)
    return [(len(state.rounds), m.name, m.role, m.rating.mu, m.rating.sigma) for m in alive]


def _members(state: State) -> Iterable[tuple[Any, ...]]:
    ended = {r.member: r.rounds for r in state.replacements}
    births = {r.child: (list(r.weights), r.offset) for r in state.replacements}
    for m in state.members.values():
        weights, offset = births.get(m.name, ([1.0] * len(m.parents), 0.0))
        yield (
            *(m.name, m.role, m.slot, m.born, ended.get(m.name), list(m.parents), weights),
            *(m.operator, m.anchor, offset, m.rating.mu, m.rating.sigma),
        )


def _columns(rows: Iterable[tuple[Any, ...]], names: Sequence[str]) -> Columns:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


@dataclass(frozen=True)
class RankInterval:
    """Places of one member among the members of its role, 1 is best."""

    rank: int
    """Its place by mu."""
    low: int
    """The best place within the 95 % interval."""
    high: int
    """The worst such place."""
    best: float
    """The probability that it is the best of all."""


def rank_intervals(
    board: Sequence[Standing], *, seed: int = 0, draws: int = 2000
) -> dict[str, RankInterval]:
    """Return the rank interval of each member of a leaderboard, by name.

    Skills are drawn `draws` times from their normal beliefs, which are taken as independent, and
    ranked each time; the interval runs from the 2.5 % to the 97.5 % quantile of the ranks. It is
    about the skills, and not about the lower bound mu - 3 sigma that a board may be sorted by.
    """
    rows = sorted(board, key=lambda row: row.member)  # so that the order has no effect
    mu = np.array([row.mu for row in rows])
    sigma = np.array([row.sigma for row in rows])
    drawn = mu + sigma * stream(seed, "ranks").standard_normal((draws, mu.size))
    ranks = 1 + np.argsort(np.argsort(-drawn, axis=1), axis=1)
    low, high = np.quantile(ranks, (0.025, 0.975), axis=0, method="inverted_cdf").tolist()
    own = 1 + np.argsort(np.argsort(-mu, kind="stable"))
    first = (ranks == 1).mean(axis=0).tolist()
    found = zip(own.tolist(), low, high, first, strict=True)
    return {row.member: RankInterval(*values) for row, values in zip(rows, found, strict=True)}
