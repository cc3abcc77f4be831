"""Seeds of samples: derived from what a sample is, not from when it is drawn."""

import hashlib


def sample_seed(seed: int, benchmark: str, question: str, sample: int) -> int:
    """The 63-bit seed of one sample of a run (blake2b of its address).

    Adapters share it, so that their runs are paired.
    """
    text = "\x1f".join((str(seed), benchmark, question, str(sample)))
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=b"evals-sample")
    return int.from_bytes(digest.digest(), "big") >> 1
