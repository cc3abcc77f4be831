"""Baseline: A = sum_k w_k A_k and B = sum_k w_k B_k, the factor-wise mean.

What `linear` merging of LoRA libraries amounts to. Its update is sum_jk w_j w_k B_j A_k, not the
mean of the updates: for two independent parents about half the norm is lost to cross terms, and a
parent with its sign flipped in both factors, which is the same adapter, can cancel the other.
Use `average`. Preserves: rank; equal parents.
"""

from __future__ import annotations

from lora_evo.operators.average import shares
from lora_evo.operators.factor_sum import check_equal_ranks, factor_blend
from lora_evo.operators.operator import Operator, Recipe, Request


def _prepare(request: Request) -> Recipe:
    check_equal_ranks(request, "factor_average")
    return factor_blend(shares(request))


FACTOR_AVERAGE = Operator(
    name="factor_average",
    kind="crossover",
    summary="baseline: the means of A and of B apart (cross terms, gauge); prefer average",
    preserves="rank, equal factors",
    prepare=_prepare,
    moments="reset",
)
