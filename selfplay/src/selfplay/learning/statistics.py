"""What an update did to a member: means over its tokens."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import isfinite, isnan, nan

from torch import Tensor

_SUMS = ("loss", "entropy", "clipped", "importance", "truncated", "mismatch_kl")


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """Statistics of one member's update.

    Entropy and tokens are those of all its samples; loss, ratios and differences those of the
    samples that it learned from, since the others are left out of the passes. A number that is not
    finite is None.
    """

    loss: float | None
    """The member's loss before its first step."""
    grad_norm: float | None
    """Norm of the member's gradient before clipping; None if it took no step."""
    stepped: bool
    """Whether the member moved; False without signal, or where a number is not finite."""
    tokens: int
    """Completion tokens."""
    entropy: float | None
    """Mean of -log p of the sampled tokens, nats: an unbiased estimate of the policy's entropy."""
    clip_ratio: float | None
    """Share of tokens at which the policy ratio was clipped."""
    importance_sampling_ratio: float | None
    """Mean importance weight after truncation."""
    importance_sampling_clip_ratio: float | None
    """Share of tokens whose importance weight was truncated."""
    logp_difference_max: float | None
    """Largest |log pi(learner) - log pi(sampler)| of a token."""
    mismatch_kl: float | None
    """Mean k3 estimate of KL(sampler || learner) per token: r - 1 - log r, r = learner/sampler."""
    kl: float | None = None
    """Mean k3 estimate of KL(policy || frozen base) per token; None without beta."""
    skipped: str | None = None
    """Which number was not finite, so that the member took no step."""


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

    def add(self, other: "StatsSum") -> None:
        """Add the sums of other samples of the member."""
        for name in ("tokens", "learned", *_SUMS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.logp_difference_max = max(self.logp_difference_max, other.logp_difference_max)
        if other.kl is not None:
            self.kl = (self.kl or 0.0) + other.kl

    def numbers(self) -> list[float]:
        """Return all sums, for `of_numbers`; NaN for none."""
        return [nan if value is None else float(value) for value in astuple(self)]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float]) -> "StatsSum":
        """Return the sums that `numbers` returned; a divergence that is no number is none."""
        tokens, learned, *sums, largest, kl = numbers
        total = cls(int(tokens), int(learned), **dict(zip(_SUMS, sums, strict=True)))
        total.logp_difference_max, total.kl = largest, None if isnan(kl) else kl
        return total

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

    def stats(self, grad_norm: float | None, stepped: bool, skipped: str = "") -> UpdateStats:
        """Return means over the tokens added (zeros if there were none)."""
        n = max(1, self.learned)
        numbers = {
            "loss": self.loss,
            "grad_norm": grad_norm,
            "entropy": self.entropy / max(1, self.tokens),
            "clip_ratio": self.clipped / n,
            "importance_sampling_ratio": self.importance / n,
            "importance_sampling_clip_ratio": self.truncated / n,
            "logp_difference_max": self.logp_difference_max,
            "mismatch_kl": self.mismatch_kl / n,
            "kl": None if self.kl is None else self.kl / n,
        }
        finite = {k: v if v is not None and isfinite(v) else None for k, v in numbers.items()}
        return UpdateStats(**finite, stepped=stepped, tokens=self.tokens, skipped=skipped or None)
