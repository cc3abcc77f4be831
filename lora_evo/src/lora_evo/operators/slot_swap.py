"""The crossover `slot_swap`, which takes the pair (A, B) of every module whole from one parent."""

import math
from collections.abc import Mapping, Sequence

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.thin import prepared, thin
from lora_evo.linalg.updates import Gap, slot_gap
from lora_evo.operators.measured import SlotChild
from lora_evo.operators.operator import Recipe, Request, check_equal_ranks, uniform, units_of

# Below this share of the squared norms, their difference loses digits in single precision.
_CLOSE = 1e-2


def slot_swap(request: Request) -> Recipe:
    """Take the pair (A, B) of every module whole from one parent.

    The layer-wise crossover of PopuLoRA (arXiv 2605.16727): exact, free of factorization, and the
    only crossover after which optimiser moments stay valid (they move with the slot). A unit is one
    module (`level=module`), all modules of one block, such as the attention of a layer
    (`level=block`), or of one numbered layer (`level=layer`); every unit draws its parent on its
    own, with equal chances or in proportion to the weights. If all units of a child fell to one
    parent, one unit, drawn too, goes to another, so that a child of unequal parents is never a
    copy.
    """
    check_equal_ranks(
        request,
        "slot_swap moves factors whole: give it parents of equal rank, or use average",
    )
    weights = request.weights or (1.0,) * len(request.configs)
    units = units_of(request)
    chosen = assign(sorted(set(units.values())), weights, request.seed)
    return lambda path, slots: _take(path, slots, chosen[units[path]])


def _take(path: str, slots: Sequence[Slot], source: int) -> SlotChild:
    first, taken = slots[0], slots[source]
    same_scale = taken.scale == first.scale
    # A slot keeps its update under the first parent's scale: (s_k / s_1) B_k.
    b = taken.B if same_scale else taken.B.double() * (taken.scale / first.scale)
    own = _Grams(taken)
    values = torch.linalg.svdvals(own.core)
    if source == 0:
        change: float | None = 0.0
        norm = float(torch.linalg.vector_norm(values))
    else:
        gap = _gap(path, first, taken, own)
        change, norm = gap.relative_change, gap.first
    slot = Slot(taken.A, b, first.scale)
    return SlotChild(slot, values, change, norm, source=source, moments_valid=same_scale)


class _Grams:
    """Both factors of a slot, split into bases and triangles."""

    def __init__(self, slot: Slot) -> None:
        self.left, self.right = thin(prepared(slot.B)), thin(prepared(slot.A).T)
        self.core = self.left.upper.mm(self.right.upper.T).mul(slot.scale)


def _gap(path: str, first: Slot, taken: Slot, own: _Grams) -> Gap:
    """Return `slot_gap`, in the precision of the factors as long as the updates are not close."""
    other = _Grams(first)
    one, two = (float(torch.linalg.matrix_norm(grams.core)) for grams in (other, own))
    left = _inner(other.left.factor, own.left.factor)
    right = _inner(other.right.factor, own.right.factor)
    squared = one**2 + two**2 - 2 * first.scale * taken.scale * float((left * right).sum())
    if squared > _CLOSE * (one**2 + two**2):
        return Gap(one, two, math.sqrt(squared))
    return slot_gap(path, first, taken)


def _inner(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    precision = torch.promote_types(one.dtype, two.dtype)
    return (one.to(precision).T @ two.to(precision)).double()


def assign(units: Sequence[str], weights: Sequence[float], seed: int) -> Mapping[str, int]:
    """Return the parent (counted from 0) of every unit; each draw depends on the seed and its
    unit."""
    chosen = {unit: _draw(weights, uniform(seed, unit, "parent")) for unit in units}
    possible = [index for index, weight in enumerate(weights) if weight > 0]
    if len(units) > 1 and len(possible) > 1 and len(set(chosen.values())) == 1:
        unit = units[int(uniform(seed, "odd unit") * len(units))]
        rest = list(weights)
        rest[chosen[unit]] = 0.0
        chosen[unit] = _draw(rest, uniform(seed, "odd parent"))
    return chosen


def _draw(weights: Sequence[float], point: float) -> int:
    target = point * sum(weights)
    last = 0
    for index, weight in enumerate(weights):
        if weight > 0:
            last = index
            if target < weight:
                return index
        target -= weight
    return last
