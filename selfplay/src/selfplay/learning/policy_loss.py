"""The policy-gradient loss per token, and the weights that sum it per member.

Option names follow TRL's GRPOConfig. The loss of member m is

    L_m = - sum_t w_t * c_t * min(rho_t A_t, clip(rho_t, 1 - epsilon, 1 + epsilon_high) A_t)

over its completion tokens t. rho_t is the ratio of the policy to the policy before this update
(exactly 1 in its first iteration); c_t, the truncated importance weight against the policy that
sampled. The weights w_t depend on the whole batch of that member and on nobody else, so any cut
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

from selfplay.errors import SelfplayError

LOSS_TYPES = ("grpo", "dapo", "bnpo", "dr_grpo")
_LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True, slots=True)
class LossOptions:
    """How the loss clips, corrects and averages; names as in TRL."""

    epsilon: float = 0.2
    """Lower clip range of the policy ratio."""
    epsilon_high: float = 0.2
    """Upper clip range of the policy ratio (DAPO: 0.28)."""
    loss_type: str = "dapo"
    """"grpo" sequence mean, "dapo" or "bnpo" token mean, "dr_grpo" constant length; per member."""
    max_completion_length: int = 256
    """Divisor of "dr_grpo": tokens that a completion may have."""
    importance_sampling_correction: bool = True
    """Weigh tokens by pi(learner) / pi(sampler), truncated from above."""
    importance_sampling_clip_max: float = 2.0
    """Largest importance weight."""
    mask_truncated_completions: bool = False
    """Leave completions that ran into the length limit out of the loss."""
    beta: float = 0.0
    """Coefficient of the KL divergence from the frozen base; 0: not computed."""
    entropy_coef: float = 0.0
    """Coefficient of the entropy bonus; 0: not computed."""

    @property
    def regularises(self) -> bool:
        """Whether tokens without advantage have a gradient, too."""
        return self.beta > 0.0 or self.entropy_coef > 0.0

    def __post_init__(self) -> None:
        if self.loss_type not in LOSS_TYPES:
            raise SelfplayError(
                f"loss_type is {self.loss_type!r}, expected {', '.join(LOSS_TYPES)}"
            )
        if not 0.0 <= self.epsilon < 1.0 or self.epsilon_high < 0.0:
            raise SelfplayError(
                f"epsilon is {self.epsilon} and epsilon_high {self.epsilon_high}, expected "
                "0 <= epsilon < 1 and epsilon_high >= 0"
            )
        if self.importance_sampling_clip_max <= 0.0 or self.max_completion_length < 1:
            raise SelfplayError(
                "importance_sampling_clip_max must be above 0 and max_completion_length at least 1"
            )
        if self.beta < 0.0 or self.entropy_coef < 0.0:
            raise SelfplayError(
                f"beta is {self.beta} and entropy_coef {self.entropy_coef}, expected 0 or more"
            )


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
    members: Sequence[int], lengths: Sequence[int], truncated: Sequence[bool], options: LossOptions
) -> list[float]:
    """Return w_t for the tokens of each sequence (equal within a sequence), 0 where masked.

    As in TRL, a masked sequence still counts in the number of sequences of "grpo" and "dr_grpo",
    and its tokens do not count in the number of tokens of "dapo" and "bnpo".
    """
    keep = [not (t and options.mask_truncated_completions) for t in truncated]
    sequences = Counter(members)
    tokens: Counter[int] = Counter()
    for member, length, kept in zip(members, lengths, keep, strict=True):
        tokens[member] += length * kept
    weights = []
    for member, length, kept in zip(members, lengths, keep, strict=True):
        if not kept or length == 0:
            weights.append(0.0)
        elif options.loss_type == "grpo":
            weights.append(1.0 / (sequences[member] * length))
        elif options.loss_type == "dr_grpo":
            weights.append(1.0 / (sequences[member] * options.max_completion_length))
        else:
            weights.append(1.0 / tokens[member])
    return weights


def token_losses(
    logprobs: Tensor,
    old_logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    options: LossOptions,
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
    clipped = ratio.clamp(1.0 - options.epsilon, 1.0 + options.epsilon_high) * advantages
    surrogate = torch.minimum(plain, clipped)
    importance = torch.ones_like(old)
    if options.importance_sampling_correction:
        mismatch = (old - rollout_logprobs).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
        importance = mismatch.exp().clamp(max=options.importance_sampling_clip_max)
    loss, kl = -importance * surrogate, None
    if ref_logprobs is not None:
        away = (ref_logprobs - logprobs).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
        kl = away.expm1() - away
        loss = loss + options.beta * kl
    if entropies is not None:
        loss = loss - options.entropy_coef * entropies
    return TokenLosses(
        loss, (clipped < plain).detach(), importance, None if kl is None else kl.detach()
    )
