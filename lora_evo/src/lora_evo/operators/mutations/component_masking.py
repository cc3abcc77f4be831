"""Mutation that masks singular components, the small ones more often, and leaves none dead.

With D = s*B*A = sum_j S_j u_j v_j^T, components are drawn without replacement, each draw with
chances in proportion to S_j^-tail (`tail=0`: all alike; an exponential race, Efraimidis & Spirakis
2006). In the order drawn, a component is masked when its square still fits into what is left of
(strength * |D|)^2; the first that does not fit is shrunk, at the end, by the square root of the
rest. So |D' - D| = strength * |D| exactly. Component masking of PopuLoRA (arXiv 2605.16727), which
draws all components alike.

Masking both factors would kill the rank: neither would ever see a gradient again. Here a masked
component gives its place to a fresh random row of A, as long as the others, with a column of zeros
in B, as LoRA begins: the next training step moves it.

Gauge: the child's update depends on the parent's alone (as long as its singular values differ), and
its factors are written by component, A' = rho V^T with rho = |A| / sqrt(r), B' = U S' / (s rho):
|A| stays, and B carries the spectrum. A module with D = 0 stays as it is, and alive.
"""

import math

import torch
from torch.nn.functional import pad

from lora_evo.files.adapter import Slot
from lora_evo.linalg.noise import stream
from lora_evo.linalg.spectrum import NEGLIGIBLE
from lora_evo.linalg.thin import prepared
from lora_evo.operators.measured import unchanged
from lora_evo.operators.mutations.components import components
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild
from lora_evo.operators.parameters import checked_number, checked_strength


def _prepare(request: Request) -> Recipe:
    strength = checked_strength(request, "component_masking")
    tail = checked_number(request, "tail", 0.0, 10.0)
    return lambda path, slots: _mask(path, slots[0], request.seed, strength, tail)


def _mask(path: str, slot: Slot, seed: int, strength: float, tail: float) -> SlotChild:
    parts = components(slot, seed, path)
    if strength == 0.0 or parts.size == 0.0:
        return unchanged(slot)
    values = parts.values / parts.size
    draws = torch.from_numpy(stream(seed, path, "S").standard_exponential(len(values)))
    kept, masked = masked_values(values, draws, strength, tail)
    length = float(torch.linalg.vector_norm(prepared(slot.A), dtype=torch.float64)) / slot.rank**0.5
    a = parts.right.spread(parts.v * length)
    b = parts.left.spread(parts.u[:, : len(kept)] * (kept * (parts.size / length)))
    # Zeros where a side of the module is narrower than its rank.
    a, b = (pad(side, (0, slot.rank - side.shape[1])) for side in (a, b))
    a = a.T
    # The columns of B there are zero already. Where the input is narrower than the rank, the rows
    # of A beyond it start afresh as well.
    for row in (*masked.nonzero().flatten().tolist(), *range(len(parts.v), slot.rank)):
        drawn = torch.from_numpy(stream(seed, path, "fresh", str(row)).standard_normal(a.shape[1]))
        a[row] = drawn * (length / float(torch.linalg.vector_norm(drawn)))
    change = float(torch.linalg.vector_norm(kept - values))
    return parts.child(Slot(a, b, slot.scale), change, kept * parts.size)


def masked_values(
    values: torch.Tensor, draws: torch.Tensor, strength: float, tail: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The values left over and which are masked.

    `values` [k] have norm 1, largest first; `draws` [k] are standard exponential.
    """
    kept, masked = values.clone(), torch.zeros(len(values), dtype=torch.bool)
    alive = values > NEGLIGIBLE * values[0]
    race = torch.where(alive, draws * (values / values[0]) ** tail, math.inf)
    left, shrunk = strength**2, -1
    for index in torch.argsort(race, stable=True)[: int(alive.sum())].tolist():
        energy = float(values[index]) ** 2
        if energy <= left:
            left -= energy
            kept[index], masked[index] = 0.0, True
        elif shrunk < 0:
            shrunk = index
    if shrunk >= 0:  # Otherwise all fitted: the strength is 1 but for rounding.
        kept[shrunk] -= math.sqrt(left)
    return kept, masked


COMPONENT_MASKING = Operator(
    name="component_masking",
    kind="mutation",
    summary="mask random singular components, small ones more often, and start them afresh",
    preserves="the other components, |A|, number of live ranks; rewrites the gauge by component",
    prepare=_prepare,
    defaults={"tail": 1.0},
    default_strength=0.15,
    moments="reset",
)
