"""What an update did to a member: means over its tokens, and the noise of its gradient.

The gradient noise scale (McCandlish et al. 2018, arXiv 1812.06162), per member and role.

The batch is split into groups; each gives its own estimate of the gradient. With g the mean over
the whole batch of N samples and g_k that of group k, which has the share w_k of the batch,

    tr(S) = N sum_k w_k |g_k - g|^2 / (K - 1)        |G|^2 = |g|^2 - tr(S) / N

estimate without bias the variance of one sample's gradient and the squared length of the true one.
Their quotient, the noise scale, is the number of samples at which signal equals noise: much smaller
batches learn little but noise, much larger ones waste samples. Both are averaged over steps first,
because a quotient of noisy numbers is not the quotient of their means.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from selfplay.learning.batch import Row


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """Statistics of one member's update.

    Entropy and tokens are those of all its samples; loss, ratios and differences those of the
    samples that it learned from, since the others are left out of the passes.
    """

    loss: float
    """The member's loss before its first step."""
    grad_norm: float | None
    """Norm of the member's gradient before clipping; None if it took no step."""
    stepped: bool
    """Whether the member moved; False without signal or with a gradient that is not finite."""
    tokens: int
    """Completion tokens."""
    entropy: float
    """Mean of -log p of the sampled tokens, nats: an unbiased estimate of the policy's entropy."""
    clip_ratio: float
    """Share of tokens at which the policy ratio was clipped."""
    importance_sampling_ratio: float
    """Mean importance weight after truncation."""
    importance_sampling_clip_ratio: float
    """Share of tokens whose importance weight was truncated."""
    logp_difference_max: float
    """Largest |log pi(learner) - log pi(sampler)| of a token."""
    mismatch_kl: float
    """Mean k3 estimate of KL(sampler || learner) per token: r - 1 - log r, r = learner/sampler."""
    noise_scale: Mapping[str, float | None]
    """Gradient noise scale by role, in samples; None while noise hides the signal."""
    kl: float | None = None
    """Mean k3 estimate of KL(policy || frozen base) per token; None without beta."""


@dataclass(slots=True)
class StatsSum:
    """Running sums of one member."""

    tokens: int = 0
    learned: int = 0
    loss: float = 0.0
    entropy: float = 0.0
    clipped: float = 0.0
    importance: float = 0.0
    truncated: float = 0.0
    mismatch_kl: float = 0.0
    logp_difference_max: float = 0.0
    kl: float | None = None

    def add_row(self, logprobs: Sequence[float]) -> None:
        """Count a sample by the sampler's log-probabilities of its tokens."""
        self.tokens += len(logprobs)
        self.entropy -= sum(logprobs)

    def add_tokens(
        self,
        weighted_loss: Tensor,
        clipped: Tensor,
        importance: Tensor,
        log_ratio: Tensor,
        kl: Tensor | None = None,
        *,
        importance_clip_max: float,
    ) -> None:
        """Add tokens learned from, all [tokens]; log_ratio = log pi(learner) - log pi(sampler).

        kl: estimates of the divergence from the frozen base, if any.
        """
        self.learned += log_ratio.numel()
        self.loss += float(weighted_loss.sum())
        self.clipped += float(clipped.sum())
        self.importance += float(importance.sum())
        self.truncated += float((importance >= importance_clip_max).sum())
        # expm1 keeps the tiny differences that exp() - 1 would round away.
        self.mismatch_kl += float((log_ratio.double().expm1() - log_ratio.double()).sum())
        self.logp_difference_max = max(self.logp_difference_max, float(log_ratio.abs().max()))
        if kl is not None:
            self.kl = (self.kl or 0.0) + float(kl.sum())

    def stats(
        self, grad_norm: float | None, stepped: bool, noise_scale: Mapping[str, float | None]
    ) -> UpdateStats:
        """Return means over the tokens added (zeros if there were none)."""
        n = max(1, self.learned)
        return UpdateStats(
            loss=self.loss,
            grad_norm=grad_norm,
            stepped=stepped,
            tokens=self.tokens,
            entropy=self.entropy / max(1, self.tokens),
            clip_ratio=self.clipped / n,
            importance_sampling_ratio=self.importance / n,
            importance_sampling_clip_ratio=self.truncated / n,
            logp_difference_max=self.logp_difference_max,
            mismatch_kl=self.mismatch_kl / n,
            noise_scale=dict(noise_scale),
            kl=None if self.kl is None else self.kl / n,
        )


DECAY = 0.9
"""Decay of the averages over steps."""


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """What one update tells of a gradient's noise."""

    variance: float
    """Estimate of tr(S), the variance of one sample's gradient."""
    signal: float
    """Estimate of |G|^2, the squared length of the true gradient; may fall below 0."""


@dataclass(slots=True)
class NoiseAverage:
    """Averages over the updates of one member in one role, with decay."""

    variance: float = 0.0
    signal: float = 0.0
    weight: float = 0.0

    def add(self, noise: GradientNoise) -> None:
        """Take in one update."""
        for name in ("variance", "signal"):
            setattr(self, name, DECAY * getattr(self, name) + (1 - DECAY) * getattr(noise, name))
        self.weight = DECAY * self.weight + (1 - DECAY)

    @property
    def scale(self) -> float | None:
        """The noise scale in samples; None while noise hides the signal."""
        return self.variance / self.signal if self.signal > 0.0 else None


def gradient_noise(
    gradients: Mapping[int, list[Tensor]], rows: Sequence[Row]
) -> GradientNoise | None:
    """Return the estimates for one member in one role; None with fewer than two groups.

    gradients: each group's part of the gradient of the member's loss. rows: all of this member and
    role, those without gradient too.
    """
    shares: dict[int, float] = defaultdict(float)
    for row in rows:
        shares[row.group] += row.share
    whole = sum(shares.values())
    groups = {k: share / whole for k, share in shares.items() if share > 0.0}
    if len(groups) < 2 or not gradients:
        return None
    like = next(iter(gradients.values()))
    nothing = [torch.zeros_like(p) for p in like]
    total = [torch.zeros_like(p) for p in like]
    for gradient in gradients.values():
        torch._foreach_add_(total, gradient)
    mean = list(torch._foreach_div(total, whole))
    spread = 0.0
    for group, share in groups.items():
        own = torch._foreach_div(gradients.get(group, nothing), share * whole)
        spread += share * _squared_norm(list(torch._foreach_sub(own, mean)))
    variance = len(rows) * spread / (len(groups) - 1)
    return GradientNoise(variance, _squared_norm(mean) - variance / len(rows))


def _squared_norm(tensors: list[Tensor]) -> float:
    return float(torch.stack(torch._foreach_norm(tensors)).double().square().sum())
