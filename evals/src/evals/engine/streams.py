"""Random choices that depend on their own key and on nothing else.

A sample is addressed by an integer seed: the u-th uniform of a row is number u of the Philox stream
whose key is that seed (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). Neither
the other rows of the batch nor the order of calls can change it, and there is no state to save.
"""

import hashlib
from typing import TypeAlias

import numpy as np

Key: TypeAlias = str | int | float | bool | None
_MASK = (1 << 128) - 1


def derive_seed(run_seed: int, *keys: Key) -> int:
    """Return the 63-bit seed of the random choice that `keys` names in the run `run_seed`.

    blake2b over the keys with their types and lengths, so ("a", 1), ("a", "1") and ("a1",) differ.
    """
    digest = hashlib.blake2b(digest_size=8, person=b"populab-seed")
    for key in (run_seed, *keys):
        text = f"{type(key).__name__}:{key!r}".encode()
        digest.update(len(text).to_bytes(4, "big") + text)
    return int.from_bytes(digest.digest(), "big") >> 1


def stream(seed: int) -> np.random.Generator:
    """Return the random stream of `seed` (any integer; taken modulo 2^128)."""
    return np.random.Generator(np.random.Philox(key=seed & _MASK))
