"""Log-probabilities from hidden states, a bounded number of tokens at a time.

The table of logits [tokens, vocabulary] is the largest tensor of a training step: 16,384 tokens of
a vocabulary of 152,000 take 10 GB in float32, and its gradient as much again. A token's values
depend only on its own hidden state. So the forward pass computes their gradients with respect to
it, chunk by chunk, and keeps these [tokens, hidden] in place of the logits. The backward pass only
scales them; the output layer is read as often as without chunks.
"""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lora_evo.errors import LoraEvoError, first_line
from lora_evo.model.decoding import TESTED_FAMILIES

Scores: TypeAlias = tuple[Tensor, ...]
"""Log-probabilities (nats) of the targets and, optionally, entropies; all [tokens]."""
_CHUNK_ENTRIES = 1 << 24
"""Logits of one chunk: 64 MB in float32, with three or four copies at a time."""
_LEAST_CHUNK = 256
"""Tokens below which reading the output layer's weights takes longer than the product."""
_PROBE = 5
"""Tokens on which these logits are compared with the model's own."""


def chunk_tokens(vocabulary: int) -> int:
    """Return the number of tokens in a chunk for this vocabulary."""
    return max(_LEAST_CHUNK, _CHUNK_ENTRIES // vocabulary)


@dataclass(frozen=True)
class OutputLayer:
    """The frozen output layer of a causal model, and its family's transformation of the logits."""

    head: nn.Linear
    chunk: int
    """Most tokens at a time."""
    temperature: float = 1.0
    scale: float = 1.0
    """Factor of the logits (Cohere's logit_scale, one over Granite's logits_scaling)."""
    softcap: float | None = None
    """Bound c of logits capped as c tanh(x / c) (Gemma's final_logit_softcapping)."""

    @classmethod
    def of(cls, model: Any, temperature: float = 1.0, chunk: int = 0) -> "OutputLayer":
        """Return a model's output layer, checked against the model's own logits.

        chunk: most tokens at a time, 0: by the vocabulary. Raises LoraEvoError for a model that
        computes its logits in another way.
        """
        head, config = model.get_output_embeddings(), model.config.get_text_config()
        if not isinstance(head, nn.Linear):
            raise LoraEvoError(
                f"the output layer of this {config.model_type} is a {type(head).__name__}; "
                "expected a plain linear layer: leave lm_head out of the target_modules"
            )
        scale = getattr(config, "logit_scale", None) or 1.0
        layer = cls(
            head,
            chunk or chunk_tokens(head.out_features),
            temperature,
            scale / (getattr(config, "logits_scaling", None) or 1.0),
            getattr(config, "final_logit_softcapping", None),
        )
        layer._check(model)
        return layer

    @torch.no_grad()
    def _check(self, model: Any) -> None:
        ids = torch.arange(_PROBE, device=self.head.weight.device)[None] % self.head.out_features
        try:
            hidden = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
            expected = model(input_ids=ids, use_cache=False).logits.float()
            error = float((self._logits(hidden) - expected).abs().max())
        except Exception as failure:  # a family's own code may raise anything
            raise LoraEvoError(
                f"the hidden states of a {model.config.model_type} cannot be read without its "
                f"logits, as the learner needs: {first_line(failure)}"
            ) from failure
        size = float(expected.abs().max())
        if not math.isfinite(size):
            kind = str(hidden.dtype).removeprefix("torch.")
            raise LoraEvoError(
                f"the base's logits are not finite in {kind}; try dtype=float32 or dtype=bfloat16"
            )
        if not error <= 8 * torch.finfo(hidden.dtype).eps * size:
            raise LoraEvoError(
                f"a {model.config.model_type} does more to its logits than the learner knows "
                f"(scale, soft cap); known: {', '.join(TESTED_FAMILIES)}"
            )

    def _logits(self, hidden: Tensor) -> Tensor:
        """Return the model's logits [..., vocabulary] in float32, before the temperature."""
        logits: Tensor = self.head(hidden)
        if self.scale != 1.0:
            logits = logits * self.scale
        if self.softcap is not None:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return logits.float()

    def _scores(self, hidden: Tensor, targets: Tensor, entropy: bool) -> Scores:
        logits = self._logits(hidden)
        if self.temperature != 1.0:
            logits = logits / self.temperature
        if not entropy:
            return (-F.cross_entropy(logits, targets, reduction="none"),)
        table = torch.log_softmax(logits, -1)
        chosen = table.gather(1, targets[:, None])[:, 0]
        return chosen, -(table.exp() * table).sum(-1)

    def scores(self, hidden: Tensor, targets: Tensor, *, entropy: bool = False) -> Scores:
        """Return log p of the targets and, with entropy, the entropy of each token's distribution.

        hidden [tokens, hidden size], targets [tokens]; at the layer's temperature, in nats.
        Differentiable with respect to `hidden`.
        """
        if len(hidden) <= self.chunk:
            return self._scores(hidden, targets, entropy)
        if not (torch.is_grad_enabled() and hidden.requires_grad):
            sides = torch.split(hidden, self.chunk), torch.split(targets, self.chunk)
            parts = (self._scores(*pair, entropy) for pair in zip(*sides, strict=True))
            return tuple(map(torch.cat, zip(*parts, strict=True)))
        scores: Scores = _Chunked.apply(hidden, targets, self, entropy)  # type: ignore[no-untyped-call]
        return scores


class _Chunked(torch.autograd.Function):
    """Scores of all chunks, with the gradient of each score with respect to its hidden state."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, targets: Tensor, layer: OutputLayer, entropy: bool
    ) -> Scores:
        columns = 1 + entropy
        values = [hidden.new_empty(len(hidden), dtype=torch.float32) for _ in range(columns)]
        slopes = [torch.empty_like(hidden) for _ in range(columns)]
        for start in range(0, len(hidden), layer.chunk):
            here = slice(start, start + layer.chunk)
            with torch.enable_grad():
                x = hidden[here].detach().requires_grad_()
                parts = layer._scores(x, targets[here], entropy)
            for i, column in enumerate(parts):
                (slopes[i][here],) = torch.autograd.grad(
                    column, x, torch.ones_like(column), retain_graph=i + 1 < columns
                )
                values[i][here] = column.detach()
        ctx.save_for_backward(*slopes)
        return tuple(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        total = None
        for grad, slope in zip(grads, ctx.saved_tensors, strict=True):
            part = grad[:, None].to(slope.dtype) * slope
            total = part if total is None else total.add_(part)
        return total, None, None, None
