"""The adapters of a folder with their lineages, and who descends from whom."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.breeding.lineage import Lineage, read_lineage
from lora_evo.files.directory import PathLike, content_hash
from lora_evo.files.folders import adapter_folders, shortest_unique_names


@dataclass(frozen=True)
class Member:
    """One adapter on disk."""

    name: str
    """The last parts of its path, as many as tell it from the others."""
    content: str
    """Its content hash."""
    lineage: Lineage | None

    @property
    def trained(self) -> bool:
        """Whether the weights have changed since the adapter was bred."""
        return self.lineage is not None and self.lineage.content_hash != self.content

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the lineage's heading fields."""
        record, fields = self.lineage, ("operator", "seed", "relative_change")
        return {
            "name": self.name,
            "content_hash": self.content,
            "trained": self.trained,
            "generation": record.generation if record else 0,
            **{field: getattr(record, field, None) for field in fields},
            "parents": list(record.parents) if record else [],
        }


def family(roots: Iterable[PathLike]) -> list[Member]:
    """All adapters at or below the given folders, named by their shortest unique path."""
    folders = adapter_folders(Path(root) for root in roots)
    return [
        Member(name, content_hash(folder), read_lineage(folder))
        for folder, name in zip(folders, shortest_unique_names(folders), strict=True)
    ]


@dataclass(frozen=True)
class Pedigree:
    """A family as a graph without circles."""

    members: Mapping[str, Member]
    """By name."""
    missing: tuple[str, ...]
    """Contents of parents that nobody here holds."""
    parents: Mapping[str, tuple[str, ...]]
    """By member: its parents in the lineage's order, each once, names or missing contents."""
    layers: Mapping[str, int]
    """The longest line of descent, but never below the recorded generation, so that a family whose
    founders are gone keeps its place; a missing parent stands one layer above its highest child."""


def pedigree(members: Sequence[Member]) -> Pedigree:
    """Link the members of a family.

    A content that several members hold belongs to the one of the lowest generation; a member
    that was trained since counts for what it was born as, too.
    """
    by_age = sorted(members, key=lambda member: (_generation(member), member.name))
    holder: dict[str, str] = {}
    for member in by_age:
        holder.setdefault(member.content, member.name)
    for member in by_age:
        if member.lineage is not None:
            holder.setdefault(member.lineage.content_hash, member.name)
    wanted = {
        member.name: tuple(
            dict.fromkeys(holder.get(content, content) for content in member.lineage.parents)
        )
        for member in by_age
        if member.lineage is not None
    }
    layers: dict[str, int] = {}
    parents: dict[str, tuple[str, ...]] = {}
    present = {member.name: member for member in by_age}
    waiting = list(by_age)
    while waiting:
        ready = [
            member
            for member in waiting
            if all(p in layers or p not in present for p in wanted.get(member.name, ()))
        ]
        # Lineages that name each other in a circle are false somewhere: the eldest starts it.
        for member in ready or waiting[:1]:
            names = tuple(
                name if name in layers or name not in present else present[name].content
                for name in wanted.get(member.name, ())
            )
            parents[member.name] = names
            above = [layers[name] + 1 for name in names if name in present]
            layers[member.name] = max(_generation(member), bool(names), *above, 0)
        waiting = [member for member in waiting if member.name not in layers]
    absent: dict[str, int] = {}
    for name, names in parents.items():
        for parent in names:
            if parent not in present:
                layer = max(layers[name] - 1, 0)
                absent[parent] = min(absent.get(parent, layer), layer)
    return Pedigree(present, tuple(sorted(absent)), parents, {**layers, **absent})


def _generation(member: Member) -> int:
    return 0 if member.lineage is None else max(member.lineage.generation, 1)
