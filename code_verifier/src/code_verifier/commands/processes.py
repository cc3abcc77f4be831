"""Ordered mapping over processes, for work that only the interpreter does."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

from code_verifier.errors import CodeVerifierError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_ALONE = 1000
_CHUNK = 128
_AHEAD = 3


def process_map(
    function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int
) -> Iterator[_Result]:
    """`map(function, items)` by `workers` processes, results in the order of the items.

    The first 1000 items are done here, so a small job starts no process. Then at most 384 items
    per worker are read ahead. The function must be picklable and must not raise; an exception of
    the iterable arrives at its place in the order. The workers end with this process.
    """
    iterator = iter(items)
    for item in iterator if workers == 1 else islice(iterator, _ALONE):
        yield function(item)
    chunk, end = _chunk(iterator)
    if not chunk:
        if end is not None:
            raise end
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare) as executor:
        pending: deque[Future[list[_Result]]] = deque()
        try:
            while True:
                while chunk and len(pending) < _AHEAD * workers:
                    pending.append(executor.submit(_each, function, chunk))
                    chunk, end = _chunk(iterator) if end is None else ([], end)
                if not pending:
                    break
                yield from pending.popleft().result()
        except BrokenProcessPool:
            raise CodeVerifierError(
                "a worker process was ended from outside, perhaps for want of memory; "
                "try again with --workers 1"
            ) from None
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
    if end is not None:
        raise end


def _chunk(iterator: Iterator[_Item]) -> tuple[list[_Item], Exception | None]:
    """The next items, and what the iterator raised after them."""
    chunk: list[_Item] = []
    try:
        for item in islice(iterator, _CHUNK):
            chunk.append(item)
    except Exception as error:
        return chunk, error
    return chunk, None


def _each(function: Callable[[_Item], _Result], items: list[_Item]) -> list[_Result]:
    return [function(item) for item in items]


def _prepare() -> None:
    """Leave Ctrl-C to the parent, and end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: "multiprocessing.process.BaseProcess") -> None:
    parent.join()
    os._exit(1)
