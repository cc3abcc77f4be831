"""Who works for whom: members over workers, and the base's rows over all of them."""

from collections.abc import Sequence
from typing import TypeVar

from evals.engine.rollout import TokenRequest

T = TypeVar("T")


def dealt(places: int, workers: int) -> list[tuple[int, ...]]:
    """Deal places to workers in turn, so that each gets as many of every role."""
    return [tuple(range(first, places, workers)) for first in range(workers)]


def base_batches(requests: Sequence[TokenRequest], max_rows: int) -> list[list[int]]:
    """Cut the base's requests, by index, as an engine in a single process would."""
    mine = [i for i, request in enumerate(requests) if request.adapter is None]
    mine.sort(key=lambda i: (len(requests[i].prompt_ids), requests[i].prompt_ids))
    return [mine[start : start + max_rows] for start in range(0, len(mine), max_rows)]
