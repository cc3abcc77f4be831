"""Crossover by an evolution-strategy step: the mean of the parents, moved towards the fit ones.

    D = sum_k w_k D_k + eta * sum_k (z_k / n) D_k,      z = (f - mean f) / std f,

on the updates s*B*A, truncated to the first parent's rank. f are the fitnesses (`fitness=[...]`)
and w the weights of the mean, equal if not given; with weights and no fitness, the weights are
the fitnesses too. The z add up to 0, so the coefficients add up to 1, and equal parents give
themselves. Equal fitnesses give the mean. With two parents z = (1, -1): eta = 1 on equal weights
is a copy of the better one, eta = 0.5 (the default) three quarters of it. The z-scored direction
is that of evolution strategies (Salimans et al., arXiv 1703.03864), used on factors by peers
(`factor_xes`). Preserves: what the parents agree on.
"""

import math

from lora_evo.errors import LoraEvoError
from lora_evo.operators.crossovers.average import shares
from lora_evo.operators.crossovers.joint_core import blend
from lora_evo.operators.operator import Operator, Request
from lora_evo.operators.parameters import checked_fitness, checked_number


def stepped(request: Request) -> tuple[float, ...]:
    """The coefficients of the parents, w_k + eta z_k / n; they add up to 1."""
    fitness = checked_fitness(request) or request.weights
    if fitness is None:
        raise LoraEvoError(
            "xes needs to know how fit the parents are: give --set 'fitness=[0.7, 0.4]', one "
            "number for each parent, or weights"
        )
    eta = checked_number(request, "eta", 0.0, 4.0)
    count = len(fitness)
    middle = math.fsum(fitness) / count
    spread = math.sqrt(math.fsum((value - middle) ** 2 for value in fitness) / count)
    if spread <= 1e-12 * max(abs(value) for value in fitness):
        return shares(request)
    pairs = zip(shares(request), fitness, strict=True)
    return tuple(share + eta * (value - middle) / spread / count for share, value in pairs)


XES = Operator(
    name="xes",
    kind="crossover",
    summary="the mean of the parents' updates, moved along the direction of fitness",
    preserves="what the parents agree on, rank; free of gauge",
    prepare=lambda request: blend(stepped(request)),
    defaults={"fitness": None, "eta": 0.5},
    moments="reset",
)
