"""What an operator is: a name, its defaults, and a recipe for one module at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lora_evo.adapter import Slot
from lora_evo.config import AdapterConfig


@dataclass(frozen=True)
class Request:
    """Everything an operator may depend on besides the weights themselves."""

    paths: tuple[str, ...]
    configs: tuple[AdapterConfig, ...]
    seed: int
    strength: float | None
    weights: tuple[float, ...] | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class SlotChild:
    """One module of a child, in the first parent's rank, scale and dtype.

    `relative_change` is |D' - D| / |D| against the first parent before rounding to the storage
    dtype (None when D = 0 and D' is not); `effective_rank` and `rank` are the child's.
    `parent_norm` is |D|. `moments_valid`: whether the optimiser moments of the parent `source`
    (counted from 0) still fit these factors.
    """

    slot: Slot
    source: int
    relative_change: float | None
    effective_rank: float
    rank: int
    moments_valid: bool
    parent_norm: float
    truncation_loss: float = 0.0


Recipe = Callable[[str, Sequence[Slot]], SlotChild]


@dataclass(frozen=True)
class Operator:
    """An evolutionary operator.

    `prepare` checks the request and returns the recipe, which maps a module path and the parents'
    slots there to the child's slot; recipes for different modules may run in any order.
    `default_strength` is None for operators without a strength.
    """

    name: str
    kind: Literal["mutation", "crossover"]
    summary: str
    preserves: str
    prepare: Callable[[Request], Recipe]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    default_strength: float | None = None
    moments: str = ""
