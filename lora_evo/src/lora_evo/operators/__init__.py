"""The operators, by name."""

from collections.abc import Mapping

from lora_evo.operators.operator import Operator
from lora_evo.operators.slot_swap import SLOT_SWAP
from lora_evo.operators.svd_structured import SVD_STRUCTURED

OPERATORS: Mapping[str, Operator] = {
    operator.name: operator for operator in (SVD_STRUCTURED, SLOT_SWAP)
}

__all__ = ["OPERATORS", "Operator"]
