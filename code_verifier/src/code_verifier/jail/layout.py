"""Places of small objects in memory, mixed per fork server.

The kernel places a process's memory at random in whole pages; here the free places inside the
pages are mixed as well, and so are the lists of places that the interpreter keeps for reuse, so
that the low bits and the order of `id()` differ between executions. Objects of the interpreter
itself, such as built-in types, keep their places within a page: the build decides on these.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAKERS: tuple[tuple[Callable[[int], Any], int], ...] = (
    (lambda number: object(), 300),
    (lambda number: number + 1_000_003, 300),
    (lambda number: [], 80),
    (lambda number: {}, 80),
    (lambda number: number + 0.5, 100),
    (lambda number: (number,), 60),
    (lambda number: (number, number), 60),
    (lambda number: lambda: number, 40),
    *((lambda number, size=size: bytes(size), 16) for size in range(24, 480, 16)),
    *((lambda number, size=size: bytes(size), 3) for size in range(600, 4200, 400)),
)
_held: list[list[Any]] = []


def shuffle(index: int) -> None:
    """Leave holes for small objects in an order that depends on `index`."""
    state = 2_654_435_761 * (index + 1) % 2**32
    for make, count in _MAKERS:
        made: list[Any] = [make(number) for number in range(count)]
        for place in range(count - 1, 0, -1):  # Fisher-Yates
            state = (1_664_525 * state + 1_013_904_223) % 2**32
            other = (state >> 8) % (place + 1)
            made[place], made[other] = made[other], made[place]
        held = count // 3 + index % 3
        for place in range(held, count):
            made[place] = None
        _held.append(made[:held])
