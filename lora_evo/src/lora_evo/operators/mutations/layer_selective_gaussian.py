"""Mutation by Gaussian noise on a share of the modules; all others stay exactly the parent's.

The layer-selective mutation of PopuLoRA (arXiv 2605.16727). `share` of the units, rounded and at
least one, are chosen without replacement: those with the smallest of one uniform draw per unit,
keyed by the seed and the unit. A unit is one module (`level=module`), all modules of one block,
such as the attention of a layer (`level=block`), or of one numbered layer (`level=layer`). Each
chosen module gets the noise of `full_gaussian` under the same seed.

The strength is the relative change |D' - D| / |D| of every *chosen* module, whatever the others
hold; that of the whole adapter is smaller, by the square root of the share of its squared norm that
was chosen, and stands in the child's lineage. Gauge: as `full_gaussian`.
"""

from collections.abc import Sequence

from lora_evo.errors import LoraEvoError
from lora_evo.linalg.noise import uniform
from lora_evo.operators.mutations.full_gaussian import with_gaussian_noise
from lora_evo.operators.operator import Operator, Recipe, Request
from lora_evo.operators.parameters import checked_number, checked_strength, units_of


def _prepare(request: Request) -> Recipe:
    strength = checked_strength(request, "layer_selective_gaussian")
    share = checked_number(request, "share", 0.0, 1.0)
    if share == 0.0:
        raise LoraEvoError("share is 0; expected above 0 (for a copy, set the strength to 0)")
    units = units_of(request)
    chosen = choose(sorted(set(units.values())), share, request.seed)
    return lambda path, slots: with_gaussian_noise(
        path, slots[0], request.seed, strength if units[path] in chosen else 0.0
    )


def choose(units: Sequence[str], share: float, seed: int) -> frozenset[str]:
    """round(share * number), at least one, of the units, in any order the same ones."""
    count = max(1, round(share * len(units)))
    drawn = sorted((uniform(seed, unit, "chosen"), unit) for unit in units)
    return frozenset(unit for _, unit in drawn[:count])


LAYER_SELECTIVE_GAUSSIAN = Operator(
    name="layer_selective_gaussian",
    kind="mutation",
    summary="add Gaussian noise to both factors of a random share of the modules (or layers)",
    preserves="all other modules exactly; as full_gaussian on the chosen ones",
    prepare=_prepare,
    defaults={"share": 1 / 3, "level": "module"},
    default_strength=0.15,
    moments="reset on the chosen modules",
)
