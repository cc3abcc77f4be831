"""Ratings of a table of results, without a league.

A row names two members and the result of their match. Columns: `teacher` and `student`, or `member`
and `opponent`; a name is one member in whichever column it is, numbers are names as they are
written, and spaces around a name do not count. The result is one of

* `outcome`: the share that the student (or the member) won, from 0 to 1; 1 is a win, one half a
  draw. In Python it may also be an `Outcome`;
* `solved` and `attempts`: the share is solved / attempts.

`tasks` is the number of independent tasks in the row; by default 1, or with `attempts` their
number. Set it if several attempts share a task. An empty cell, None and NaN count as missing.
"""

import csv
import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np

from league.config import LeagueConfig
from league.errors import LeagueError
from league.ratings import Floats, GapProblem, Rating, RatingModel, lower_bound
from league.state import Outcome


@dataclass(frozen=True)
class RatedMember:
    """One member of a table of results.

    - sigma: the standard deviation of its skill; most of it is uncertainty about the level of all
      together, so compare two members by their gap.
    - lower_bound: mu - 3 sigma.
    - behind: the first row's mu minus its mu.
    - behind_sigma: the standard deviation of that gap.
    """

    member: str
    mu: float
    sigma: float
    lower_bound: float
    matches: int
    behind: float
    behind_sigma: float


def rate(
    rows: Iterable[Mapping[str, Any]], config: LeagueConfig | None = None
) -> list[RatedMember]:
    """Return the ratings of all members in a table of results, best `lower_bound` first.

    rows: dicts, as from `csv.DictReader` or `DataFrame.to_dict("records")`, with the columns of
    this module. A table has no time: skills do not change, and one fit takes all rows together; any
    order gives the same bits. mu is the maximum of the posterior, sigma follows from its curvature.
    config: other values of mu, sigma, beta or evidence.

    Raises LeagueError with the number of a row that makes no sense.

        >>> rows = [{"member": "a", "opponent": "b", "outcome": 1}] * 3
        >>> [(row.member, round(row.mu, 1)) for row in rate(rows)]
        [('a', 29.6), ('b', 20.4)]
    """
    config = config or LeagueConfig()
    matches = [_match(row, number) for number, row in enumerate(rows, 1)]
    if not matches:
        return []
    played = Counter(name for match in matches for name in match[:2])
    weight = config.evidence
    results = ((one, two, weight * won, weight * lost) for one, two, won, lost in matches)
    names, mu, covariance = _fit(results, config.model)
    sigma = covariance.diagonal() ** 0.5
    order = sorted(range(len(names)), key=lambda i: (3.0 * sigma[i] - mu[i], names[i]))
    gap_variance = sigma**2 + sigma[order[0]] ** 2 - 2.0 * covariance[order[0]]
    return [
        RatedMember(
            names[i],
            float(mu[i]),
            float(sigma[i]),
            lower_bound(Rating(float(mu[i]), float(sigma[i]))),
            played[names[i]],
            behind=float(mu[order[0]] - mu[i]),
            behind_sigma=math.sqrt(gap_variance[i]) if i != order[0] else 0.0,
        )
        for i in order
    ]


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
    """Return the student and the teacher of a row, and how many tasks each of them won."""
    try:
        teacher, student = _names(row)
        outcome: Any = _given(row, "outcome")
        tasks: Any = _given(row, "tasks")
        if isinstance(outcome, Outcome):
            outcome, tasks = outcome.student_score, outcome.counted
        if outcome is None:
            solved, attempts = _given(row, "solved"), _given(row, "attempts")
            if solved is None or attempts is None:
                raise ValueError("it has no result; expected outcome, or solved and attempts")
            tasks = attempts if tasks is None else tasks
            if not 0.0 <= float(solved) <= float(attempts):
                raise ValueError(f"solved {solved} of {attempts} attempts")
            outcome = float(solved) / float(attempts) if float(attempts) else 0.5
        share, count = float(outcome), 1.0 if tasks is None else float(tasks)
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"the outcome is {outcome}; expected a number from 0 to 1")
        if not 0.0 <= count < math.inf:
            raise ValueError(f"tasks is {count:g}; expected a number >= 0")
    except (TypeError, ValueError) as error:
        raise LeagueError(f"row {number}: {error}") from error
    return student, teacher, count * share, count - count * share


def _names(row: Mapping[str, Any]) -> tuple[str, str]:
    columns = ("teacher", "student", "opponent", "member")
    for first, second in (columns[:2], columns[2:]):
        one, two = _given(row, first), _given(row, second)
        if one is not None and two is not None:
            if _name(one) == _name(two):
                raise ValueError(f"{_name(one)} plays itself")
            return _name(one), _name(two)
    cells = [f"{name} {row[name]!r}" for name in columns if name in row]
    cells = cells or [str(name) for name in list(row)[:8]] or ["nothing"]
    raise ValueError(
        f"expected names in teacher and student, or member and opponent; found {', '.join(cells)}"
    )


def _name(value: object) -> str:
    """Return the name in a cell; a whole number is the same as an int and as a float."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _given(row: Mapping[str, Any], column: str) -> Any:
    """Return a cell, without spaces around a text; None if it is empty, None or NaN."""
    value = row.get(column)
    if isinstance(value, str):
        return value.strip() or None
    return None if str(value) in ("None", "nan", "NaN", "NaT", "<NA>") else value


def _won(results: Iterable[tuple[str, str, float, float]]) -> dict[tuple[str, str], float]:
    """Return how many tasks the first of each pair won against the second, of both orders.

    Each sum is rounded once, so that equal results in another order give the same bits.
    """
    tasks: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one, two, first, second in results:
        tasks[one, two].append(first)
        tasks[two, one].append(second)
    return {pair: fsum(counts) for pair, counts in tasks.items()}


_FIT_STEPS = 200
_SETTLED = 1e-10  # of a newcomer's sigma


def _fit(
    results: Iterable[tuple[str, str, float, float]], model: RatingModel
) -> tuple[list[str], Floats, Floats]:
    """Return the names in order, their skills, shape [n], and the covariance, shape [n, n].

    results: two names, and how many tasks the first and the second won. Skills have the prior of
    newcomers, independent of each other, and results the likelihood of `league.ratings`. The log
    posterior is strictly concave; Newton's method finds its maximum, and the inverse of its
    curvature there is the covariance (Laplace's approximation). Takes n³ time and n² memory.
    """
    won = _won(results)
    names = sorted({name for pair in won for name in pair})
    at = {name: i for i, name in enumerate(names)}
    pairs = sorted(pair for pair in won if pair[0] < pair[1])
    low, high = (np.array([at[pair[i]] for pair in pairs], dtype=np.int64) for i in (0, 1))
    gaps = GapProblem(
        mean=np.zeros(len(pairs)),
        variance=np.full(len(pairs), np.inf),  # the prior is on skills
        won=np.array([won[pair[::-1]] for pair in pairs]),
        lost=np.array([won[pair] for pair in pairs]),
        scale=model.performance_scale,
    )

    def at_skills(skills: Floats) -> tuple[float, Floats, Floats]:
        """The log posterior up to a constant, its slope and its negative curvature."""
        value, slope, curve = gaps.derivatives(skills[high] - skills[low])
        away = skills - model.mu
        gradient = -away / model.sigma**2
        np.add.at(gradient, high, slope)
        np.add.at(gradient, low, -slope)
        precision = np.eye(len(names)) / model.sigma**2
        for one, other in ((low, high), (high, low)):
            np.add.at(precision, (one, one), -curve)
            precision[one, other] = curve
        return fsum(value) - 0.5 * fsum(away**2) / model.sigma**2, gradient, precision

    skills: Floats = np.full(len(names), model.mu)
    value, gradient, precision = at_skills(skills)
    for _ in range(_FIT_STEPS):
        step = np.linalg.solve(precision, gradient)
        if np.abs(step).max() <= _SETTLED * model.sigma:
            break
        after = at_skills(skills + step)
        while after[0] < value - _SETTLED * (1.0 + abs(value)):
            step = step / 2.0
            after = at_skills(skills + step)
        skills = skills + step
        value, gradient, precision = after
    return names, skills, np.asarray(np.linalg.inv(precision), dtype=np.float64)
