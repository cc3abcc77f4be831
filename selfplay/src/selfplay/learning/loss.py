"""The policy-gradient loss of one micro-batch of all members: padded rows in, weighted loss out.

Option names follow TRL's GRPOConfig. The loss of member m is

    L_m = - sum_t w_t * c_t * min(rho_t A_t, clip(rho_t, 1 - epsilon, 1 + epsilon_high) A_t)

over its completion tokens t. rho_t is the ratio of the policy to the policy before this update
(exactly 1 in its first iteration); c_t, the truncated importance weight against the policy that
sampled. The weights w_t depend on the whole batch of that member and on no other member, so any cut
into micro-batches adds up to the same gradient.

With beta > 0, w_t * beta * k3_t is added: k3 = q/p - 1 - log(q/p), with p the policy and q the
frozen base. From tokens that p sampled its value estimates KL(p || q) without bias, its gradient
that of KL(q || p) (Schulman 2020, "Approximating KL divergence"). With entropy_coef > 0, the mean
of entropy_coef * H_t over the member's tokens is taken away, whatever the weights; H_t is the
entropy of the policy at t.
"""

import ctypes
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from lora_evo.model import BASE, Rollout, StackedAdapters
from selfplay.config import LOG_RATIO_LIMIT, LearnerConfig
from selfplay.learning.batch import Row
from selfplay.learning.output_layer import OutputLayer
from selfplay.learning.statistics import StatsSum

_aten = torch.ops.aten
KEPT = [
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
]
"""Operations whose results are kept: the kernels behind scaled_dot_product_attention."""
_M_MMAP_THRESHOLD = -3
"""Of glibc's malloc.h."""
_LARGE = 1 << 20
"""Bytes of a block from which on it gets pages of its own."""


@dataclass(frozen=True, slots=True)
class TokenLosses:
    """What the loss computes per token, all [tokens]; only `loss` carries a gradient."""

    loss: Tensor
    """-c * min(rho A, clip(rho) A) with the term of KL, not yet weighted."""
    clipped: Tensor
    """Whether the clip is in force (bool)."""
    importance: Tensor
    """c, the importance weight after truncation."""
    kl: Tensor | None = None
    """k3, where the base's log-probabilities were given."""


def token_losses(
    logprobs: Tensor,
    old_logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    config: LearnerConfig,
    *,
    ref_logprobs: Tensor | None = None,
    beta: Tensor | float = 0.0,
) -> TokenLosses:
    """Compute the clipped, importance-weighted loss of each token; all tensors [tokens].

    logprobs: under the policy now (with gradient); old_logprobs: before this update's first step;
    rollout_logprobs: as reported by the sampler; ref_logprobs: under the frozen base, for beta.
    Beyond `LOG_RATIO_LIMIT` ratios grow with their tangent, so that a gradient is neither lost nor
    without bound.
    """
    old = old_logprobs.detach()
    near, beyond = _parts(logprobs - old)
    ratio = near.exp() * (1.0 + beyond)
    plain = ratio * advantages
    clipped = ratio.clamp(1.0 - config.epsilon, 1.0 + config.epsilon_high) * advantages
    surrogate = torch.minimum(plain, clipped)
    importance = torch.ones_like(old)
    if config.importance_sampling_correction:
        mismatch = (old - rollout_logprobs).exp()
        importance = mismatch.clamp(max=config.importance_sampling_clip_max)
    loss, kl = -importance * surrogate, None
    if ref_logprobs is not None:
        near, beyond = _parts(ref_logprobs - logprobs)
        kl = near.expm1() - near + math.expm1(LOG_RATIO_LIMIT) * beyond
        loss = loss + beta * kl
    return TokenLosses(
        loss, (clipped < plain).detach(), importance, None if kl is None else kl.detach()
    )


def _parts(log_ratio: Tensor) -> tuple[Tensor, Tensor]:
    """Return log ratios up to the limit, and how far they are beyond it."""
    return log_ratio.clamp(max=LOG_RATIO_LIMIT), (log_ratio - LOG_RATIO_LIMIT).clamp(min=0.0)


def hand_large_blocks_back() -> None:
    """Have glibc, where that is the C library, hand large blocks back when they are freed.

    For the whole process. Left to itself its heap keeps them, and what is kept of each layer lies
    between them, so that a pass grows by what checkpointing saves.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


def layers_of(decoder: nn.Module) -> Sequence[nn.Module]:
    """Return a decoder's layers, whatever its family calls them: its longest list of modules."""
    lists = [part for part in decoder.children() if isinstance(part, nn.ModuleList)]
    return list(max(lists, key=len, default=()))


@contextmanager
def checkpointed(layers: Iterable[nn.Module], adapters: StackedAdapters) -> Iterator[None]:
    """Run these layers with gradient checkpointing inside the block.

    Layers must not draw random numbers: none are put back for the second time.
    """
    before = [vars(layer).get("forward") for layer in layers]
    for layer in layers:
        layer.forward = _recomputed(layer.forward, adapters)
    try:
        yield
    finally:
        for layer, forward in zip(layers, before, strict=True):
            del layer.forward
            if forward is not None:
                layer.forward = forward


def _recomputed(forward: Callable[..., Any], adapters: StackedAdapters) -> Callable[..., Any]:
    @contextmanager
    def both(route: AbstractContextManager[None], recomputing: Any) -> Iterator[None]:
        with route, recomputing:
            yield

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        kept, recomputing = create_selective_checkpoint_contexts(KEPT)  # type: ignore[no-untyped-call]
        return kept, both(adapters.same_route(), recomputing)  # the route of this call

    def run(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(
            forward,
            *args,
            use_reentrant=False,
            preserve_rng_state=False,
            context_fn=contexts,
            **kwargs,
        )

    return run


@dataclass(frozen=True, slots=True)
class PaddedRows:
    """Rows as tensors, padded on the right, and where their completions are."""

    ids: Tensor
    """[rows, T], prompt and completion but for the last token."""
    places: Tensor
    """[tokens] of the flattened [rows * T] whose next token belongs to a completion."""
    targets: Tensor
    """[tokens], those next tokens."""
    lengths: list[int]
    """Completion tokens of each row."""

    @classmethod
    def of(cls, rows: Sequence[Rollout], pad: int, device: torch.device) -> "PaddedRows":
        """Lay rows out; pad may be any valid id, since no loss ever sees it."""
        T = max(len(row.prompt_ids) + len(row.completion_ids) for row in rows) - 1
        ids = torch.full((len(rows), T), pad)
        places: list[int] = []
        targets: list[int] = []
        for i, row in enumerate(rows):
            tokens = row.prompt_ids + row.completion_ids[:-1]
            ids[i, : len(tokens)] = torch.tensor(tokens)
            places += range(i * T + len(row.prompt_ids) - 1, i * T + len(tokens))
            targets += row.completion_ids
        return cls(
            ids.to(device),
            torch.tensor(places, device=device),
            torch.tensor(targets, device=device),
            [len(row.completion_ids) for row in rows],
        )

    def per_token(self, values: Sequence[float]) -> Tensor:
        """Repeat one value per row over the row's completion tokens."""
        device = self.targets.device
        repeats = torch.tensor(self.lengths, device=device)
        tensor = torch.tensor(values, device=device)
        return tensor.repeat_interleave(repeats, output_size=len(self.targets))


class ForwardPass:
    """Computes the loss of micro-batches under the stacked adapters."""

    def __init__(
        self,
        model: Any,
        adapters: StackedAdapters,
        config: LearnerConfig,
        pad: int,
        temperature: float = 1.0,
    ):
        self.model = model
        self.adapters = adapters
        self.config = config
        self.output = OutputLayer.of(model, temperature, config.logits_chunk_tokens)
        self.checkpoint_from_tokens = 0 if config.gradient_checkpointing else math.inf
        """Tokens of a row from which on its layers are checkpointed whatever the configuration."""
        self._pad = pad
        if config.gradient_checkpointing and model.device.type == "cpu":
            hand_large_blocks_back()

    def loss(self, batch: Sequence[Row], sums: dict[int, StatsSum]) -> Tensor:
        """Return the batch's part of the loss and add its tokens to the statistics."""
        device = next(self.model.parameters()).device
        padded = PaddedRows.of([row.sample.rollout for row in batch], self._pad, device)
        rollout = torch.tensor(
            [p for row in batch for p in row.sample.rollout.logprobs], device=device
        )
        reference = None
        phases = [row.sample.phase for row in batch]
        betas = list(map(self.config.beta_of, phases))
        entropy_coefs = list(map(self.config.entropy_coef_of, phases))
        if max(betas) > 0.0:
            with torch.no_grad():
                hidden = self._hidden(padded, [BASE] * len(batch))
                (reference,) = self.output.scores(hidden, padded.targets)
        hidden = self._hidden(padded, [row.member for row in batch])
        logprobs, *entropy = self.output.scores(
            hidden, padded.targets, entropy=max(entropy_coefs) > 0.0
        )
        now = logprobs.detach()
        for row, part in zip(batch, torch.split(now, padded.lengths), strict=True):
            row.old = part if row.old is None else row.old
        parts = token_losses(
            logprobs,
            torch.cat([row.old for row in batch if row.old is not None]),
            rollout,
            padded.per_token([row.sample.advantage for row in batch]),
            self.config,
            ref_logprobs=reference,
            beta=padded.per_token(betas),
        )
        weighted = parts.loss * padded.per_token([row.weight for row in batch])
        if entropy:
            shares = zip(entropy_coefs, batch, strict=True)
            bonus = padded.per_token([coef * row.token_share for coef, row in shares])
            weighted = weighted - bonus * entropy[0]
        columns = [weighted.detach(), parts.clipped, parts.importance, now - rollout]
        if parts.kl is not None:
            columns.append(parts.kl)
        split = [torch.split(column, padded.lengths) for column in columns]
        cap = self.config.importance_sampling_clip_max
        for row, beta, *tokens in zip(batch, betas, *split, strict=True):
            columns_of_row = tokens if beta > 0.0 else tokens[:4]
            sums[row.member].add_tokens(*columns_of_row, importance_clip_max=cap)
        return weighted.sum()

    def _hidden(self, padded: PaddedRows, members: Sequence[int]) -> Tensor:
        """Return the last hidden states [tokens, hidden size] of what is learned from."""
        # Causal attention and padding on the right: real tokens never see the padding.
        decoder = self.model.get_decoder()
        layers = layers_of(decoder) if padded.ids.shape[1] >= self.checkpoint_from_tokens else []
        with self.adapters.route(members), checkpointed(layers, self.adapters):
            hidden: Tensor = decoder(input_ids=padded.ids, use_cache=False).last_hidden_state
        return hidden.reshape(-1, hidden.shape[-1])[padded.places]
