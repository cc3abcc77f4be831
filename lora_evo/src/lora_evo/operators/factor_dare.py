"""Baseline: entries of A and B dropped with probability p, the rest rescaled, then averaged.

    A = sum_k w_k (m_k * A_k) / (1 - p), and B alike,

with m_k of independent zeros (with chance p) and
ones: DARE (arXiv 2311.03099) applied to factors, as in PopuLoRA's crossover (arXiv 2605.16727) and
in LoRA mergers. It has the mean right for each factor, but the variance of every entry grows by
p/(1-p) of its square, and the product of two noisy factors has both noises and their product: at
p = 0.7 (the default, as in public code) an adapter crossed with itself lands about twice its norm
away from itself. Use `dare`. Preserves: rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lora_evo.adapter import Slot
from lora_evo.noise import stream
from lora_evo.operators.average import shares
from lora_evo.operators.dare import MOST_DROPPED
from lora_evo.operators.factor_sum import check_equal_ranks, pairs_in_first_scale
from lora_evo.operators.fitness import checked_number
from lora_evo.operators.measured import measured
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild


def _prepare(request: Request) -> Recipe:
    check_equal_ranks(request, "factor_dare")
    p = checked_number(request, "p", 0.0, MOST_DROPPED)
    weights = shares(request)

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        a, b = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        for index, (own_a, own_b) in enumerate(pairs_in_first_scale(slots)):
            key = (path, str(index))
            a = a + weights[index] * _thinned(own_a, p, request.seed, (*key, "A"))
            b = b + weights[index] * _thinned(own_b, p, request.seed, (*key, "B"))
        return measured(path, slots[0], Slot(a, b, slots[0].scale))

    return recipe


def _thinned(factor: torch.Tensor, p: float, seed: int, key: tuple[str, ...]) -> torch.Tensor:
    points = stream(seed, *key).random(tuple(factor.shape))
    return factor * torch.from_numpy(points >= p) / (1 - p)


FACTOR_DARE = Operator(
    name="factor_dare",
    kind="crossover",
    summary="baseline: entries of A and B dropped and rescaled apart, averaged; prefer dare",
    preserves="rank",
    prepare=_prepare,
    defaults={"p": 0.7},
    moments="reset",
)
