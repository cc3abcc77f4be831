"""How the work of a phase is cut into pieces, which do not depend on who does them.

A piece holds rows of one member, sampled or learned from without company: no bit of it depends on
other pieces, so any number of workers gives the same bytes.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence

SMALL_ROWS, GOOD_ROWS = 12, 80
"""Rows of each of two pieces, and of each of more, at least: what a batch costs whatever is in it
is that of 40 rows on the built-in model."""


def even(count: int) -> int:
    """Return the largest power of two, for halves of workers, that is not above; 1 or more."""
    return 1 << (max(1, count).bit_length() - 1)


def batches(rows: int, good: int | None = None) -> int:
    """Return in how many batches so many rows may well go; good: how many good ones they make."""
    return max(min(2, rows // SMALL_ROWS), rows // GOOD_ROWS if good is None else good)


def deal(keys: Sequence[Hashable], count: int) -> list[list[int]]:
    """Deal numbers to so many hands, the next to the emptiest; those of equal keys together."""
    equal: dict[Hashable, list[int]] = defaultdict(list)
    for number, key in enumerate(keys):
        equal[key].append(number)
    hands: list[list[int]] = [[] for _ in range(count)]
    for numbers in equal.values():
        min(hands, key=len).extend(numbers)
    return [hand for hand in hands if hand]


def blocks(weights: Sequence[int], workers: int) -> list[range]:
    """Give neighbouring pieces to each worker, so that the sums of weights are about equal."""
    total, before, ends = sum(weights) or 1, 0, [0] * workers
    for number, weight in enumerate(weights):
        middle = 2 * before + weight
        ends[min(workers - 1, middle * workers // (2 * total))] = number + 1
        before += weight
    for worker in range(1, workers):
        ends[worker] = max(ends[worker - 1], ends[worker])
    return [range(start, end) for start, end in zip((0, *ends), ends, strict=False)]
