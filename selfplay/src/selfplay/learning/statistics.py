"""Statistics of an update of a member: sums and means over its tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import isfinite, nan
from typing import Any

from msgspec import UNSET
from torch import Tensor

from selfplay.config import LOG_RATIO_LIMIT
from selfplay.files.rows import MemberRow, finite


@dataclass(slots=True)
class StatsSum:
    """Running sums of one member; all are floats, so that learners exchange them in one tensor."""

    tokens: float = 0.0
    learned: float = 0.0
    loss: float = 0.0
    entropy: float = 0.0
    clipped: float = 0.0
    importance: float = 0.0
    truncated: float = 0.0
    mismatch_kl: float = 0.0
    kl_tokens: float = 0.0
    logp_difference_max: float = 0.0
    kl: float = 0.0

    def add_row(self, logprobs: Sequence[float]) -> None:
        """Count a sample by the sampler's log-probabilities of its tokens."""
        self.tokens += len(logprobs)
        self.entropy -= sum(logprobs)

    def add(self, other: "StatsSum") -> None:
        """Add the sums of other samples of the member."""
        largest = max(self.logp_difference_max, other.logp_difference_max)
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        self.logp_difference_max = largest

    def add_tokens(
        self,
        weighted_loss: Tensor,
        clipped: Tensor,
        importance: Tensor,
        outside: Tensor,
        log_ratio: Tensor,
        kl: Tensor | None = None,
    ) -> None:
        """Add tokens that the member learns from; all arguments are [tokens].

        log_ratio: log pi(learner) - log pi(sampler). outside: whether an importance weight was out
        of bounds. kl: estimates of the divergence from the reference, if any.
        """
        self.learned += log_ratio.numel()
        self.loss += float(weighted_loss.sum())
        self.clipped += float(clipped.sum())
        self.importance += float(importance.sum())
        self.truncated += float(outside.sum())
        # expm1 keeps the tiny differences that exp() - 1 would round away.
        near = log_ratio.double().clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
        self.mismatch_kl += float((near.expm1() - near).sum())
        self.logp_difference_max = max(self.logp_difference_max, float(log_ratio.abs().max()))
        if kl is not None:
            self.kl += float(kl.sum())
            self.kl_tokens += kl.numel()

    def row(self, grad_norm: float | None, **of_update: Any) -> MemberRow:
        """Return means over the tokens, and of_update: fields about the update.

        Entropy and tokens are of all samples; loss, ratios and differences of the samples that the
        member learned from.
        """
        n = self.learned or nan
        return MemberRow(
            loss=finite(self.loss),
            grad_norm=finite(grad_norm),
            tokens=int(self.tokens),
            entropy=finite(self.entropy / max(1, self.tokens)),
            clip_ratio=finite(self.clipped / n),
            importance_sampling_ratio=finite(self.importance / n),
            importance_sampling_clip_ratio=finite(self.truncated / n),
            logp_difference_max=finite(self.logp_difference_max if self.learned else nan),
            mismatch_kl=finite(self.mismatch_kl / n),
            kl=self.kl / self.kl_tokens if self.kl_tokens and isfinite(self.kl) else UNSET,
            **of_update,
        )
