"""Families: the parents of an adapter on disk, and the tree of a folder of adapters."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.errors import LoraEvoError
from lora_evo.peft.directory import (
    PathLike,
    adapter_folders,
    content_hash,
    readable,
    shortest_unique_names,
)
from lora_evo.peft.lineage import LINEAGE_FILE, Lineage, read_lineage


def lineage_of(directory: PathLike) -> Lineage:
    """Return the lineage of a child. Raises `LoraEvoError` if it is missing or has no parents."""
    lineage = read_lineage(directory)
    if lineage is None:
        raise LoraEvoError(f"{directory} has no {LINEAGE_FILE}, so its parents are not known")
    if not lineage.parents:
        raise LoraEvoError(f"{directory} is a founder of its population: it has no parents")
    return lineage


def find_parents(
    child: PathLike, lineage: Lineage, roots: Sequence[PathLike] | None = None
) -> tuple[list[Path], list[str]]:
    """Find the folders of a child's parents by their content, in the lineage's order.

    roots: folders to search; by default the one that contains the child. Also returns a sentence
    for every parent that is missing or has changed.
    """
    places = [Path(child).resolve().parent] if roots is None else [Path(root) for root in roots]
    folders: dict[str, Path] = {}
    unreadable: list[str] = []
    for folder, content in readable(adapter_folders(places), content_hash, unreadable.append):
        folders.setdefault(content, folder)
        if folders.keys() >= set(lineage.parents):
            break
    problems = [
        f"the parent {content[:24]} was not found under "
        f"{', '.join(str(place) for place in places)} (moved, or trained since); type the folder "
        "that holds it as it was then after the child: lora-evo verify CHILD FOLDER"
        for content in dict.fromkeys(lineage.parents)
        if content not in folders
    ]
    if problems:
        problems += [f"could not be read: {reason}" for reason in unreadable]
    return [folders[content] for content in lineage.parents if content in folders], problems


def parents_on_disk(child: PathLike) -> list[Path]:
    """Return the folders of a child's parents, next to it. Raises `LoraEvoError`."""
    folders, problems = find_parents(child, lineage_of(child))
    if problems:
        raise LoraEvoError(f"{child}: {'; '.join(problems)}")
    return list(dict.fromkeys(folders))


@dataclass(frozen=True)
class Member:
    name: str
    """The last parts of its path, as many as make it unique."""
    content: str
    lineage: Lineage | None

    @property
    def trained(self) -> bool:
        """Whether the weights have changed since the child was made."""
        return self.lineage is not None and self.lineage.content_hash != self.content

    @property
    def generation(self) -> int:
        """The generation in the lineage; 0 without one."""
        return 0 if self.lineage is None else self.lineage.generation

    def to_dict(self) -> dict[str, Any]:
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

    unreadable: called with the reason if an adapter cannot be read; None: raise `LoraEvoError`.
    """
    folders = adapter_folders(Path(root) for root in roots)
    members = dict(readable(folders, lambda f: (content_hash(f), read_lineage(f)), unreadable))
    names = shortest_unique_names(list(members))
    return [Member(name, *member) for name, member in zip(names, members.values(), strict=True)]


def pedigree(members: Sequence[Member]) -> dict[str, tuple[str, ...]]:
    """Return the parents of each member, by name and in order of generation.

    A parent is a name, or a content hash that no member has. If several members have one content,
    the parent is the one of the lowest generation. A member that was trained since its birth also
    counts with its content at birth. Copies, adapters with equal lineage, have the first as parent.
    """
    by_age = sorted(members, key=lambda m: (m.generation, m.name.rpartition("/")[2], m.name))
    youngest_first = by_age[::-1]  # so that the oldest has the last word
    name_of = {m.lineage.content_hash: m.name for m in youngest_first if m.lineage}
    name_of |= {m.content: m.name for m in youngest_first}
    parents: dict[str, tuple[str, ...]] = {}
    first_of: dict[str, str] = {}
    for member in by_age:
        record, own = member.lineage, member.name
        first = first_of.setdefault(record.to_json(), own) if record else own
        contents = record.parents if record else ()
        names = {content: name_of.get(content, content) for content in contents}
        contents = tuple(content if name == own else name for content, name in names.items())
        parents[own] = contents if first == own else (first,)
    return parents


def tree(members: Sequence[Member]) -> str:
    """Return the family tree as text: every child below its first parent, with the others named."""
    parents_of, by_name = pedigree(members), {member.name: member for member in members}
    children: dict[str, list[str]] = {}
    for name, parents in parents_of.items():
        for parent in parents[:1]:
            children.setdefault(parent, []).append(name)
    roots = [name for name, parents in parents_of.items() if not parents]
    names = dict.fromkeys(parent for parents in parents_of.values() for parent in parents)
    roots += [name for name in names if name in children and name not in by_name]
    lines: list[str] = []
    stack = [(root, "", "") for root in reversed(roots)]
    while stack:
        name, branch, indent = stack.pop()
        lines.append(f"{branch}{_label(name, by_name, parents_of.get(name, ()))}")
        siblings = children.get(name, [])
        for child in reversed(siblings):
            is_last = child == siblings[-1]
            deeper = indent + ("    " if is_last else "│   ")
            stack.append((child, f"{indent}{'└── ' if is_last else '├── '}", deeper))
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
        if mates := [other if other in members else short_hash(other) for other in parents[1:]]:
            parts.append("with " + ", ".join(mates))
        if record.relative_change is not None:
            parts.append(f"change {record.relative_change:.3g}")
        if member.trained:
            parts.append("trained since")
    return "  ".join(parts)
