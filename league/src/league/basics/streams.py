"""Random numbers that depend on a key alone, never on what was drawn before."""

import hashlib

import numpy as np


def stream(*key: int | str) -> np.random.Generator:
    """Return a generator (Philox, counter based) for this key; the same key, the same numbers."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(key), "little")))


def tie_break(*key: int | str) -> int:
    """Return a 64-bit number for this key: it breaks ties without favour."""
    return int.from_bytes(_digest(key)[:8], "little")


def _digest(key: tuple[int | str, ...]) -> bytes:
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in key)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
