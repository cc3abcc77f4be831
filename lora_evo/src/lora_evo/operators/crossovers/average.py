"""Crossover that averages the updates: D = sum_k w_k D_k, with weights that add up to 1.

The mean is taken of the updates s*B*A through the joint core, then truncated to the first
parent's rank; averaging A and B separately instead (as LoRA mergers often do, and
`factor_average` shows) gives sum_jk w_j w_k B_j A_k, whose cross terms depend on the gauge of the
parents. Independent parents with decaying spectra lose little by the truncation; the loss is
reported. Without weights all parents count alike. Preserves: everything the parents agree on;
the child depends on the parents' updates alone.
"""

from lora_evo.operators.crossovers.joint_core import blend
from lora_evo.operators.operator import Operator, Request


def shares(request: Request) -> tuple[float, ...]:
    """The weights of the request, or equal ones, divided by their sum."""
    weights = request.weights or (1.0,) * len(request.configs)
    return tuple(weight / sum(weights) for weight in weights)


AVERAGE = Operator(
    name="average",
    kind="crossover",
    summary="the weighted mean of the parents' updates, truncated to the first parent's rank",
    preserves="what the parents agree on, rank; free of gauge",
    prepare=lambda request: blend(shares(request)),
    moments="reset",
)
