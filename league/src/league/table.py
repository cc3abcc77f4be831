"""Ratings of a table of results, without a league.

A row names two members and the result of their match. Columns: `teacher` and `student`, or `member`
and `opponent`; a name is one member in whichever column it is. The result is one of

* `outcome`: the share that the student (or the member) won, from 0 to 1; 1 is a win. In Python it
  may also be an `Outcome`;
* `solved` and `attempts`: solved of attempts is that share.

`tasks` is how many independent tasks the row rests on: without it 1, or with `attempts` as many as
these. Give it where several attempts share a task.
"""

import csv
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from league.config import LeagueConfig
from league.errors import LeagueError
from league.ratings import Rating, lower_bound, rate_series
from league.state import Outcome


@dataclass(frozen=True)
class RatedMember:
    """One member of a table of results.

    - lower_bound: mu - 3 sigma (TrueSkill's `expose`).
    """

    member: str
    mu: float
    sigma: float
    lower_bound: float
    matches: int


def rate(
    rows: Iterable[Mapping[str, Any]], config: LeagueConfig | None = None
) -> list[RatedMember]:
    """Return the ratings of all members in a table of results, best `lower_bound` first.

    rows: dicts, as of `csv.DictReader` or `DataFrame.to_dict("records")`, with the columns of this
    module. They are rated one after the other as a league would rate them: skills may change by tau
    between matches, and a row counts as at most `max_weight` tasks. config: other values of mu,
    sigma, beta, tau, evidence or max_weight.

    Raises LeagueError with the number of a row that makes no sense.

        >>> rows = [{"member": "a", "opponent": "b", "outcome": 1}] * 3
        >>> [(row.member, round(row.mu, 1)) for row in rate(rows)]
        [('a', 32.0), ('b', 18.0)]
    """
    config = config or LeagueConfig()
    matches = [_match(row, number) for number, row in enumerate(rows, 1)]
    names = [(teacher, student) for teacher, student, _, _ in matches]
    share = np.array([match[2] for match in matches])
    weight = np.minimum([match[3] * config.evidence for match in matches], config.max_weight)
    ratings = {name: Rating(config.mu, config.sigma) for pair in names for name in pair}
    rate_series(ratings, names, share, weight, config.model)
    played = Counter(name for pair in names for name in pair)
    standings = [
        RatedMember(name, r.mu, r.sigma, lower_bound(r, config.model), played[name])
        for name, r in ratings.items()
    ]
    return sorted(standings, key=lambda row: -row.lower_bound)


def read_rows(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the rows of a CSV or JSON Lines file (`.jsonl`) for `rate`."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        rows: list[Any] = (
            [json.loads(line) for line in lines if line.strip()]
            if Path(path).suffix == ".jsonl"
            else list(csv.DictReader(lines))
        )
    except (OSError, ValueError) as error:
        raise LeagueError(f"cannot read {path}: {error}") from error
    if not all(isinstance(row, dict) for row in rows):
        raise LeagueError(f"cannot read {path}: expected a JSON object in each line")
    if not rows:
        raise LeagueError(f"{path} holds no rows; expected the result of a match in each")
    return rows


def _match(row: Mapping[str, Any], number: int) -> tuple[str, str, float, float]:
    """Return (teacher, student, the student's share, how many tasks) of a row."""
    try:
        teacher, student = _names(row)
        outcome = row.get("outcome")
        if isinstance(outcome, Outcome):
            return teacher, student, outcome.student_score, float(outcome.counted)
        default = 1.0
        if outcome in (None, ""):
            solved, default = float(row["solved"]), float(row["attempts"])
            if not 0.0 <= solved <= default:
                raise ValueError(f"solved {solved:g} of {default:g} attempts")
            outcome = solved / default if default else 0.5
        share = float(outcome)
        tasks = float(row["tasks"]) if row.get("tasks") not in (None, "") else default
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"the outcome is {share:g}; expected a number from 0 to 1")
        if not 0.0 <= tasks < math.inf:
            raise ValueError(f"tasks is {tasks:g}; expected a number >= 0")
    except KeyError as error:
        raise LeagueError(
            f"row {number} has no {error}; expected outcome, or solved and attempts"
        ) from None
    except (TypeError, ValueError) as error:
        raise LeagueError(f"row {number}: {error}") from error
    return teacher, student, share, tasks


def _names(row: Mapping[str, Any]) -> tuple[str, str]:
    for first, second in (("teacher", "student"), ("opponent", "member")):
        if row.get(first) and row.get(second):
            names = str(row[first]), str(row[second])
            if names[0] == names[1]:
                raise ValueError(f"{names[0]} plays itself")
            return names
    columns = ", ".join(str(name) for name in list(row)[:8]) or "nothing"
    raise ValueError(
        f"expected the columns teacher and student, or member and opponent; found {columns}"
    )
