"""Matches rated per second against the `trueskill` package, in one run.

    python tests/benchmarks/league_ratings.py [--seconds 0.5] [--tasks 16]

One match rates both of its members. A match of --tasks tasks is that many games to `trueskill`.
"""

import time
from collections.abc import Callable

import numpy as np
import trueskill
from benchmarking import parser, show

from league.posterior import rate_columns
from league.ratings import RatingModel, Skills


def per_second(once: Callable[[], int], seconds: float) -> float:
    """Return matches per second: the best of three runs."""
    best = 0.0
    for _ in range(3):
        done, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds / 3 or not done:
            done += once()
        best = max(best, done / spent)
    return best


def sides(matches: int) -> tuple[Skills, Skills]:
    rng = np.random.default_rng(matches)
    first, second = (
        Skills(rng.normal(25, 5, matches), rng.uniform(1, 8, matches)) for _ in range(2)
    )
    return first, second


def ours(matches: int, tasks: int) -> Callable[[], int]:
    teachers, students = sides(matches)
    score = np.random.default_rng(1).integers(0, tasks + 1, matches) / tasks
    weight = np.full(matches, float(tasks))

    def once() -> int:
        rate_columns(teachers, students, score, weight, RatingModel())
        return matches

    return once


def theirs(tasks: int) -> Callable[[], int]:
    environment = trueskill.TrueSkill(draw_probability=0.0)
    teachers, students = (
        [environment.create_rating(r.mu, r.sigma) for r in s.ratings()] for s in sides(8)
    )

    def once() -> int:
        for teacher, student in zip(teachers, students, strict=True):
            for game in range(tasks):
                winner, loser = (teacher, student) if game % 2 else (student, teacher)
                trueskill.rate_1vs1(winner, loser, env=environment)
        return len(teachers)

    return once


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    options.add_argument("--tasks", type=int, default=16, help="tasks of a match")
    given = options.parse_args()
    rows = []
    for tasks in (1, given.tasks):
        peer = per_second(theirs(tasks), given.seconds)
        speeds = {n: per_second(ours(n, tasks), given.seconds) for n in (1, 4, 64, 5000)}
        for name, speed in ({"trueskill": peer} | speeds).items():
            rows.append(
                {"tasks": tasks, "at once": name, "matches/s": speed, "times": speed / peer}
            )
    show(rows)


if __name__ == "__main__":
    main()
