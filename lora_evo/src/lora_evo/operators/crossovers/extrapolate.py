"""Crossover that goes from the worse parent through the better one and a little beyond.

    D = D_worse + eta (D_better - D_worse)

on the updates s*B*A of two parents, truncated to the first parent's rank: the extrapolative
crossover of PopuLoRA (arXiv 2605.16727), without the cross terms that it has on factors, where
D is quadratic in eta (`factor_extrapolate`). Which parent is better is told by
`fitness=[f1, f2]`; without it the first parent counts as the better one, as it does on a tie. eta
is drawn once per child, evenly from [eta_low, eta_high], or given as `eta`; 1 is the better
parent itself, 0 the worse. Preserves: what the parents agree on.
"""

from lora_evo.errors import LoraEvoError
from lora_evo.linalg.noise import uniform
from lora_evo.operators.crossovers.joint_core import blend
from lora_evo.operators.operator import Operator, Request
from lora_evo.operators.parameters import checked_fitness, checked_number

_FARTHEST = 4.0


def beyond(request: Request) -> tuple[float, float]:
    """The coefficients of both parents, (eta, 1 - eta) in the order of better and worse."""
    if len(request.configs) != 2:
        raise LoraEvoError(
            f"extrapolation goes from one parent to another; got {len(request.configs)} parents, "
            "expected 2"
        )
    if request.weights is not None:
        raise LoraEvoError(
            "extrapolation takes no weights; tell which parent is better with --set "
            "'fitness=[0.7, 0.4]', or put the better one first"
        )
    fitness = checked_fitness(request) or (1.0, 0.0)
    if request.parameters["eta"] is None:
        low = checked_number(request, "eta_low", 0.0, _FARTHEST)
        high = checked_number(request, "eta_high", low, _FARTHEST)
        eta = low + (high - low) * uniform(request.seed, "eta")
    else:
        eta = checked_number(request, "eta", 0.0, _FARTHEST)
    return (eta, 1 - eta) if fitness[0] >= fitness[1] else (1 - eta, eta)


EXTRAPOLATE = Operator(
    name="extrapolate",
    kind="crossover",
    summary="from the worse parent's updates through the better one's and beyond (first = better)",
    preserves="what the parents agree on, rank; free of gauge",
    prepare=lambda request: blend(beyond(request)),
    defaults={"fitness": None, "eta": None, "eta_low": 1.1, "eta_high": 1.3},
    moments="reset",
)
