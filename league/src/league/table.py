"""Ratings of a table of results, without a league, and the cycles in it that no rating shows.

A row names two members and the result of their match in one of these forms:

* `teacher` and `student`, or `member` and `opponent`; with `outcome`, the share that the student
  (or the member) won, from 0 to 1: 1 is a win, one half a draw. In Python it may also be an
  `Outcome`. Or with `solved` and `attempts`: the share is solved / attempts;
* `winner` and `loser`; with `score`, the share that the winner won, from 0.5 (a draw) to 1, which
  is the default;
* `model_a` and `model_b`, as arenas publish votes; with `winner`, which is `model_a`, `model_b`,
  `tie` or `tie (bothbad)`. A tie is one half.

A name is one member in whichever column it is, numbers are names as they are written, and spaces
around a name do not count. `tasks` is the number of independent tasks in the row; by default 1, or
with `attempts` their number. Set it if several attempts share a task. An empty cell, None and NaN
count as missing.
"""

import csv
import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from math import fsum
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from league.config import LeagueConfig
from league.errors import LeagueError, check_number
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

    Raises LeagueError with the number of a row that makes no sense, or its line in a file.

        >>> rows = [{"member": "a", "opponent": "b", "outcome": 1}] * 3
        >>> [(row.member, round(row.mu, 1)) for row in rate(rows)]
        [('a', 29.6), ('b', 20.4)]
    """
    config = config or LeagueConfig()
    matches = list(_matches(rows))
    if not matches:
        return []
    played = Counter(name for match in matches for name in match[:2])
    weight = config.evidence
    results = ((one, two, weight * won, weight * lost) for one, two, won, lost in matches)
    names, mu, covariance = _fit(results, config.model)
    sigma = covariance.diagonal() ** 0.5
    ratings = list(map(Rating, mu.tolist(), sigma.tolist()))
    order = sorted(range(len(names)), key=lambda i: (-lower_bound(ratings[i]), names[i]))
    gap_variance = sigma**2 + sigma[order[0]] ** 2 - 2.0 * covariance[order[0]]
    return [
        RatedMember(
            *(names[i], ratings[i].mu, ratings[i].sigma, lower_bound(ratings[i])),
            played[names[i]],
            behind=ratings[order[0]].mu - ratings[i].mu,
            behind_sigma=math.sqrt(gap_variance[i]) if i != order[0] else 0.0,
        )
        for i in order
    ]


def find_cycle(rows: Iterable[Mapping[str, Any]]) -> list[str] | None:
    """Return members of whom each beats the next, and the last the first; None if there are none.

    rows: as for `rate`. One member beats another from whom it won more than half of their tasks.
    Ratings put all members into one order, so none can show a cycle. Of several it is a shortest
    one, and of these one whose narrowest win is the widest, in tasks won minus lost (Tideman 1987);
    it begins with the first name by alphabet, and any order of the rows gives the same.

        >>> find_cycle([{"winner": one, "loser": two} for one, two in ("ab", "ca", "bc", "ad")])
        ['a', 'b', 'c']
    """
    won = _won(_matches(rows))
    margins = {pair: count - won[pair[::-1]] for pair, count in won.items()}
    margins = {pair: margin for pair, margin in margins.items() if margin > _EVEN * won[pair]}
    cycle, least = tuple[str, ...](), 0.0
    while wider := _shortest_cycle(pair for pair in margins if margins[pair] > least):
        if cycle and len(wider) > len(cycle):
            break
        cycle, least = wider, min(margins[pair] for pair in pairwise([*wider, wider[0]]))
    first = cycle.index(min(cycle)) if cycle else 0
    return [*cycle[first:], *cycle[:first]] or None


_EVEN = 1e-9  # of the tasks; a narrower win is rounding


def _shortest_cycle(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return a shortest cycle among (winner, loser), or (), by a breadth-first search from each.

    Who was searched from is left out from then on; as those with the fewest wins are first, a graph
    without cycles takes little time.
    """
    beaten: dict[str, list[str]] = {}
    for one, two in sorted(pairs):
        beaten.setdefault(one, []).append(two)
    shortest = tuple[str, ...]()
    for start in sorted(beaten, key=lambda name: (len(beaten[name]), name)):
        paths: list[tuple[str, ...]] = [(start,)]
        ends: dict[str, tuple[str, ...]] = {}
        for path in paths:
            fresh = {two: (*path, two) for two in beaten.get(path[-1], ()) if two not in ends}
            paths += fresh.values()
            ends |= fresh
            if start in fresh:
                break
        del beaten[start]
        if start in ends and not 0 < len(shortest) < len(ends[start]):
            shortest = ends[start][1:]
        if len(shortest) == 3:
            break
    return shortest


class FileRow(dict[str, Any]):
    """A row that knows its place in a file."""

    place = ""


def read_rows(path: str | os.PathLike[str]) -> list[FileRow]:
    """Return the rows of a CSV or JSON Lines file (`.jsonl`) for `rate`, which names their lines.

    Raises LeagueError with the system's reason, or with the line that holds no row.
    """
    rows = []
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            is_json = Path(path).suffix == ".jsonl"
            for line, cells in _json_lines(file) if is_json else _csv_lines(file):
                rows.append(FileRow(cells))
                rows[-1].place = f"{path} line {line}"
    except (OSError, ValueError) as error:
        raise LeagueError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error
    if not rows:
        raise LeagueError(f"{path} holds no rows; expected the result of a match in each")
    return rows


def _json_lines(file: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                cells = json.loads(line)
            except (ValueError, RecursionError) as error:
                reason = str(error).replace("line 1 ", "")
                raise ValueError(f"line {number}: {reason}; expected a JSON object") from error
            if not isinstance(cells, dict):
                raise ValueError(f"line {number}: {line.strip():.40}; expected a JSON object")
            yield number, cells


def _csv_lines(file: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(file, strict=True)
    try:
        columns = reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        if twice := [name for name, count in Counter(columns).items() if name and count > 1]:
            raise ValueError(f"line 1: the column {twice[0]} is there twice; expected it once")
        for cells in reader:
            if any(more := cells.pop(None, [])):
                count = len(cells)
                fault = f"{count + len(more)} cells; expected {count}, as in the first line"
                raise ValueError(f"line {reader.line_num}: {fault}")
            yield reader.line_num, cells
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num + 1}: {error}; expected a row of CSV") from error


Match = tuple[str, str, float, float]
"""Two members, and how many tasks each of them won."""


def _matches(rows: Iterable[Mapping[str, Any]]) -> Iterator[Match]:
    """Yield the matches of a table, whose student (member, winner, model_a) is first."""
    for number, row in enumerate(rows, 1):
        try:
            one, two, first = _names(row)
            share, tasks = _result(row, first)
        except ValueError as error:
            place = row.place if isinstance(row, FileRow) else f"row {number}"
            raise LeagueError(f"{place}: {error}") from error
        yield one, two, tasks * share, tasks - tasks * share


_SIDES = ("student", "teacher"), ("member", "opponent"), ("winner", "loser"), ("model_a", "model_b")


def _names(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the names of a row, and the column of the first."""
    for first, second in _SIDES:
        one, two = _given(row, first), _given(row, second)
        if one is not None and two is not None:
            if _name(one) == _name(two):
                raise ValueError(f"{_name(one)} plays itself; expected two members")
            return _name(one), _name(two), first
    cells = [f"{name} {row[name]!r}" for name in chain(*_SIDES) if name in row]
    cells = cells or [str(name) for name in list(row)[:8]] or ["nothing"]
    raise ValueError(
        "expected names in teacher and student, member and opponent, winner and loser, or model_a "
        f"and model_b; found {', '.join(cells)}"
    )


_VOTES = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5, "tie (bothbad)": 0.5}


def _result(row: Mapping[str, Any], first: str) -> tuple[float, float]:
    """Return the share that the member in the column `first` won, and the number of tasks."""
    tasks = _number(row, "tasks")
    if first == "model_a":
        if (share := _VOTES.get(str(_given(row, "winner")))) is None:
            raise ValueError(
                f"winner is {row.get('winner')!r}; expected one of {', '.join(_VOTES)}"
            )
    elif first == "winner":
        share = _number(row, "score", 0.5, 1.0) or 1.0
    elif isinstance(outcome := _given(row, "outcome"), Outcome):
        share, tasks = outcome.student_score, float(outcome.counted)
    elif (share := _number(row, "outcome", most=1.0)) is None:
        attempts = _number(row, "attempts")
        if attempts is None or (solved := _number(row, "solved", most=attempts)) is None:
            raise ValueError("it has no result; expected outcome, or solved and attempts")
        share = solved / attempts if attempts else 0.5
        tasks = attempts if tasks is None else tasks
    tasks = 1.0 if tasks is None else tasks
    check_number("tasks", tasks, 0.0, 1e9)  # the fit of many more is rounding
    return share, tasks


def _number(
    row: Mapping[str, Any], column: str, least: float = 0.0, most: float = math.inf
) -> float | None:
    """Return the number in a cell; None if it is not given."""
    if (number := _given(row, column)) is None:
        return None
    with suppress(TypeError, ValueError, OverflowError):  # refused below, as it was found
        number = float(number)
    check_number(column, number, least, most)
    return float(number)


def _name(value: object) -> str:
    """Return the name in a cell; a whole number is the same as an int and as a float."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _given(row: Mapping[str, Any], column: str) -> Any:
    """Return a cell, without spaces around a text; None if it is empty, None or NaN."""
    value = row.get(column)
    if value is None or isinstance(value, str):
        return (value or "").strip() or None
    return None if str(value) in ("None", "nan", "NaN", "NaT", "<NA>") else value


def _won(results: Iterable[Match]) -> dict[tuple[str, str], float]:
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


def _fit(results: Iterable[Match], model: RatingModel) -> tuple[list[str], Floats, Floats]:
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
