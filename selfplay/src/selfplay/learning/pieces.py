"""How the work of a phase is cut into pieces, and pieces among workers.

A piece holds rows of one member that are sampled, or learned from, in batches of their own. Its
result does not depend on other pieces, so any number of workers gives the same bytes.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate, pairwise

SMALL_ROWS, GOOD_ROWS = 12, 80
"""Fewest rows of a piece if there are two pieces, and if there are more: on the built-in model the
fixed cost of a batch is that of 40 rows."""


def even(count: int) -> int:
    """Return the largest power of two up to a count, at least 1: it divides well among workers."""
    return 1 << (max(1, count).bit_length() - 1)


def batches(rows: int, good: int | None = None) -> int:
    """Return the number of batches for so many rows.

    good: number of batches of a good size, by default `GOOD_ROWS`.
    """
    return max(min(2, rows // SMALL_ROWS), rows // GOOD_ROWS if good is None else good)


def grouped(keys: Iterable[Hashable]) -> list[list[int]]:
    """Return the places of each different key."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    return list(places.values())


def deal(keys: Sequence[Hashable], count: int) -> list[list[int]]:
    """Divide the indices of keys into `count` parts of about equal size; equal keys stay together.

    Empty parts are left out.
    """
    parts: list[list[int]] = [[] for _ in range(count)]
    for indices in grouped(keys):
        min(parts, key=len).extend(indices)
    return [part for part in parts if part]


def blocks(weights: Sequence[int], workers: int) -> list[range]:
    """Divide pieces into one block of neighbours for each worker, of about equal total weight."""
    total, before, ends = sum(weights) or 1, 0, [0] * workers
    for number, weight in enumerate(weights):
        middle = 2 * before + weight
        ends[min(workers - 1, middle * workers // (2 * total))] = number + 1
        before += weight
    return [range(*pair) for pair in pairwise((0, *accumulate(ends, max)))]
