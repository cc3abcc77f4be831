"""Simulated entropy of strict programs: the same for execution `index` of every check, and
different in each execution.

The seeds were searched so that executions differ early. In the first two,
`random() < 0.5`, `getrandbits(1)` and `choice` of two come out differently, the third starts with
a number below 0.0005, the fourth with one above 0.9995, the fifth and sixth with a normal deviate
beyond 2.5 on either side. `os.urandom` gives the second execution the complement of the first one's
bits, and so on in pairs. Only one of a pair holds weak references to all types, whose number
depends on the modules that were imported.
"""

import os
import random
from typing import Any
from weakref import ref

from code_verifier.jail.walls import all_types

SEEDS = (
    710_000_009, 820_000_001, 930_000_196, 140_001_062,
    250_000_189, 360_000_626, 470_000_002, 580_000_009,
)  # fmt: skip
_STRIDE = 1_000_003
_held: list[ref[type]] = []


def install(index: int) -> None:
    """Give `random` and `os.urandom` the entropy of execution `index`."""
    if index % 2:
        _held.extend(ref(kind, print) for kind in all_types())
    module: Any = random
    turn, place = divmod(index, len(SEEDS))
    first = SEEDS[place] + turn
    real_seed = random.Random.seed
    turns = [0]

    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        """Initialize internal state from a seed."""
        if a is None:
            a = first + _STRIDE * turns[0]
            turns[0] += 1
        real_seed(self, a, version)

    module.Random.seed = seed
    bits = random.Random(2 * (index // 2) + 1)
    flip = index % 2 * 0xFF

    def urandom(size: int, /) -> bytes:
        return bytes(byte ^ flip for byte in bits.randbytes(size))

    os.urandom = module._urandom = urandom
    module.seed = module._inst.seed
    module.seed()
