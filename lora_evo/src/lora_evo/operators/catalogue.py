"""The built-in operators, by name."""

from collections.abc import Mapping

from lora_evo.operators.crossovers.average import AVERAGE
from lora_evo.operators.crossovers.dare import DARE
from lora_evo.operators.crossovers.extrapolate import EXTRAPOLATE
from lora_evo.operators.crossovers.factorwise import (
    FACTOR_AVERAGE,
    FACTOR_DARE,
    FACTOR_EXTRAPOLATE,
    FACTOR_XES,
)
from lora_evo.operators.crossovers.slot_swap import SLOT_SWAP
from lora_evo.operators.crossovers.svd_subspace import SVD_SUBSPACE
from lora_evo.operators.crossovers.xes import XES
from lora_evo.operators.mutations.component_masking import COMPONENT_MASKING
from lora_evo.operators.mutations.full_gaussian import FULL_GAUSSIAN
from lora_evo.operators.mutations.layer_selective_gaussian import LAYER_SELECTIVE_GAUSSIAN
from lora_evo.operators.mutations.neftune import NEFTUNE
from lora_evo.operators.mutations.subspace_rotation import SUBSPACE_ROTATION
from lora_evo.operators.mutations.svd_structured import SVD_STRUCTURED
from lora_evo.operators.operator import Operator

OPERATORS: Mapping[str, Operator] = {
    operator.name: operator
    for operator in (
        SVD_STRUCTURED, SUBSPACE_ROTATION, COMPONENT_MASKING, FULL_GAUSSIAN,
        LAYER_SELECTIVE_GAUSSIAN, NEFTUNE, SLOT_SWAP, SVD_SUBSPACE, DARE, EXTRAPOLATE, AVERAGE, XES,
        FACTOR_AVERAGE, FACTOR_DARE, FACTOR_EXTRAPOLATE, FACTOR_XES,
    )
}  # fmt: skip
