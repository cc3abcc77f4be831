"""The policy-gradient loss of one micro-batch of rows of all members.

Option names follow TRL's GRPOConfig. The loss of member m is

    L_m = - sum_t w_t * c_t * min(rho_t A_t, clip(rho_t, 1 - epsilon, 1 + epsilon_high) A_t)

over its completion tokens t. rho_t is the ratio of the policy to the policy before this update
(exactly 1 in its first iteration). c_t is the importance weight against the policy that sampled,
bounded according to `importance_sampling_mode`. The weights w_t depend on the member's whole batch
and on no other member, so the gradient is the same for any cut into micro-batches.

With beta > 0, w_t * beta * k3_t is added: k3 = q/p - 1 - log(q/p), with p the policy and q the
reference: the frozen base, or the warm start. From tokens that p sampled its value estimates KL(p
|| q) without bias, its gradient that of KL(q || p) (Schulman 2020, "Approximating KL divergence").
With use_bias_correction_kl it is rho_t k3_t, whose gradient is that of KL(p || q), also where the
policy before this update sampled (DeepSeek-V3.2, arXiv 2512.02556). With entropy_coef > 0, the mean
of entropy_coef * H_t over the member's tokens is subtracted, for any weights w_t; H_t is the
entropy of the policy at t.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lora_evo.model import BASE, Scorer
from selfplay.config import LOG_RATIO_LIMIT, LearnerConfig
from selfplay.learning.batch import Row
from selfplay.learning.statistics import StatsSum


@dataclass(frozen=True, slots=True)
class TokenLosses:
    """The terms of the loss for each token, all [tokens]; only `loss` has a gradient."""

    loss: Tensor
    """-c * min(rho A, clip(rho) A) with the term of KL, without the weight w."""
    clipped: Tensor
    """Whether the clipped ratio counts (bool)."""
    importance: Tensor
    """c, the importance weight, truncated or masked."""
    outside: Tensor
    """Whether the weight was outside its bounds (bool)."""
    kl: Tensor | None = None
    """k3, if the base's log-probabilities were given."""


def token_losses(
    logprobs: Tensor,
    old_logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    config: LearnerConfig,
    *,
    lengths: Sequence[int] | None = None,
    ref_logprobs: Tensor | None = None,
    beta: Tensor | float = 0.0,
) -> TokenLosses:
    """Compute the clipped, importance-weighted loss of each token; all tensors [tokens].

    logprobs: under the policy now (with gradient); old_logprobs: before this update's first step;
    rollout_logprobs: as reported by the sampler; ref_logprobs: under the reference, for beta;
    lengths: tokens of each completion, one after the other; None: all are of one completion.
    Beyond `LOG_RATIO_LIMIT` ratios are continued by their tangent, so that the gradient neither
    vanishes nor grows without bound.
    """
    old = old_logprobs.detach()
    near, beyond = _parts(logprobs - old)
    ratio = near.exp() * (1.0 + beyond)
    plain = ratio * advantages
    clipped = ratio.clamp(1.0 - config.epsilon, 1.0 + config.epsilon_high) * advantages
    surrogate = torch.minimum(plain, clipped)
    mismatch, lengths = old - rollout_logprobs, lengths or [len(old)]
    importance, outside = importance_weights(mismatch, lengths, config)
    loss, kl = -importance * surrogate, None
    if ref_logprobs is not None:
        near, beyond = _parts(ref_logprobs - logprobs)
        kl = near.expm1() - near + math.expm1(LOG_RATIO_LIMIT) * beyond
        loss = loss + beta * (ratio * kl if config.use_bias_correction_kl else kl)
    clip = (clipped < plain).detach()
    return TokenLosses(loss, clip, importance, outside, None if kl is None else kl.detach())


def importance_weights(
    log_ratio: Tensor, lengths: Sequence[int], config: LearnerConfig
) -> tuple[Tensor, Tensor]:
    """Return each token's importance weight, and whether it was outside its bounds; [tokens].

    log_ratio: log pi(learner) - log pi(sampler). In a mode `sequence_*` the weight is that of the
    whole completion, the product over its tokens.
    """
    if not config.importance_sampling_correction:
        return torch.ones_like(log_ratio), torch.zeros_like(log_ratio, dtype=torch.bool)
    if config.importance_sampling_mode.startswith("sequence"):
        sums = torch.stack([part.sum() for part in torch.split(log_ratio, list(lengths))])
        log_ratio = sums.repeat_interleave(torch.tensor(lengths, device=sums.device))
    low, high = config.importance_sampling_clip_min, config.importance_sampling_clip_max
    ratio = log_ratio.exp()
    outside = (ratio < low) | (ratio > high)
    if config.importance_sampling_mode.endswith("mask"):
        return ratio.masked_fill(outside, 0.0), outside
    return ratio.clamp(low, high), outside


def _parts(log_ratio: Tensor) -> tuple[Tensor, Tensor]:
    """Return log ratios clamped to the limit, and their excess over it."""
    return log_ratio.clamp(max=LOG_RATIO_LIMIT), (log_ratio - LOG_RATIO_LIMIT).clamp(min=0.0)


class ForwardPass:
    """Computes the loss of micro-batches under the stacked adapters."""

    def __init__(self, scorer: Scorer, config: LearnerConfig, reference: int = BASE):
        """reference: index in the stack of the reference of the KL divergence."""
        self.scorer, self.config, self.reference = scorer, config, reference

    def loss(self, batch: Sequence[Row], sums: dict[int, StatsSum]) -> Tensor:
        """Return the batch's part of the loss, and add its tokens to the statistics."""
        laid = self.scorer.laid(batch, [row.member for row in batch])
        sampled = [p for row in batch for p in row.sample.rollout.logprobs]
        rollout, reference = torch.tensor(sampled, device=laid.targets.device), None
        phases = [row.sample.phase for row in batch]
        betas = list(map(self.config.beta_of, phases))
        entropy_coefs = list(map(self.config.entropy_coef_of, phases))
        if max(betas) > 0.0:
            with torch.no_grad():
                (reference,) = self.scorer.scores(laid, member=self.reference)
        logprobs, *entropy = self.scorer.scores(laid, entropy=max(entropy_coefs) > 0.0)
        current = logprobs.detach()
        for row, part in zip(batch, torch.split(current, laid.lengths), strict=True):
            row.old = part if row.old is None else row.old
        losses = token_losses(
            logprobs,
            torch.cat([row.old for row in batch if row.old is not None]),
            rollout,
            laid.per_token([row.sample.advantage for row in batch]),
            self.config,
            lengths=laid.lengths,
            ref_logprobs=reference,
            beta=laid.per_token(betas),
        )
        weighted = losses.loss * laid.per_token([row.weight for row in batch])
        if entropy:
            shares = zip(entropy_coefs, batch, strict=True)
            bonus = laid.per_token([coef * row.token_share for coef, row in shares])
            weighted = weighted - bonus * entropy[0]
        columns = [weighted.detach(), losses.clipped, losses.importance, losses.outside]
        columns += [current - rollout, *([] if losses.kl is None else [losses.kl])]
        split = [torch.split(column, laid.lengths) for column in columns]
        for row, beta, *tokens in zip(batch, betas, *split, strict=True):
            sums[row.member].add_tokens(*(tokens if beta > 0.0 else tokens[:5]))
        return weighted.sum()
