"""A lazy map by threads in the order of its items; the cores for it; signals that stop it."""

import math
import os
import queue
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar

_SHARED = 4096
_BEAT_S = 1.0
_STOPPING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_MEMBERSHIP, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Jobs = queue.SimpleQueue[tuple[Future[_Result], _Item] | None]


def ordered_map(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    workers: int,
    share: bool = False,
    ahead: int = 8,
) -> Iterator[_Result]:
    """Yield `map(function, items)` by `workers + 1` threads, in the order of the items.

    The additional thread prepares the next item. At most `ahead * workers` items are read beyond
    the last result. An exception of `function` or of the iterable is raised at its place in the
    order. A caller that leaves early does not wait; items that have not started are dropped.
    share: items are hashable, and equal ones among the last 4096 have one result.
    """
    jobs: _Jobs[_Result, _Item] = queue.SimpleQueue()
    pending: deque[Future[_Result]] = deque()
    futures: dict[_Item, Future[_Result]] = {}
    end: BaseException | None = None
    iterator = iter(items)
    threads = 0

    try:
        while True:
            while end is None and len(pending) < ahead * workers:
                try:
                    item = next(iterator)
                except Exception as error:
                    end = error
                    break
                future = futures.get(item) if share else None
                if future is None:
                    future = Future()
                    jobs.put((future, item))
                    if threads <= workers:
                        threads += 1
                        # A daemon: the interpreter's end must not wait for a program that runs.
                        threading.Thread(
                            target=_work, args=(function, jobs), name="code-verifier", daemon=True
                        ).start()
                    if share:
                        futures[item] = future
                        if len(futures) > _SHARED:
                            del futures[next(iter(futures))]
                pending.append(future)
            if not pending:
                break
            future = pending.popleft()
            while not future.done():  # a Ctrl-C just before a wait without end would not end it
                wait((future,), _BEAT_S)
            yield future.result()
        if end is not None and not isinstance(end, StopIteration):
            raise end
    finally:
        for future in pending:
            future.cancel()
        for _ in range(threads):
            jobs.put(None)


def _work(function: Callable[[_Item], _Result], jobs: _Jobs[_Result, _Item]) -> None:
    while (job := jobs.get()) is not None:
        future, item = job
        if not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(function(item))
        except BaseException as error:
            future.set_exception(error)


def cores() -> int:
    """Return how many cores this process may use: those of its affinity (`taskset`, Slurm), and at
    most the share of time of its control groups (a container's limit), rounded up."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return min([count, *(max(1, math.ceil(share)) for share in _shares())])


def _shares() -> Iterator[float]:
    """The limits, in cores, of the control groups that this process is in; of both versions."""
    lines = _MEMBERSHIP.read_text().splitlines() if _MEMBERSHIP.exists() else ()
    for _, controllers, path in (line.split(":", 2) for line in lines):
        home = _GROUPS / ("cpu" if "cpu" in controllers.split(",") else "")
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
        group = PurePosixPath(path.lstrip("/"))
        for place in (group, *group.parents):  # a container may see its own group as the root
            with suppress(OSError, ValueError):  # no such file, or "max"
                texts = [(home / place / name).read_text() for name in names]
                quota, period = map(int, " ".join(texts).split())
                if quota > 0:
                    yield quota / period


class Stopped(KeyboardInterrupt):
    """A TERM or HUP signal asked a command to end."""

    exit_code = 1


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Have TERM and HUP raise Stopped inside the block, unless they have a handler or are ignored
    (as by `nohup`). Outside the main thread nothing changes."""

    def stop(*_: object) -> None:
        raise Stopped

    is_main = threading.current_thread() is threading.main_thread()
    free = [n for n in _STOPPING if is_main and signal.getsignal(n) == signal.SIG_DFL]
    try:
        for number in free:
            signal.signal(number, stop)
        yield
    finally:
        for number in free:
            signal.signal(number, signal.SIG_DFL)
