"""Random streams by name: a choice has a seed of its own, whatever was drawn before it.

A stream is Philox with the seed as its key (Salmon et al. 2011, "Parallel random numbers: as easy
as 1, 2, 3"), so that there is no state to save.
"""

import hashlib
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np

Key: TypeAlias = str | int | float | bool | None
_MASK = (1 << 128) - 1


def derive_seed(run_seed: int, *keys: Key) -> int:
    """Return the 63-bit seed of the random choice that `keys`, of any types, name in a run."""
    digest = hashlib.blake2b(digest_size=8, person=b"populab-seed")
    for key in (run_seed, *keys):
        text = f"{type(key).__name__}:{key!r}".encode()
        digest.update(len(text).to_bytes(4, "big") + text)
    return int.from_bytes(digest.digest(), "big") >> 1


def stream(seed: int) -> "np.random.Generator":
    """Return the random stream of `seed` (any integer; taken modulo 2^128)."""
    import numpy as np

    return np.random.Generator(np.random.Philox(key=seed & _MASK))


def keyed_stream(seed: int, *key: str) -> "np.random.Generator":
    """Return an independent random stream for (seed, module, tensor, ...).

    Its key is a BLAKE2b digest: a module's numbers do not depend on other modules or their order.
    """
    text = "\x1f".join((str(seed), *key))
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return stream(int.from_bytes(digest, "little"))
