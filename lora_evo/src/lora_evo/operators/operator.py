"""What an operator is: a name, its defaults, and a recipe for one module at a time."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lora_evo.errors import LoraEvoError, is_number
from lora_evo.files.adapter import Slot
from lora_evo.files.adapter_config import AdapterConfig

# Names that the doors of this package give to their own arguments.
_SETTINGS = ("gauge", "overwrite", "progress", "seed", "strength", "threads", "weights")
_PLACES = ("adapter", "out", "out_dir", "parent", "parent_dir", "parent_dirs", "parents")
RESERVED = frozenset(("operator", *_SETTINGS, *_PLACES))


@dataclass(frozen=True)
class Request:
    """Everything an operator may depend on besides the weights themselves."""

    paths: tuple[str, ...]
    """All modules of the child."""
    configs: tuple[AdapterConfig, ...]
    """Of the parents, in order."""
    seed: int
    strength: float | None
    """None for operators without one."""
    weights: tuple[float, ...] | None
    """None when none were given."""
    parameters: Mapping[str, Any]
    """A value for every name in the operator's `defaults`, unchecked: `prepare` checks them."""


@dataclass(frozen=True, eq=False)
class SlotChild:
    """One module of a child, in the first parent's rank, scale and dtype."""

    slot: Slot
    source: int
    """The parent, counted from 0, that the optimiser moments would come from."""
    relative_change: float | None
    """|D' - D| / |D| against the first parent, before rounding to the storage dtype; None when
    D = 0 and D' is not."""
    effective_rank: float
    rank: int
    """The child's numerical rank."""
    moments_valid: bool
    """Whether the optimiser moments of `source` still fit these factors."""
    parent_norm: float
    """|D|."""
    truncation_loss: float = 0.0
    """Frobenius norm of what the rank cut off over that of the whole."""


Recipe = Callable[[str, Sequence[Slot]], SlotChild]


@dataclass(frozen=True)
class Operator:
    """An evolutionary operator. Raises `LoraEvoError` when a field cannot be what it is for."""

    name: str
    kind: Literal["mutation", "crossover"]
    summary: str
    preserves: str
    prepare: Callable[[Request], Recipe]
    """Checks the request and returns the recipe, which maps a module path and the parents' slots
    there (not to be changed) to the child's; recipes of different modules may run in any order, and
    in threads."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The parameters, with values that JSON can hold."""
    default_strength: float | None = None
    """None for operators without a strength."""
    moments: str = ""
    """In a word, what becomes of the optimiser moments."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise LoraEvoError(
                f"an operator is named {self.name!r}; expected letters, digits and underscores"
            )
        what = f"{self.name} is of kind {self.kind!r}"
        if self.kind not in ("mutation", "crossover"):
            raise LoraEvoError(f"{what}; expected 'mutation' or 'crossover'")
        if not callable(self.prepare):
            raise LoraEvoError(
                f"{self.name}.prepare is {self.prepare!r}; expected a function of a Request"
            )
        strength = self.default_strength
        if strength is not None and not (is_number(strength) and strength >= 0):
            raise LoraEvoError(
                f"{self.name}.default_strength is {strength!r}; expected a number of at least 0, "
                "or None"
            )
        for name in self.defaults:
            if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
                raise LoraEvoError(
                    f"{self.name} has a parameter {name!r}; expected a plain name other than "
                    f"{', '.join(sorted(RESERVED))}"
                )
        try:
            json.dumps(dict(self.defaults), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise LoraEvoError(
                f"the defaults of {self.name} cannot be written as JSON ({error})"
            ) from error
