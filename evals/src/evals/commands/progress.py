"""A bar with the time left, on the terminal's error stream."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def bars(label: str, total: int) -> Iterator[Callable[[str, int], None]]:
    """A bar for each phase; the function in between takes the phase and a number."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
    )
    with progress:
        tasks: dict[str, TaskID] = {}

        def advance(phase: str, count: int) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(f"{label}: {phase}", total=total)
            progress.advance(tasks[phase], count)

        yield advance
