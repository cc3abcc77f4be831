"""Baseline: A and B each extrapolated from the worse parent through the better one.

    A = A_worse + eta (A_better - A_worse), and B alike,

the public form of PopuLoRA's crossover
(arXiv 2605.16727), eta from [1, 1.5]. The update is quadratic in eta and full of cross terms; for
parents of other gauges it runs far away from both (several times their norm at eta = 1.5), and
the lower fifth of the range is a copy of the better parent. Use `extrapolate`; the parameters are
the same. Preserves: rank; equal parents.
"""

from __future__ import annotations

from lora_evo.operators.extrapolate import beyond
from lora_evo.operators.factor_sum import check_equal_ranks, factor_blend
from lora_evo.operators.operator import Operator, Recipe, Request


def _prepare(request: Request) -> Recipe:
    check_equal_ranks(request, "factor_extrapolate")
    return factor_blend(beyond(request))


FACTOR_EXTRAPOLATE = Operator(
    name="factor_extrapolate",
    kind="crossover",
    summary="baseline: A and B extrapolated apart (quadratic, gauge); prefer extrapolate",
    preserves="rank, equal factors",
    prepare=_prepare,
    defaults={"fitness": None, "eta": None, "eta_low": 1.0, "eta_high": 1.5},
    moments="reset",
)
