"""Lineage: the record of an adapter (lineage.json), and the family tree of a folder of them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Self

from lora_evo.errors import LoraEvoError
from lora_evo.peft.directory import (
    PathLike,
    adapter_folders,
    content_hash,
    readable,
    shortest_unique_names,
)

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
    "quantization": (str, NoneType),
}


@dataclass(frozen=True)
class ModuleTrace:
    """What happened to one module: the numbers of its `SlotChild`."""

    relative_change: float | None
    effective_rank: float
    rank: int
    truncation_loss: float
    source: int


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """The whole record, the same at any time and place. Hashes are `content_hash` values.

    - generation: 1 + the largest of the parents' (0 for a founder and an adapter without lineage).
    - moments_valid: whether optimiser moments may be carried over, each module's from its source.
    - quantization: the 4 bits of the base that it belongs to; None: plain weights.
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
        """Return the record of a population's first member: it has no parents."""
        parameters = {"name": name}
        return cls(operator="founder", seed=seed, parameters=parameters, content_hash=content_hash)

    def to_json(self) -> str:
        plain = {**vars(self), "modules": {path: vars(row) for path, row in self.modules.items()}}
        if self.quantization is None:
            del plain["quantization"]
        return json.dumps(plain, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse lineage.json; raises `LoraEvoError` when a field is missing or of another kind."""
        try:
            raw = json.loads(text)
            raw["modules"] = {path: ModuleTrace(**row) for path, row in raw["modules"].items()}
            raw["parents"] = tuple(str(parent) for parent in raw["parents"])
            raw["weights"] = None if raw["weights"] is None else tuple(raw["weights"])
            lineage = cls(**raw)
            lost = vars(lineage).keys() - raw.keys() - {"quantization"}
            if lost:
                raise KeyError(*lost)
            for name, kinds in _KINDS.items():
                if not isinstance(getattr(lineage, name), kinds):
                    raise TypeError(f"{name} is {getattr(lineage, name)!r}")
            if not lineage.parents and lineage.generation:
                raise ValueError("no parents")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise LoraEvoError(
                f"{LINEAGE_FILE} is damaged ({error}); remove or restore it"
            ) from error
        return lineage


def read_lineage(directory: PathLike) -> Lineage | None:
    """Return the lineage in an adapter directory, or None where there is none."""
    file = Path(directory) / LINEAGE_FILE
    if not file.is_file():
        return None
    try:
        return Lineage.from_json(file.read_text(encoding="utf-8-sig"))
    except (LoraEvoError, UnicodeDecodeError) as error:
        raise LoraEvoError(f"{directory}: {error}") from error


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

    roots: where to search, by default the folder that holds the child. Also returns a sentence for
    every parent that is not there as it was.
    """
    places = [Path(child).resolve().parent] if roots is None else [Path(root) for root in roots]
    wanted = set(lineage.parents)
    folders: dict[str, Path] = {}
    unreadable: list[str] = []
    for folder, content in readable(adapter_folders(places), content_hash, unreadable.append):
        folders.setdefault(content, folder)
        if wanted <= folders.keys():
            break
    problems = [
        f"the parent {content[:24]} was not found under "
        f"{', '.join(str(place) for place in places)} (moved, or trained since); name the folder "
        "that holds it as it was then"
        for content in dict.fromkeys(lineage.parents)
        if content not in folders
    ]
    if problems:
        problems += [f"could not be read: {reason}" for reason in unreadable]
    return [folders[content] for content in lineage.parents if content in folders], problems


def parents_on_disk(child: PathLike) -> list[Path]:
    """Return the folders next to a child that hold its parents. Raises `LoraEvoError`."""
    folders, problems = find_parents(child, lineage_of(child))
    if problems:
        raise LoraEvoError(f"{child}: {'; '.join(problems)}")
    return list(dict.fromkeys(folders))


@dataclass(frozen=True)
class Member:
    name: str
    """The last parts of its path, as many as tell it from the others."""
    content: str
    lineage: Lineage | None

    @property
    def trained(self) -> bool:
        """Whether the weights have changed since the child was made."""
        return self.lineage is not None and self.lineage.content_hash != self.content

    @property
    def generation(self) -> int:
        """The generation on record; 0 for an adapter that is no child."""
        return 0 if self.lineage is None else self.lineage.generation

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the hashes and the main fields of the lineage, JSON-ready."""
        record, fields = self.lineage, ("operator", "seed", "relative_change")
        return {
            "name": self.name,
            "content_hash": self.content,
            "trained": self.trained,
            "generation": self.generation,
            **{field: getattr(record, field, None) for field in fields},
            "parents": list(record.parents) if record else [],
        }


def family(
    roots: Iterable[PathLike], unreadable: Callable[[str], None] | None = None
) -> list[Member]:
    """Return all adapters at or below the given folders, named by their shortest unique paths.

    unreadable: gets the reason of one that cannot be read; None: raise `LoraEvoError`.
    """

    def read(folder: Path) -> tuple[str, Lineage | None]:
        return content_hash(folder), read_lineage(folder)

    members = dict(readable(adapter_folders(Path(root) for root in roots), read, unreadable))
    names = shortest_unique_names(list(members))
    return [Member(name, *member) for name, member in zip(names, members.values(), strict=True)]


def pedigree(members: Sequence[Member]) -> dict[str, tuple[str, ...]]:
    """Return the parents of each member, by name and in order of generation.

    They are names, or contents that no member has. A content that several members hold belongs to
    the one of the lowest generation; a member that was trained since counts for what it was made
    as, too. Of adapters with one lineage, born as one, all but the first have it as their parent.
    """
    by_age = sorted(members, key=lambda m: (m.generation, m.name.rpartition("/")[2], m.name))
    holder: dict[str, str] = {}
    for member in by_age:
        holder.setdefault(member.content, member.name)
    for member in by_age:
        if member.lineage is not None:
            holder.setdefault(member.lineage.content_hash, member.name)
    parents: dict[str, tuple[str, ...]] = {}
    born: dict[str, str] = {}
    for member in by_age:
        if member.lineage is not None:
            first = born.setdefault(member.lineage.to_json(), member.name)
            if first != member.name:
                parents[member.name] = (first,)
                continue
        contents = dict.fromkeys(member.lineage.parents if member.lineage else ())
        names = ((holder.get(content, content), content) for content in contents)
        parents[member.name] = tuple(c if name == member.name else name for name, c in names)
    return parents


def tree(members: Sequence[Member]) -> str:
    """Return the family as text: every child under its first parent, with the others named."""
    links, by_name = pedigree(members), {member.name: member for member in members}
    children: dict[str, list[str]] = {}
    for name, parents in links.items():
        for parent in parents[:1]:
            children.setdefault(parent, []).append(name)
    roots = [name for name, parents in links.items() if not parents]
    named = dict.fromkeys(parent for parents in links.values() for parent in parents)
    roots += [name for name in named if name in children and name not in by_name]
    lines: list[str] = []
    waiting = [(root, "", "") for root in reversed(roots)]
    while waiting:
        name, branch, indent = waiting.pop()
        lines.append(f"{branch}{_label(name, by_name, links.get(name, ()))}")
        below = children.get(name, [])
        for child in reversed(below):
            last = child == below[-1]
            further = indent + ("    " if last else "│   ")
            waiting.append((child, f"{indent}{'└── ' if last else '├── '}", further))
    return "\n".join(lines)


def short_hash(content: str) -> str:
    return content.partition(":")[2][:10]


def _label(name: str, members: Mapping[str, Member], parents: Sequence[str]) -> str:
    member = members.get(name)
    if member is None:
        return f"{short_hash(name)}  (not here, or trained since)"
    parts = [name, short_hash(member.content), f"generation {member.generation}"]
    record = member.lineage
    if record is not None:
        parts.append(f"{record.operator} seed {record.seed}")
        others = [other if other in members else short_hash(other) for other in parents[1:]]
        if others:
            parts.append("with " + ", ".join(others))
        if record.relative_change is not None:
            parts.append(f"change {record.relative_change:.3g}")
        if member.trained:
            parts.append("trained since")
    return "  ".join(parts)
