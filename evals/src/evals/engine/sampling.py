"""Random choices that depend on their own key and on nothing else.

A sample is addressed by an integer seed: the u-th uniform of a row is number u of the Philox stream
whose key is that seed (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). Neither
the other rows of the batch nor the order of calls can change it, and there is no state to save.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

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


def row_uniforms(seeds: Sequence[int], count: int) -> npt.NDArray[np.float64]:
    """Return [len(seeds), count] uniforms in [0, 1): row i is the start of stream(seeds[i])."""
    table = np.empty((len(seeds), count), dtype=np.float64)
    for row, seed in zip(table, seeds, strict=True):
        row[:] = stream(seed).random(count)
    return table


def choose(logits: Tensor, uniforms: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token per row by inverting the cumulative distribution.

    logits [rows, vocabulary], uniforms [rows] float64 in [0, 1), temperatures [rows] >= 0. Returns
    tokens [rows] and their log-probabilities (nats, float32) under the row's temperature. At
    temperature 0 the token is the arg max and its log-probability is that under temperature 1.
    """
    greedy = temperatures == 0
    divisor = torch.where(greedy, torch.ones_like(temperatures), temperatures)
    logprobs = torch.log_softmax(logits.float() / divisor[:, None], dim=-1)
    cumulative = logprobs.double().exp_().cumsum(-1)
    target = uniforms[:, None] * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, target, right=True)[:, 0]
    drawn = drawn.clamp(max=logits.shape[-1] - 1)
    if bool(greedy.any()):
        drawn = torch.where(greedy, logits.argmax(-1), drawn)
    return drawn, logprobs.gather(-1, drawn[:, None])[:, 0]
