"""Lineage: the record of an adapter, lineage.json in its directory."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from lora_evo.errors import LoraEvoError
from lora_evo.peft.directory import PathLike

LINEAGE_FILE = "lineage.json"
_KINDS: dict[Any, tuple[str, ...]] = {
    str: ("operator", "content_hash"),
    int: ("seed", "generation"),
    bool: ("moments_valid",),
    dict: ("parameters", "versions"),
    int | float: ("truncation_loss",),
    int | float | None: ("strength", "relative_change"),
    str | None: ("quantization",),
}


@dataclass(frozen=True)
class ModuleTrace:
    """The measures of one module: those of its `SlotChild`."""

    relative_change: float | None
    effective_rank: float
    rank: int
    truncation_loss: float
    source: int


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """The record of an adapter, without times and paths. Hashes are `content_hash` values.

    - generation: 1 + the largest of the parents'; 0 for a founder or an adapter without lineage.
    - moments_valid: whether each module may keep the optimiser moments of its source.
    - quantization: the 4-bit format of its base; None for plain weights.
    """

    operator: str
    seed: int
    strength: float | None = None
    weights: tuple[float, ...] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    parents: tuple[str, ...] = ()
    generation: int = 0
    content_hash: str
    moments_valid: bool = False
    relative_change: float | None = None
    truncation_loss: float = 0.0
    modules: Mapping[str, ModuleTrace] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    quantization: str | None = None

    @classmethod
    def founder(cls, name: str, seed: int, content_hash: str) -> Self:
        """Return the record of a first member, without parents."""
        parameters = {"name": name}
        return cls(operator="founder", seed=seed, parameters=parameters, content_hash=content_hash)

    def to_json(self) -> str:
        plain = {**vars(self), "modules": {path: vars(row) for path, row in self.modules.items()}}
        if self.quantization is None:
            del plain["quantization"]
        return json.dumps(plain, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse lineage.json. Raises `LoraEvoError` if a field is missing or of another type."""
        try:
            raw = json.loads(text)
            raw["modules"] = {path: ModuleTrace(**row) for path, row in raw["modules"].items()}
            raw["parents"] = tuple(str(parent) for parent in raw["parents"])
            raw["weights"] = None if raw["weights"] is None else tuple(raw["weights"])
            lineage = cls(**raw)
            if missing := vars(lineage).keys() - raw.keys() - {"quantization"}:
                raise KeyError(*missing)
            for name, kind in ((name, kind) for kind, names in _KINDS.items() for name in names):
                if not isinstance(getattr(lineage, name), kind):
                    raise TypeError(f"{name} is {getattr(lineage, name)!r}")
            if not lineage.parents and lineage.generation:
                raise ValueError("no parents")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise LoraEvoError(
                f"{LINEAGE_FILE} is damaged ({error}); remove or restore it"
            ) from error
        return lineage


def read_lineage(directory: PathLike) -> Lineage | None:
    """Return the lineage in an adapter directory; None if it has none."""
    file = Path(directory) / LINEAGE_FILE
    if not file.is_file():
        return None
    try:
        return Lineage.from_json(file.read_text(encoding="utf-8-sig"))
    except (LoraEvoError, UnicodeDecodeError) as error:
        raise LoraEvoError(f"{directory}: {error}") from error
