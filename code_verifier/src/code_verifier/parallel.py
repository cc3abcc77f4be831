"""Ordered, lazy, parallel mapping with bounded memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_AHEAD = 8
_REMEMBERED = 4096


def ordered_map(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    workers: int,
    share: bool = False,
) -> Iterator[_Result]:
    """`map(function, items)` by `workers` threads, results in the order of the items.

    Reads at most `8 * workers` items ahead of the result last taken. An exception of `function`
    or of the iterable arrives at its place in the order. Leaving early cancels what has not
    begun. share: items are hashable, and equal ones among the last 4096 have one result.
    """
    executor = ThreadPoolExecutor(workers, thread_name_prefix="code-verifier")
    pending: deque[Future[_Result]] = deque()
    known: dict[_Item, Future[_Result]] = {}
    end: BaseException | None = None
    iterator = iter(items)
    try:
        while True:
            while end is None and len(pending) < _AHEAD * workers:
                try:
                    item = next(iterator)
                except Exception as error:
                    end = error
                    break
                future = known.get(item) if share else None
                if future is None:
                    future = executor.submit(function, item)
                    if share:
                        known[item] = future
                        if len(known) > _REMEMBERED:
                            del known[next(iter(known))]
                pending.append(future)
            if not pending:
                break
            yield pending.popleft().result()
        if end is not None and not isinstance(end, StopIteration):
            raise end
    finally:
        for future in pending:
            future.cancel()
        executor.shutdown(wait=True, cancel_futures=True)
