"""The record beside a child: whose it is, by which operator, and what that changed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Self

from lora_evo.breeding.order import Order
from lora_evo.errors import FileDamage

LINEAGE_FILE = "lineage.json"
_FORMAT = 1

_KINDS: dict[str, type | tuple[type, ...]] = {
    "operator": str,
    "seed": int,
    "strength": (int, float, NoneType),
    "parameters": dict,
    "generation": int,
    "content_hash": str,
    "moments_valid": bool,
    "relative_change": (int, float, NoneType),
    "truncation_loss": (int, float),
    "versions": dict,
    "plugin": (str, NoneType),
}


@dataclass(frozen=True)
class ModuleTrace:
    """What happened to one module: the numbers of its `SlotChild`."""

    relative_change: float | None
    effective_rank: float
    rank: int
    truncation_loss: float
    source: int


@dataclass(frozen=True)
class Lineage:
    """The whole record, the same at any time and place. Hashes are `content_hash` values."""

    operator: str
    seed: int
    strength: float | None
    weights: tuple[float, ...] | None
    parameters: Mapping[str, Any]
    parents: tuple[str, ...]
    generation: int
    """1 + the largest of the parents' (0 for an adapter without lineage)."""
    content_hash: str
    moments_valid: bool
    """Whether optimiser moments may be carried over, each module's from its source."""
    relative_change: float | None
    truncation_loss: float
    modules: Mapping[str, ModuleTrace]
    versions: Mapping[str, str]
    plugin: str | None = None
    """The distribution that brought the operator, with its version among `versions`; None for a
    built-in operator and for one given as an object."""

    @property
    def order(self) -> Order:
        """What to ask for to get this child again."""
        return Order(self.operator, self.seed, self.strength, self.weights, self.parameters)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, as in lineage.json."""
        return {"format": _FORMAT, **asdict(self)}

    def to_json(self) -> str:
        """The text of lineage.json."""
        return json.dumps(self.to_dict(), indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse lineage.json; raises `FileDamage` when a field is missing or of another kind."""
        try:
            raw = json.loads(text)
            if raw.pop("format") != _FORMAT:
                raise FileDamage(
                    f"{LINEAGE_FILE} was written by another version of this package; upgrade "
                    "lora_evo to the version that wrote it, or remove the file to start a family"
                )
            raw["modules"] = {path: ModuleTrace(**row) for path, row in raw["modules"].items()}
            raw["parents"] = tuple(str(parent) for parent in raw["parents"])
            raw["weights"] = None if raw["weights"] is None else tuple(raw["weights"])
            lineage = cls(**raw)
            for name, kinds in _KINDS.items():
                if not isinstance(getattr(lineage, name), kinds):
                    raise TypeError(f"{name} is {getattr(lineage, name)!r}")
            if not lineage.parents:
                raise ValueError("no parents")
        except FileDamage:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise FileDamage(
                f"{LINEAGE_FILE} is damaged ({error}); remove or restore it"
            ) from error
        return lineage


def read_lineage(directory: Path) -> Lineage | None:
    """The lineage beside an adapter, or None for an adapter that was not bred."""
    file = directory / LINEAGE_FILE
    if not file.is_file():
        return None
    try:
        return Lineage.from_json(file.read_text(encoding="utf-8"))
    except (FileDamage, UnicodeDecodeError) as error:
        raise FileDamage(f"{directory}: {error}") from error
