"""The gradient noise scale (McCandlish et al. 2018, arXiv 1812.06162), per member and role.

The batch is dealt into groups; each gives its own estimate of the gradient. With g the mean over
the whole batch of N samples and g_k that of group k, which has the share w_k of the batch,

    tr(S) = N sum_k w_k |g_k - g|^2 / (K - 1)        |G|^2 = |g|^2 - tr(S) / N

estimate without bias the variance of one sample's gradient and the squared length of the true one.
Their quotient, the noise scale, is the number of samples at which signal equals noise: much smaller
batches learn little but noise, much larger ones waste samples. Both are averaged over steps first,
because a quotient of noisy numbers is not the quotient of their means.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from selfplay.learning.batch import Row

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
        """The noise scale in samples; None while no signal stands out."""
        return self.variance / self.signal if self.signal > 0.0 else None

    def to_dict(self) -> dict[str, float]:
        """Return plain values that `NoiseAverage(**values)` takes back."""
        return {"variance": self.variance, "signal": self.signal, "weight": self.weight}


class GroupGradients:
    """The gradients of one member in one role, group by group."""

    def __init__(self) -> None:
        self._groups: dict[int, list[Tensor]] = {}

    def add(self, group: int, gradient: list[Tensor]) -> None:
        """Take one group's part of the gradient of the member's loss."""
        self._groups[group] = gradient

    @property
    def gradients(self) -> list[list[Tensor]]:
        """Each group's part of the gradient, by group."""
        return [self._groups[group] for group in sorted(self._groups)]

    def noise(self, rows: Sequence[Row]) -> GradientNoise | None:
        """Return the estimates; rows: all of this member and role, those without gradient too.

        None with fewer than two groups.
        """
        shares: dict[int, float] = defaultdict(float)
        for row in rows:
            shares[row.group] += row.share
        whole = sum(shares.values())
        groups = {k: share / whole for k, share in shares.items() if share > 0.0}
        if len(groups) < 2 or not self._groups:
            return None
        like = next(iter(self._groups.values()))
        nothing = [torch.zeros_like(p) for p in like]
        total = [torch.zeros_like(p) for p in like]
        for gradient in self._groups.values():
            torch._foreach_add_(total, gradient)
        mean = list(torch._foreach_div(total, whole))
        spread = 0.0
        for group, share in groups.items():
            own = torch._foreach_div(self._groups.get(group, nothing), share * whole)
            spread += share * _squared_norm(list(torch._foreach_sub(own, mean)))
        variance = len(rows) * spread / (len(groups) - 1)
        return GradientNoise(variance, _squared_norm(mean) - variance / len(rows))


def _squared_norm(tensors: list[Tensor]) -> float:
    return float(torch.stack(torch._foreach_norm(tensors)).double().square().sum())
