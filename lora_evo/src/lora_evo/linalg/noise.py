"""Counter-based noise: what is drawn depends on its key alone, never on what was drawn before."""

import hashlib

import numpy as np


def stream(seed: int, *key: str) -> np.random.Generator:
    """An independent random stream for (seed, module, tensor, ...).

    Philox (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") keyed by a BLAKE2b
    digest of the key, so that modules may be visited in any order, by any number of threads, or
    one alone, and still see the same numbers.
    """
    text = "\x1f".join((str(seed), *key))
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def uniform(seed: int, *key: str) -> float:
    """One number from [0, 1) for a key."""
    return float(stream(seed, *key).random())
