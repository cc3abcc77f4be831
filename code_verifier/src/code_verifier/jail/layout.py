"""Places of small objects in memory, mixed per fork server.

The kernel places a process's memory at random in whole pages; here the free places inside the
pages are mixed as well, so that the low bits and the order of `id()` differ between executions.
"""

from __future__ import annotations

_CLASSES, _PER_CLASS, _UNIT = 32, 16, 16


def shuffle(index: int) -> None:
    """Leave holes for small objects in an order that depends on `index`."""
    state = 2_654_435_761 * (index + 1) % 2**32
    kept = []
    for size in range(1, _CLASSES + 1):
        blocks = [bytes(max(size * _UNIT - 40, 1)) for _ in range(_PER_CLASS)]
        while len(blocks) > _PER_CLASS // 2:
            state = (1_664_525 * state + 1_013_904_223) % 2**32
            del blocks[(state >> 16) % len(blocks)]
        kept.append(blocks)
    _kept.append(kept)
    for size in range(600, 4200, 400):  # larger objects lie in another place
        _kept.append([[bytes(size + 16 * ((index * 37 + size) % 101)) for _ in range(3)]])


_kept: list[list[list[bytes]]] = []
