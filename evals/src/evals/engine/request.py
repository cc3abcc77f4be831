"""What a generation engine is: text in, tokens and log-probabilities out, one adapter per request.

For evaluation an engine is anything with `generate` and `close`, so that one of your own will do.
Those of the project are `evals.engine.rollout_engine`'s: they take token ids as well, and adapters
that change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """One sample to draw.

    `seed` keys this request's own random stream: the same request gives the same tokens whatever
    else is in the batch. `temperature` 0 is greedy and ignores the seed.
    """

    prompt: str
    adapter: str | None = None
    """Name of a loaded adapter; None is the base model."""
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    """Texts that end the completion and are not part of it; the model's end token always ends."""
    special_tokens: bool = True
    """Whether the tokenizer adds tokens of its own, such as a start; chat prompts have them."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled continuation of a prompt."""

    text: str
    """Decoded completion without the end token; special tokens inside it are kept."""
    token_ids: tuple[int, ...]
    """Sampled tokens, the end token included when it was sampled."""
    logprobs: tuple[float, ...]
    """log p of each sampled token (nats) under the temperature (at 0: under temperature 1)."""
    finish_reason: Literal["stop", "length"]


class Engine(Protocol):
    """Generates completions; may hold several adapters of one base model at once."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in the same order."""
        ...

    def close(self) -> None:
        """Free the model."""
        ...
