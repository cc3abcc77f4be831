"""Requests and their samples, by text and by token ids, and the seeds that key their randomness.

A sample is addressed by an integer seed: the u-th uniform of a row is number u of the Philox stream
whose key is that seed (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). Neither
the other rows of a batch nor the order of calls can change it, and there is no state to save.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

Key: TypeAlias = str | int | float | bool | None
Folders: TypeAlias = Mapping[str, str | os.PathLike[str]]
"""Adapter names and their PEFT folders."""
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


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to sample from a text.

    `seed` keys this request's own random stream: the same request gives the same tokens whatever
    else is in the batch. `temperature` 0 is greedy and ignores the seed.
    """

    prompt: str
    adapter: str | None = None
    """Name of an adapter that the engine holds; None is the base model."""
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    """Texts that end the completion and are not part of it; the model's end token always ends."""
    special_tokens: bool = True
    """Whether the tokenizer adds tokens of its own, such as a start; chat prompts have them."""


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """One completion to sample from token ids; fields as of `Request`."""

    adapter: str | None
    prompt_ids: tuple[int, ...]
    max_tokens: int
    temperature: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled continuation of a text."""

    text: str
    """Decoded completion without the end token; special tokens inside it are kept."""
    token_ids: tuple[int, ...]
    """Sampled tokens, the end token included when it was sampled."""
    logprobs: tuple[float, ...]
    """log p of each sampled token (nats) under the temperature (at 0: under temperature 1)."""
    finish_reason: Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled continuation by token ids, as a learner needs it; see `Completion`."""

    adapter: str | None
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: Literal["stop", "length"]
