"""The policy-gradient loss per token, and the weights that sum it per member.

Option names follow TRL's GRPOConfig. The loss of member m is

    L_m = - sum_t w_t * c_t * min(rho_t A_t, clip(rho_t, 1 - epsilon, 1 + epsilon_high) A_t)

over its completion tokens t. rho_t is the ratio of the policy to the policy before this update
(exactly 1 in its first iteration); c_t, the truncated importance weight against the policy that
sampled. The weights w_t depend on the whole batch of that member and on no other member, so any cut
into micro-batches adds up to the same gradient.

With beta > 0, w_t * beta * k3_t is added: k3 = q/p - 1 - log(q/p), with p the policy and q the
frozen base, estimates KL(p || q) without bias from tokens that p sampled (Schulman 2020,
"Approximating KL divergence"). With entropy_coef > 0, w_t * entropy_coef * H_t is taken away, H_t
the entropy of the policy's distribution at t.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from selfplay.config import LearnerConfig

_LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True, slots=True)
class TokenLosses:
    """What the loss computes per token, all [tokens]; only `loss` carries a gradient."""

    loss: Tensor
    """-c * min(rho A, clip(rho) A) and what regularises it, not yet weighted."""
    clipped: Tensor
    """Whether the clip is in force (bool)."""
    importance: Tensor
    """c, the importance weight after truncation."""
    kl: Tensor | None = None
    """k3, where the base's log-probabilities were given."""


def token_weights(
    members: Sequence[int], lengths: Sequence[int], truncated: Sequence[bool], config: LearnerConfig
) -> list[float]:
    """Return w_t for the tokens of each sequence (equal within a sequence), 0 where masked.

    As in TRL, a masked sequence still counts in the number of sequences of "grpo" and "dr_grpo",
    and its tokens do not count in the number of tokens of "dapo" and "bnpo".
    """
    keep = [not (t and config.mask_truncated_completions) for t in truncated]
    sequences = Counter(members)
    tokens: Counter[int] = Counter()
    for member, length, kept in zip(members, lengths, keep, strict=True):
        tokens[member] += length * kept
    weights = []
    for member, length, kept in zip(members, lengths, keep, strict=True):
        if not kept or length == 0:
            weights.append(0.0)
        elif config.loss_type == "grpo":
            weights.append(1.0 / (sequences[member] * length))
        elif config.loss_type == "dr_grpo":
            weights.append(1.0 / (sequences[member] * config.max_completion_length))
        else:
            weights.append(1.0 / tokens[member])
    return weights


def token_losses(
    logprobs: Tensor,
    old_logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    config: LearnerConfig,
    *,
    ref_logprobs: Tensor | None = None,
    entropies: Tensor | None = None,
) -> TokenLosses:
    """Compute the clipped, importance-weighted loss of each token; all arguments [tokens].

    logprobs: under the policy now (with gradient); old_logprobs: before this update's first step;
    rollout_logprobs: as reported by the sampler; ref_logprobs: under the frozen base, for beta;
    entropies: of the policy now (with gradient), for entropy_coef. Log ratios are held within +-20.
    """
    old = old_logprobs.detach()
    log_ratio = (logprobs - old).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
    ratio = log_ratio.exp()
    plain = ratio * advantages
    clipped = ratio.clamp(1.0 - config.epsilon, 1.0 + config.epsilon_high) * advantages
    surrogate = torch.minimum(plain, clipped)
    importance = torch.ones_like(old)
    if config.importance_sampling_correction:
        mismatch = (old - rollout_logprobs).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
        importance = mismatch.exp().clamp(max=config.importance_sampling_clip_max)
    loss, kl = -importance * surrogate, None
    if ref_logprobs is not None:
        away = (ref_logprobs - logprobs).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
        kl = away.expm1() - away
        loss = loss + config.beta * kl
    if entropies is not None:
        loss = loss - config.entropy_coef * entropies
    return TokenLosses(
        loss, (clipped < plain).detach(), importance, None if kl is None else kl.detach()
    )
