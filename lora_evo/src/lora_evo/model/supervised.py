"""Supervised training of the members of a stack: next-token loss on completions, an AdamW each.

Loss: the mean negative log-likelihood of a batch's completion tokens, the usual supervised
fine-tuning of a LoRA (Hu et al. 2021, arXiv 2106.09685), by AdamW (Loshchilov and Hutter 2019) on A
and B in float32. It serves warm starts (`selfplay sft`) and the measurement of recovery.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lora_evo.errors import LoraEvoError
from lora_evo.model.decoding import padded
from lora_evo.model.engine import derive_seed, stream
from lora_evo.model.stacked_lora import StackedAdapters

_POSITIONS = 1024
"""Completion tokens whose logits over the vocabulary are held at a time."""


@dataclass(frozen=True)
class TokenPair:
    """A prompt and its completion by token ids; the completion alone carries loss."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """Tokens of both."""
        return self.prompt_ids + self.completion_ids

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self.prompt_ids) + len(self.completion_ids)


def token_pair(tokenizer: Any, prompt: str, completion: str, *, special: bool = False) -> TokenPair:
    """Encode a prompt and its completion; special: with the tokenizer's own tokens before both."""
    return TokenPair(
        tuple(tokenizer.encode(prompt, add_special_tokens=special)),
        tuple(tokenizer.encode(completion, add_special_tokens=False)),
    )


def drawn(count: int, batch_size: int, step: int, seed: int) -> list[int]:
    """Return the examples of a step, from 1: an epoch takes each once, in an order of its own."""
    found: list[int] = []
    for at in range((step - 1) * batch_size, step * batch_size):
        epoch, place = divmod(at, count)
        order = stream(derive_seed(seed, "order", epoch)).permutation(count)
        found.append(int(order[place]))
    return found


class SupervisedLearner:
    """Trains members of a stack one at a time, so that none depends on the others.

    learning_rate, betas, eps, weight_decay: of AdamW. max_grad_norm: clips the gradients of a
    member together; None does not. micro_batch_tokens: padded tokens per forward pass, which change
    memory and not the loss. Equal calls give equal numbers on one machine and number of threads.
    """

    def __init__(
        self,
        adapters: StackedAdapters,
        *,
        learning_rate: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        max_grad_norm: float | None = None,
        micro_batch_tokens: int | None = None,
    ) -> None:
        if not (math.isfinite(learning_rate) and learning_rate > 0):
            raise LoraEvoError(f"the learning rate is {learning_rate}; expected more than 0")
        self.adapters = adapters
        self.learning_rate = learning_rate
        self._max_grad_norm = max_grad_norm
        self._budget = micro_batch_tokens
        self._parameters = [adapters.parameters_of(m) for m in range(len(adapters.members))]
        self._optimizers = [
            torch.optim.AdamW(
                list(own.values()), lr=learning_rate, betas=betas, eps=eps,
                weight_decay=weight_decay, foreach=False,
            )
            for own in self._parameters
        ]  # fmt: skip

    def reset(self, member: int) -> None:
        """Forget the optimiser state of a member."""
        self._optimizers[member].state.clear()

    def step(self, member: int, pairs: Sequence[TokenPair], lr_factor: float = 1.0) -> float:
        """Take one step on the mean loss of all completion tokens; return it (nats)."""
        whole = sum(len(pair.completion_ids) for pair in pairs)
        optimizer, own = self._optimizers[member], list(self._parameters[member].values())
        total = 0.0
        optimizer.zero_grad()
        for chunk in self._chunks(pairs):
            loss = -torch.cat(self.logprobs(member, chunk)).sum() / whole
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        if not math.isfinite(total):
            raise LoraEvoError(
                f"the loss is {total}; lower the learning rate, or load the model as float32"
            )
        if self._max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(own, self._max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate * lr_factor
        optimizer.step()
        optimizer.zero_grad()
        return total

    @torch.no_grad()
    def mean_loss(self, member: int, pairs: Sequence[TokenPair]) -> float:
        """Return the mean loss of all completion tokens (nats) under a member."""
        whole = sum(len(pair.completion_ids) for pair in pairs)
        chunks = self._chunks(pairs)
        return sum(-float(torch.cat(self.logprobs(member, c)).sum()) / whole for c in chunks)

    @torch.no_grad()
    def probabilities(self, member: int, pairs: Sequence[TokenPair]) -> list[float]:
        """Return the geometric mean of the probabilities of each completion's tokens, 0 to 1."""
        found = {}
        for chunk in self._chunks(pairs):
            for pair, logprobs in zip(chunk, self.logprobs(member, chunk), strict=True):
                found[id(pair)] = math.exp(float(logprobs.double().mean()))
        return [found[id(pair)] for pair in pairs]

    def logprobs(self, member: int, pairs: Sequence[TokenPair]) -> list[Tensor]:
        """Return the log-probabilities [tokens] of each completion under a member."""
        model: Any = self.adapters.model
        ids, real = padded([pair.ids for pair in pairs], self.adapters.device)
        with self.adapters.route([member] * len(pairs)):
            hidden = model.base_model(
                input_ids=ids, attention_mask=real.long(), use_cache=False
            ).last_hidden_state
        ends = [(len(pair.prompt_ids), pair.length) for pair in pairs]
        states = torch.cat([hidden[row, a - 1 : b - 1] for row, (a, b) in enumerate(ends)])
        targets = torch.cat([ids[row, a:b] for row, (a, b) in enumerate(ends)])
        parts = [
            checkpoint(self._of_tokens, state, target, use_reentrant=False)
            for state, target in zip(
                torch.split(states, _POSITIONS), torch.split(targets, _POSITIONS), strict=True
            )
        ]
        return list(torch.split(torch.cat(parts), [b - a for a, b in ends]))

    def state_dict(self, member: int) -> dict[str, Any]:
        """Return the member's matrices and optimiser state, for `torch.save`."""
        weights = {name: p.detach().cpu() for name, p in self._parameters[member].items()}
        return {"weights": weights, "optimizer": self._optimizers[member].state_dict()}

    @torch.no_grad()
    def load_state_dict(self, member: int, state: dict[str, Any]) -> None:
        """Take up what `state_dict` returned."""
        for name, parameter in self._parameters[member].items():
            parameter.copy_(state["weights"][name])
        self._optimizers[member].load_state_dict(state["optimizer"])

    def _of_tokens(self, hidden: Tensor, targets: Tensor) -> Tensor:
        model: Any = self.adapters.model
        logits = model.get_output_embeddings()(hidden).float()
        cap = getattr(model.config, "final_logit_softcapping", None)
        if cap:
            logits = cap * torch.tanh(logits / cap)
        found: Tensor = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
        return found

    def _chunks(self, pairs: Sequence[TokenPair]) -> Iterator[list[TokenPair]]:
        """Pairs of similar length, the longest first, within the budget of padded tokens."""
        if self._budget is None:
            yield list(pairs)
            return
        chunk: list[TokenPair] = []
        for pair in sorted(pairs, key=lambda pair: -pair.length):
            if chunk and (len(chunk) + 1) * chunk[0].length > self._budget:
                yield chunk
                chunk = []
            chunk.append(pair)
        yield chunk
