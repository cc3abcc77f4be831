"""Updates per second of the rating schemes, beside `trueskill` and `openskill`, in one run.

    python tests/benchmarks/league_ratings.py [--seconds 0.5] [--tasks 16]

One update is one match rated for both of its members. `single game` matches have one task;
`fractional` ones have --tasks, which the two packages can only take as so many games. openskill
is left out where it is not installed. Nothing is asserted: a busy machine is slower.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import trueskill

from league.rating.rating import RatingModel, Skills
from league.rating.schemes import Batch, Elo, WengLin

MODEL = RatingModel()


def sides(matches: int) -> tuple[Skills, Skills]:
    rng = np.random.default_rng(matches)
    return tuple(Skills(rng.normal(25, 5, matches), rng.uniform(1, 8, matches)) for _ in range(2))  # type: ignore[return-value]


def rate(once: Callable[[], int], seconds: float) -> float:
    """Return updates per second: the best of three runs of at least a third of the time."""
    best = 0.0
    for _ in range(3):
        done, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds / 3 or not done:
            done += once()
        spent = time.perf_counter() - start
        best = max(best, done / spent)
    return best


def ours(scheme: Any, matches: int, tasks: int) -> Callable[[], int]:
    teachers, students = sides(matches)
    rng = np.random.default_rng(1)
    score = rng.integers(0, tasks + 1, matches) / tasks
    weight = np.full(matches, float(tasks))

    def once() -> int:
        scheme.update(teachers, students, score, weight)
        return matches

    return once


def games(create: Callable[..., Any], play: Callable[..., Any], tasks: int) -> Callable[[], int]:
    teachers, students = (s.ratings() for s in sides(8))
    pairs = [
        (create(t.mu, t.sigma), create(s.mu, s.sigma))
        for t, s in zip(teachers, students, strict=True)
    ]

    def once() -> int:
        for a, b in pairs:
            for game in range(tasks):
                a, b = play(a, b, game % 2)
        return len(pairs)

    return once


def packages(tasks: int) -> dict[str, Callable[[], int]]:
    env = trueskill.TrueSkill(draw_probability=0.0)

    def one(a: Any, b: Any, lost: int) -> tuple[Any, Any]:
        (a,), (b,) = env.rate([(a,), (b,)], ranks=[lost, 1 - lost])
        return a, b

    found = {"trueskill": games(env.create_rating, one, tasks)}
    try:
        from openskill.models import BradleyTerryFull
    except ImportError:
        return found
    model = BradleyTerryFull()

    def other(a: Any, b: Any, lost: int) -> tuple[Any, Any]:
        (a,), (b,) = model.rate([[a], [b]], ranks=[lost, 1 - lost])
        return a, b

    create = lambda mu, sigma: model.rating(mu=mu, sigma=sigma)  # noqa: E731
    return found | {"openskill": games(create, other, tasks)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    parser.add_argument("--tasks", type=int, default=16, help="tasks of a fractional match")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    for kind, tasks in (("single game", 1), ("fractional", given.tasks)):
        peers = {name: rate(once, given.seconds) for name, once in packages(tasks).items()}
        rows += [{"match": kind, "rater": n, "batch": 1, "per second": r} for n, r in peers.items()]
        for name, scheme in (
            ("batch", Batch(MODEL)),
            ("weng_lin", WengLin(MODEL)),
            ("elo", Elo(MODEL, 0.67)),
        ):
            for matches in (1, 4, 64, 5000):
                speed = rate(ours(scheme, matches, tasks), given.seconds)
                row = {"match": kind, "rater": name, "batch": matches, "per second": speed}
                rows.append(row | {f"x {peer}": speed / slow for peer, slow in peers.items()})
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        ratios = "".join(f"  {v:9.1f} {k}" for k, v in row.items() if k.startswith("x "))
        print(
            f"{row['match']:12} {row['rater']:10} {row['batch']:>6} "
            f"{row['per second']:>12,.0f}/s{ratios}"
        )


if __name__ == "__main__":
    main()
