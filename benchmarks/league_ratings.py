"""Matches rated per second against the `trueskill` package, in one run.

    python benchmarks/league_ratings.py [--seconds 0.5] [--tasks 16]

One match rates both of its members. A match of --tasks tasks is that many games to `trueskill`.
--seconds are for each figure.
"""

import time
from collections.abc import Callable

import numpy as np
import trueskill
from benchmarking import parser, show

from league import Rating, RatingModel, rate_matches


def per_second(work: Callable[[], object], matches: int, seconds: float) -> float:
    """Return matches per second: the best of three runs."""
    best = 0.0
    for _ in range(3):
        count, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds / 3 or not count:
            work()
            count += matches
        best = max(best, count / spent)
    return best


def before(matches: int) -> list[list[Rating]]:
    """Return the ratings of the teachers and of the students."""
    rng = np.random.default_rng(matches)
    mu, sigma = rng.normal(25, 5, (2, matches)), rng.uniform(1, 8, (2, matches))
    return [list(map(Rating, *side)) for side in zip(mu.tolist(), sigma.tolist(), strict=True)]


def ours(matches: int, tasks: int) -> Callable[[], object]:
    teachers, students = before(matches)
    score = np.random.default_rng(1).integers(0, tasks + 1, matches) / tasks
    weight = np.full(matches, float(tasks))
    model = RatingModel()
    return lambda: rate_matches(teachers, students, score, weight, model)


def theirs(matches: int, tasks: int) -> Callable[[], object]:
    environment = trueskill.TrueSkill(draw_probability=0.0)
    pairs = [
        [environment.create_rating(rating.mu, rating.sigma) for rating in pair]
        for pair in zip(*before(matches), strict=True)
    ]

    def work() -> None:
        for pair in pairs:
            for game in range(tasks):
                trueskill.rate_1vs1(*pair[:: 1 if game % 2 else -1], env=environment)

    return work


def main() -> None:
    args = parser(__doc__, seconds=0.5, tasks=16).parse_args()
    rows = []
    for tasks in (1, args.tasks):
        speeds = {"trueskill": per_second(theirs(8, tasks), 8, args.seconds)}
        for n in (1, 4, 64, 5000):
            speeds[str(n)] = per_second(ours(n, tasks), n, args.seconds)
        for name, speed in speeds.items():
            row = {"tasks": tasks, "at once": name, "matches/s": speed}
            rows.append(row | {"times": speed / speeds["trueskill"]})
    show(rows)


if __name__ == "__main__":
    main()
