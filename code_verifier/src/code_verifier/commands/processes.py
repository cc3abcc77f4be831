"""Ordered mapping over processes, for work that only the interpreter does."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

from code_verifier.errors import CodeVerifierError
from code_verifier.sandbox.parallel import ordered_map

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_INLINE = 1000
_CHUNK = 128


def process_map(
    function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int
) -> Iterator[_Result]:
    """`map(function, items)` by `workers` processes, results in the order of the items.

    The first 1000 items are done here, so a small job starts no process. Then at most 1024 items
    per worker are read ahead. The function must be picklable and must not raise; an exception of
    the iterable arrives at its place in the order. The workers end with this process.
    """
    iterator = iter(items)
    for item in iterator if workers == 1 else islice(iterator, _INLINE):
        yield function(item)
    chunks = _chunks(iterator)
    first = next(chunks, None)
    if first is None:
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare) as executor:

        def each(chunk: list[_Item]) -> list[_Result]:
            return executor.submit(_each, function, chunk).result()

        try:
            yield from _each(function, first)
            for results in ordered_map(each, chunks, workers):
                yield from results
        except BrokenProcessPool:
            raise CodeVerifierError(
                "a worker process was ended from outside, perhaps for want of memory; "
                "try again with --workers 1"
            ) from None
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def _chunks(items: Iterator[_Item]) -> Iterator[list[_Item]]:
    """The items in lists of up to 128; what the iterator raises comes after the items before it."""
    chunk: list[_Item] = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == _CHUNK:
                yield chunk
                chunk = []
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


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
