"""The record of an adapter, lineage.json: its parents, its operator, and what that changed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Self

from lora_evo.errors import FileDamage, LoraEvoError
from lora_evo.files.directory import PathLike, folders_by_content

LINEAGE_FILE = "lineage.json"

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
    """1 + the largest of the parents' (0 for a founder and an adapter without lineage)."""
    content_hash: str
    moments_valid: bool
    """Whether optimiser moments may be carried over, each module's from its source."""
    relative_change: float | None
    truncation_loss: float
    modules: Mapping[str, ModuleTrace]
    versions: Mapping[str, str]

    @classmethod
    def founder(cls, name: str, seed: int, content_hash: str) -> Self:
        """Return the record of a population's first member: it has no parents."""
        return cls(
            operator="founder",
            seed=seed,
            strength=None,
            weights=None,
            parameters={"name": name},
            parents=(),
            generation=0,
            content_hash=content_hash,
            moments_valid=False,
            relative_change=None,
            truncation_loss=0.0,
            modules={},
            versions={},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of lineage.json."""
        return asdict(self)

    def to_json(self) -> str:
        """Return the text of lineage.json."""
        return json.dumps(self.to_dict(), indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse lineage.json; raises `FileDamage` when a field is missing or of another kind."""
        try:
            raw = json.loads(text)
            raw["modules"] = {path: ModuleTrace(**row) for path, row in raw["modules"].items()}
            raw["parents"] = tuple(str(parent) for parent in raw["parents"])
            raw["weights"] = None if raw["weights"] is None else tuple(raw["weights"])
            lineage = cls(**raw)
            for name, kinds in _KINDS.items():
                if not isinstance(getattr(lineage, name), kinds):
                    raise TypeError(f"{name} is {getattr(lineage, name)!r}")
            if not lineage.parents and lineage.generation:
                raise ValueError("no parents")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise FileDamage(
                f"{LINEAGE_FILE} is damaged ({error}); remove or restore it"
            ) from error
        return lineage


def read_lineage(directory: PathLike) -> Lineage | None:
    """Return the lineage in an adapter directory, or None where there is none."""
    file = Path(directory) / LINEAGE_FILE
    if not file.is_file():
        return None
    try:
        return Lineage.from_json(file.read_text(encoding="utf-8"))
    except (FileDamage, UnicodeDecodeError) as error:
        raise FileDamage(f"{directory}: {error}") from error


def lineage_of(directory: PathLike) -> Lineage:
    """Return the lineage of a child; raises `LoraEvoError` where there is none, or no parents."""
    lineage = read_lineage(directory)
    if lineage is None:
        raise LoraEvoError(f"{directory} has no {LINEAGE_FILE}, so its parents are not known")
    if not lineage.parents:
        raise LoraEvoError(f"{directory} is a founder of its population: it has no parents")
    return lineage


def find_parents(
    child: PathLike, lineage: Lineage, roots: Sequence[PathLike] | None = None
) -> tuple[list[Path], list[str]]:
    """Find the folders that hold a child's parents by their contents, in the lineage's order.

    Searched in `roots`, by default the folder that holds the child. Also returns a sentence for
    every parent that is not there as it was when the child was made.
    """
    places = [Path(child).resolve().parent] if roots is None else [Path(root) for root in roots]
    found, unreadable = folders_by_content(places, set(lineage.parents))
    problems = [
        f"the parent {content[:24]} was not found under "
        f"{', '.join(str(place) for place in places)} (moved, or trained since); name the folder "
        "that holds it as it was then"
        for content in dict.fromkeys(lineage.parents)
        if content not in found
    ]
    if problems:
        problems += [f"could not be read: {reason}" for reason in unreadable]
    return [found[content] for content in lineage.parents if content in found], problems


def parents_on_disk(child: PathLike, roots: Sequence[PathLike] | None = None) -> list[Path]:
    """Return the folders that hold the parents of a child, each once, as `find_parents` does.

    Raises `LoraEvoError` when the child has no lineage or a parent is not found.
    """
    found, problems = find_parents(child, lineage_of(child), roots)
    if problems:
        raise LoraEvoError(f"{child}: {'; '.join(problems)}")
    return list(dict.fromkeys(found))
