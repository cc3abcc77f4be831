"""Baseline: the evolution-strategy step taken on A and on B apart.

    A = sum_k (w_k + eta z_k / n) A_k, and B alike,

with z the z-scored fitnesses, as in public
population code. The update has cross terms between all parents; with two parents, equal weights
and eta = 1 (the default, as there) the child is the better parent, whatever the other is. Use
`xes`; the parameters are the same. Preserves: rank; equal parents.
"""

from __future__ import annotations

from lora_evo.operators.factor_sum import check_equal_ranks, factor_blend
from lora_evo.operators.operator import Operator, Recipe, Request
from lora_evo.operators.xes import stepped


def _prepare(request: Request) -> Recipe:
    check_equal_ranks(request, "factor_xes")
    return factor_blend(stepped(request))


FACTOR_XES = Operator(
    name="factor_xes",
    kind="crossover",
    summary="baseline: mean and fitness direction of A and of B apart; prefer xes",
    preserves="rank, equal factors",
    prepare=_prepare,
    defaults={"fitness": None, "eta": 1.0},
    moments="reset",
)
