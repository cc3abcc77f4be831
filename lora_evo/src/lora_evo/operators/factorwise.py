"""Crossovers made from the factors themselves, A with A and B with B: baselines only.

They are the forms that PopuLoRA's public code (arXiv 2605.16727) and most LoRA mergers use. All of
them depend on the factorization: parents with equal updates but other factors (a sign flipped, a
basis turned) give different children, and the product of two sums has cross terms B_j A_k that no
parent has. All parents need the same rank. Where the parents' scales differ, B_k counts as
(s_k / s_1) B_k, so that each parent at least enters with its own update. The parameters are those
of the crossovers of updates. Preserves: rank; but for `factor_dare`, equal parents.
"""

from collections.abc import Callable, Sequence

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.thin import prepared
from lora_evo.operators.crossovers import MOST_DROPPED, beyond, stepped
from lora_evo.operators.measured import SlotChild, measured
from lora_evo.operators.operator import (
    Recipe,
    Request,
    check_equal_ranks,
    checked_number,
    shares,
    stream,
)

Keep = Callable[[torch.Tensor, tuple[str, ...]], torch.Tensor]


def factor_average(request: Request) -> Recipe:
    """Average the factors: A = sum_k w_k A_k, and B alike. A baseline; prefer `average`.

    "Linear" merging loses about half the norm of two independent parents to cross terms, and a
    parent with its sign flipped in both factors, the same adapter, can cancel the other.
    """
    return _sum(request, "average", shares(request))


def factor_dare(request: Request) -> Recipe:
    """Drop entries of the factors: A = sum_k w_k (m_k * A_k) / (1 - p), and B alike.

    A baseline; prefer `dare`. DARE (arXiv 2311.03099) drops entries, m_k zeros with chance p and
    else ones. Each factor has the right mean, but the variance of every entry grows by p/(1-p) of
    its square, and the product has both noises and theirs: at p = 0.7, the default as in public
    code, an adapter crossed with itself lands about twice its norm away from itself.
    """
    p = checked_number(request, "p", 0.0, MOST_DROPPED)

    def thinned(factor: torch.Tensor, key: tuple[str, ...]) -> torch.Tensor:
        points = stream(request.seed, *key).random(tuple(factor.shape))
        return factor * torch.from_numpy(points >= p) / (1 - p)

    return _sum(request, "dare", shares(request), thinned)


def factor_extrapolate(request: Request) -> Recipe:
    """Extrapolate the factors: A = A_worse + eta (A_better - A_worse), and B alike.

    A baseline; prefer `extrapolate`. eta is from [1, 1.5] as in public code. The update is
    quadratic in eta; for parents of other factorizations it runs several times their norm away from
    both at eta = 1.5, and the lower fifth of the range is a copy of the better parent.
    """
    return _sum(request, "extrapolate", beyond(request))


def factor_xes(request: Request) -> Recipe:
    """Move the mean of the factors: A = sum_k (w_k + eta z_k / n) A_k, and B alike.

    A baseline; prefer `xes`. z are the z-scored fitnesses; with two parents, equal weights and
    eta = 1, the default as in public code, the child is the better parent, whatever the other is.
    """
    return _sum(request, "xes", stepped(request))


def _sum(
    request: Request, better: str, coefficients: Sequence[float], keep: Keep | None = None
) -> Recipe:
    """Return the recipe of A = sum_k c_k A_k, B = sum_k c_k B_k, of what `keep` leaves of each
    factor."""
    check_equal_ranks(
        request,
        f"factor_{better} adds factors entry by entry and needs equal ranks; {better} does not",
    )

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        sums = []
        for side in ("A", "B"):
            parts = []
            for index, (share, slot) in enumerate(zip(coefficients, slots, strict=True)):
                factor = prepared(getattr(slot, side)).double()
                if side == "B":
                    factor = factor * (slot.scale / slots[0].scale)
                if keep is not None:
                    factor = keep(factor, (path, str(index), side))
                parts.append(share * factor)
            sums.append(torch.stack(parts).sum(dim=0))
        return measured(path, slots[0], Slot(sums[0], sums[1], slots[0].scale))

    return recipe
