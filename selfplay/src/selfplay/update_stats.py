"""What an update did to one member: sums over its tokens, gathered batch by batch."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """Statistics of one member's update, over the completion tokens of its samples."""

    loss: float
    """The member's loss before its first step."""
    grad_norm: float | None
    """Norm of the member's gradient before clipping; None if it took no step."""
    stepped: bool
    """Whether the member moved; False without signal or with a gradient that is not finite."""
    tokens: int
    """Completion tokens."""
    entropy: float
    """Mean entropy of the policy per token, nats."""
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


@dataclass(slots=True)
class StatsSum:
    """Running sums of one member."""

    tokens: int = 0
    loss: float = 0.0
    entropy: float = 0.0
    clipped: float = 0.0
    importance: float = 0.0
    truncated: float = 0.0
    mismatch_kl: float = 0.0
    logp_difference_max: float = 0.0

    def add_tokens(
        self,
        weighted_loss: Tensor,
        entropy: Tensor,
        clipped: Tensor,
        importance: Tensor,
        log_ratio: Tensor,
        *,
        importance_clip_max: float,
    ) -> None:
        """Add tokens, all [tokens]; log_ratio = log pi(learner) - log pi(sampler)."""
        self.tokens += log_ratio.numel()
        self.loss += float(weighted_loss.sum())
        self.entropy += float(entropy.sum())
        self.clipped += float(clipped.sum())
        self.importance += float(importance.sum())
        self.truncated += float((importance >= importance_clip_max).sum())
        # expm1 keeps the tiny differences that exp() - 1 would round away.
        self.mismatch_kl += float((log_ratio.double().expm1() - log_ratio.double()).sum())
        self.logp_difference_max = max(self.logp_difference_max, float(log_ratio.abs().max()))

    def stats(self, grad_norm: float | None, stepped: bool) -> UpdateStats:
        """Return means over the tokens added (zeros if there were none)."""
        n = max(1, self.tokens)
        return UpdateStats(
            loss=self.loss,
            grad_norm=grad_norm,
            stepped=stepped,
            tokens=self.tokens,
            entropy=self.entropy / n,
            clip_ratio=self.clipped / n,
            importance_sampling_ratio=self.importance / n,
            importance_sampling_clip_ratio=self.truncated / n,
            logp_difference_max=self.logp_difference_max,
            mismatch_kl=self.mismatch_kl / n,
        )
