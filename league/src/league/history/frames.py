"""A league's history as tables for a notebook: columns that pandas, polars and Arrow read."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from league.history.history import History, Life, Match, history
from league.league import League

Columns: TypeAlias = dict[str, list[Any]]
"""A table: equally long lists by name, as `pandas.DataFrame` and `polars.DataFrame` take it."""


@dataclass(frozen=True)
class LeagueFrames:
    """What happened in a league; docs/frames.md says what each column is."""

    members: Columns
    """A row a member that ever was, anchors too."""
    matches: Columns
    """A row a recorded match, in order."""
    ratings: Columns
    """A row a point in time and member that lived then; of a long league about 200 points."""


def read_league(directory: str | os.PathLike[str]) -> LeagueFrames:
    """Read a league beside whoever writes it. Raises LeagueError when it is none, or damaged."""
    with League(directory, read_only=True) as opened:
        return frames(history(opened))


def frames(past: History) -> LeagueFrames:
    """Return a history as tables."""
    members = [{**asdict(life), **asdict(life.rating)} for life in past.lives]
    ratings = [
        {"round": past.sampled[i], "member": past.lives[j].name, "mu": mu, "sigma": sigma}
        for i, j in zip(*np.nonzero(~np.isnan(past.mu)), strict=True)
        for mu, sigma in [(float(past.mu[i, j]), float(past.sigma[i, j]))]
    ]
    names = [field.name for field in fields(Life) if field.name != "rating"]
    return LeagueFrames(
        members=_columns(members, (*names, "mu", "sigma")),
        matches=_columns(map(asdict, past.matches), [field.name for field in fields(Match)]),
        ratings=_columns(ratings, ("round", "member", "mu", "sigma")),
    )


def _columns(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Columns:
    plain = list(rows)
    return {
        name: [list(v) if isinstance(v := row[name], tuple) else v for row in plain]
        for name in names
    }
