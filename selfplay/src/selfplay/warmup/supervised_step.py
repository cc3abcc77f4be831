"""A supervised step: one AdamW step of a member on completions that it should write."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from selfplay.learning.batch import within_budget
from selfplay.learning.learner import Learner


@dataclass(frozen=True)
class TokenPair:
    """A prompt and its completion by token ids; the completion alone carries loss."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]

    @property
    def length(self) -> int:
        """Tokens of both."""
        return len(self.prompt_ids) + len(self.completion_ids)


def token_pair(tokenizer: Any, prompt: str, completion: str) -> TokenPair:
    """Encode a prompt and its completion, with no tokens added."""
    prompt_ids, completion_ids = (
        tuple(tokenizer.encode(text, add_special_tokens=False)) for text in (prompt, completion)
    )
    return TokenPair(prompt_ids, completion_ids)


def supervised_step(
    learner: Learner,
    place: int,
    pairs: Sequence[TokenPair],
    *,
    micro_batch_tokens: int | None = None,
    lr_factor: float = 1.0,
) -> float:
    """Take one step on the mean cross-entropy of all completion tokens; return it (nats).

    micro_batch_tokens: padded tokens per forward pass, which change memory and not the loss.
    """
    whole = sum(len(pair.completion_ids) for pair in pairs)
    total = 0.0
    learner.optimizer.zero_grad()
    for chunk in _chunks(pairs, micro_batch_tokens):
        share = sum(len(pair.completion_ids) for pair in chunk) / whole
        loss = _cross_entropy(learner, place, chunk) * share
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    learner.optimizer.step(place, lr_factor)
    learner.optimizer.zero_grad()
    return total


@torch.no_grad()
def mean_loss(
    learner: Learner, place: int, pairs: Sequence[TokenPair], micro_batch_tokens: int | None = None
) -> float:
    """Return the mean cross-entropy of all completion tokens (nats) under a member."""
    whole = sum(len(pair.completion_ids) for pair in pairs)
    return sum(
        float(_cross_entropy(learner, place, chunk))
        * sum(len(pair.completion_ids) for pair in chunk)
        / whole
        for chunk in _chunks(pairs, micro_batch_tokens)
    )


def _chunks(pairs: Sequence[TokenPair], tokens: int | None) -> Iterator[Sequence[TokenPair]]:
    if tokens is None:
        return iter([pairs])
    return within_budget(sorted(pairs, key=lambda pair: -pair.length), tokens)


def _cross_entropy(learner: Learner, place: int, pairs: Sequence[TokenPair]) -> Tensor:
    return -learner.forward_pass.logprobs(pairs, [place] * len(pairs)).mean()
