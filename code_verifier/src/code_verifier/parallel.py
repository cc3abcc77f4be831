"""Ordered, lazy, parallel mapping with bounded memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_AHEAD = 8


def ordered_map(
    function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int
) -> Iterator[_Result]:
    """`map(function, items)` by `workers` threads, results in the order of the items.

    Reads at most `8 * workers` items ahead of the result last taken. An exception of `function`
    or of the iterable arrives at its place in the order. Leaving early cancels what has not
    begun.
    """
    executor = ThreadPoolExecutor(workers, thread_name_prefix="code-verifier")
    pending: deque[Future[_Result]] = deque()
    failure: BaseException | None = None
    iterator = iter(items)
    try:
        while True:
            while failure is None and len(pending) < _AHEAD * workers:
                try:
                    item = next(iterator)
                except StopIteration:
                    failure = StopIteration()
                except Exception as error:
                    failure = error
                else:
                    pending.append(executor.submit(function, item))
            if not pending:
                break
            yield pending.popleft().result()
        if failure is not None and not isinstance(failure, StopIteration):
            raise failure
    finally:
        for future in pending:
            future.cancel()
        executor.shutdown(wait=True, cancel_futures=True)
