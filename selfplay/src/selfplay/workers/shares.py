"""Who works for whom: members over workers, and the base's rows over all of them."""

from collections.abc import Sequence

from evals.engine.rollout import TokenRequest


def dealt(places: int, workers: int) -> list[tuple[int, ...]]:
    """Deal places to workers in turn, so that each gets as many of every role."""
    return [tuple(range(first, places, workers)) for first in range(workers)]


def base_batches(requests: Sequence[TokenRequest], max_rows: int) -> list[list[int]]:
    """Cut the base's requests, by index, as an engine in a single process would."""

    def size(i: int) -> tuple[int, tuple[int, ...]]:
        return len(requests[i].prompt_ids), requests[i].prompt_ids

    order = sorted(range(len(requests)), key=size)
    return [order[start : start + max_rows] for start in range(0, len(order), max_rows)]
