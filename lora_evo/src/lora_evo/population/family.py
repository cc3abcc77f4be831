"""The adapters of a folder with their lineages: who descends from whom, drawn as text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.files.directory import (
    PathLike,
    adapter_folders,
    content_hash,
    readable,
    shortest_unique_names,
)
from lora_evo.lineage import Lineage, read_lineage


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

    One that cannot be read raises `LoraEvoError`, or is left out where `unreadable` takes the
    reason.
    """

    def read(folder: Path) -> tuple[str, Lineage | None]:
        return content_hash(folder), read_lineage(folder)

    found = dict(readable(adapter_folders(Path(root) for root in roots), read, unreadable))
    names = shortest_unique_names(list(found))
    return [Member(name, *held) for name, held in zip(names, found.values(), strict=True)]


@dataclass(frozen=True)
class Pedigree:
    """A family as a graph."""

    members: Mapping[str, Member]
    """By name, in order of generation."""
    missing: Mapping[str, int]
    """Contents of parents that no member has, with the generation before their first child's."""
    parents: Mapping[str, tuple[str, ...]]
    """By member: its parents in the lineage's order, each once, names or missing contents.

    Of adapters with one and the same lineage, which were born as one, all but the first have the
    first as their parent: they are what it was, or has become, at other times.
    """


def pedigree(members: Sequence[Member]) -> Pedigree:
    """Link the members of a family.

    A content that several members hold belongs to the one of the lowest generation; a member
    that was trained since counts for what it was made as, too.
    """
    by_age = sorted(members, key=lambda m: (m.generation, m.name.rpartition("/")[2], m.name))
    holder: dict[str, str] = {}
    for member in by_age:
        holder.setdefault(member.content, member.name)
    for member in by_age:
        if member.lineage is not None:
            holder.setdefault(member.lineage.content_hash, member.name)
    missing: dict[str, int] = {}
    parents: dict[str, tuple[str, ...]] = {}
    born: dict[str, str] = {}
    for member in by_age:
        if member.lineage is not None:
            first = born.setdefault(member.lineage.to_json(), member.name)
            if first != member.name:
                parents[member.name] = (first,)
                continue
        names = []
        for content in dict.fromkeys(member.lineage.parents if member.lineage else ()):
            found = holder.get(content, content)
            names.append(content if found == member.name else found)
            if names[-1] == content:
                missing.setdefault(content, member.generation - 1)
        parents[member.name] = tuple(names)
    return Pedigree({member.name: member for member in by_age}, missing, parents)


def tree(members: Sequence[Member]) -> str:
    """Return the family as text: every child under its first parent, with the others named."""
    links = pedigree(members)
    children: dict[str, list[str]] = {}
    for name, parents in links.parents.items():
        for parent in parents[:1]:
            children.setdefault(parent, []).append(name)
    roots = [name for name, parents in links.parents.items() if not parents]
    lines: list[str] = []
    drawn: set[str] = set()
    # Lineages that name each other in a circle have no root: they come last.
    for root in (*roots, *links.missing, *links.members):
        if root in drawn or (root in links.missing and root not in children):
            continue
        waiting = [(root, "", "")]
        while waiting:
            name, branch, indent = waiting.pop()
            if name in drawn:
                continue
            drawn.add(name)
            lines.append(f"{branch}{_label(name, links)}")
            below = children.get(name, [])
            for child in reversed(below):
                last = child == below[-1]
                further = indent + ("    " if last else "│   ")
                waiting.append((child, f"{indent}{'└── ' if last else '├── '}", further))
    return "\n".join(lines)


def short_hash(content: str) -> str:
    """Return the first digits of a content hash."""
    return content.partition(":")[2][:10]


def _label(name: str, links: Pedigree) -> str:
    member = links.members.get(name)
    if member is None:
        return f"{short_hash(name)}  (not here, or trained since)"
    parts = [name, short_hash(member.content), f"generation {member.generation}"]
    record = member.lineage
    if record is not None:
        parts.append(f"{record.operator} seed {record.seed}")
        others = links.parents[name][1:]
        if others:
            named = (other if other in links.members else short_hash(other) for other in others)
            parts.append("with " + ", ".join(named))
        if record.relative_change is not None:
            parts.append(f"change {record.relative_change:.3g}")
        if member.trained:
            parts.append("trained since")
    return "  ".join(parts)
