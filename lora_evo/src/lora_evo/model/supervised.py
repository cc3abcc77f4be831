"""Supervised training of the members of a stack: next-token loss on completions, an AdamW each.

The loss is the mean negative log-likelihood of a batch's completion tokens. Used by `selfplay sft`
and to measure recovery.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lora_evo.errors import LoraEvoError
from lora_evo.model.engine import encoded
from lora_evo.model.optimizer import MemberAdamW
from lora_evo.model.scoring import Scorer, TokenPair
from lora_evo.model.stacked_lora import StackedAdapters
from lora_evo.random_streams import derive_seed, stream


def token_pair(tokenizer: Any, prompt: str, completion: str, *, special: bool = False) -> TokenPair:
    """Encode a prompt and its completion; special: see `encoded`."""
    completion_ids = tokenizer.encode(completion, add_special_tokens=False)
    return TokenPair(encoded(tokenizer, prompt, special), tuple(completion_ids))


def drawn(count: int, batch_size: int, step: int, seed: int) -> list[int]:
    """Return the indices of a step's examples (steps from 1), shuffled again in each epoch."""
    indices: list[int] = []
    for place in range((step - 1) * batch_size, step * batch_size):
        epoch, number = divmod(place, count)
        order = stream(derive_seed(seed, "order", epoch)).permutation(count)
        indices.append(int(order[number]))
    return indices


class SupervisedLearner:
    """Trains members of a stack one at a time, independently of each other.

    learning_rate: of AdamW without weight decay. max_grad_norm: longest gradient of a member; 0: no
    clipping. micro_batch_tokens: padded tokens per forward pass. chunk, checkpointing: as of
    `Scorer`.
    """

    def __init__(
        self,
        adapters: StackedAdapters,
        *,
        learning_rate: float = 1e-4,
        max_grad_norm: float = 0.0,
        micro_batch_tokens: float = math.inf,
        chunk: int = 0,
        checkpointing: bool = False,
    ) -> None:
        self.adapters = adapters
        self._budget, self._rate = micro_batch_tokens, learning_rate
        self._scorer = Scorer(adapters, chunk=chunk, checkpointing=checkpointing)
        parameters = [adapters.parameters_of(member) for member in range(len(adapters.members))]
        self._optimizer = MemberAdamW(parameters, max_grad_norm=max_grad_norm)

    def reset(self, member: int) -> None:
        self._optimizer.reset(member)

    def step(self, member: int, pairs: Sequence[TokenPair], lr_factor: float = 1.0) -> float:
        """Take one step on the mean loss of all completion tokens; return it (nats)."""
        tokens = sum(len(pair.completion_ids) for pair in pairs)
        total = 0.0
        for batch in self._scorer.batches(pairs, self._budget):
            loss = -torch.cat(self.logprobs(member, batch)).sum() / tokens
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        norm, stepped = self._optimizer.step(member, self._rate * lr_factor)
        self._optimizer.zero_grad()
        if not stepped:
            raise LoraEvoError(
                f"the loss is {total:g} and its gradient's norm {norm:g}; lower the learning rate"
            )
        return total

    @torch.no_grad()
    def mean_loss(self, member: int, pairs: Sequence[TokenPair]) -> float:
        """Return the mean loss of all completion tokens (nats) under a member."""
        tokens = sum(len(pair.completion_ids) for pair in pairs)
        batches = self._scorer.batches(pairs, self._budget)
        return sum(-float(torch.cat(self.logprobs(member, b)).sum()) / tokens for b in batches)

    @torch.no_grad()
    def probabilities(self, member: int, pairs: Sequence[TokenPair]) -> list[float]:
        """Return the geometric mean of the probabilities of each completion's tokens, 0 to 1."""
        by_pair = {}
        for batch in self._scorer.batches(pairs, self._budget):
            for pair, logprobs in zip(batch, self.logprobs(member, batch), strict=True):
                by_pair[id(pair)] = math.exp(float(logprobs.double().mean()))
        return [by_pair[id(pair)] for pair in pairs]

    def logprobs(self, member: int, pairs: Sequence[TokenPair]) -> list[Tensor]:
        """Return the log-probabilities [tokens] of each completion under a member."""
        laid = self._scorer.laid(pairs, [member] * len(pairs))
        (logprobs,) = self._scorer.scores(laid)
        return list(torch.split(logprobs, laid.lengths))

    def state_dict(self, member: int) -> dict[str, Any]:
        """Return the member's matrices and optimiser state, for `torch.save`."""
        tensors = self._optimizer.tensors(member).items()
        step = self._optimizer.states[member].step
        return {"tensors": {name: t.detach().cpu() for name, t in tensors}, "step": step}

    def load_state_dict(self, member: int, state: dict[str, Any]) -> None:
        self._optimizer.load(member, state["tensors"], state["step"])
