"""The operators, by name, and what it takes to write another one."""

from collections.abc import Mapping

from lora_evo.operators.average import AVERAGE
from lora_evo.operators.component_masking import COMPONENT_MASKING
from lora_evo.operators.dare import DARE
from lora_evo.operators.extrapolate import EXTRAPOLATE
from lora_evo.operators.factor_average import FACTOR_AVERAGE
from lora_evo.operators.factor_dare import FACTOR_DARE
from lora_evo.operators.factor_extrapolate import FACTOR_EXTRAPOLATE
from lora_evo.operators.factor_xes import FACTOR_XES
from lora_evo.operators.fitness import checked_number
from lora_evo.operators.full_gaussian import FULL_GAUSSIAN
from lora_evo.operators.joint_core import unchanged
from lora_evo.operators.layer_selective_gaussian import LAYER_SELECTIVE_GAUSSIAN
from lora_evo.operators.measured import measured
from lora_evo.operators.neftune import NEFTUNE
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild
from lora_evo.operators.slot_swap import SLOT_SWAP
from lora_evo.operators.step import solve_step
from lora_evo.operators.strength import checked_strength
from lora_evo.operators.subspace_rotation import SUBSPACE_ROTATION
from lora_evo.operators.svd_structured import SVD_STRUCTURED
from lora_evo.operators.svd_subspace import SVD_SUBSPACE
from lora_evo.operators.xes import XES

OPERATORS: Mapping[str, Operator] = {
    operator.name: operator
    for operator in (
        SVD_STRUCTURED,
        SUBSPACE_ROTATION,
        COMPONENT_MASKING,
        FULL_GAUSSIAN,
        LAYER_SELECTIVE_GAUSSIAN,
        NEFTUNE,
        SLOT_SWAP,
        SVD_SUBSPACE,
        DARE,
        EXTRAPOLATE,
        AVERAGE,
        XES,
        FACTOR_AVERAGE,
        FACTOR_DARE,
        FACTOR_EXTRAPOLATE,
        FACTOR_XES,
    )
}

__all__ = [
    "OPERATORS",
    "Operator",
    "Recipe",
    "Request",
    "SlotChild",
    "checked_number",
    "checked_strength",
    "measured",
    "solve_step",
    "unchanged",
]
