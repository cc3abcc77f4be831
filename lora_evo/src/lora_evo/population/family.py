"""The family tree of a folder of adapters, drawn as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.breeding.lineage import Lineage, read_lineage
from lora_evo.files.directory import PathLike, content_hash
from lora_evo.files.folders import adapter_folders, shortest_unique_names
from lora_evo.population.pedigree import Pedigree, pedigree


@dataclass(frozen=True)
class Member:
    """One adapter on disk: its name (path below the folder asked for), content and record."""

    name: str
    content: str
    lineage: Lineage | None

    @property
    def trained(self) -> bool:
        """Whether the weights have changed since the adapter was bred."""
        return self.lineage is not None and self.lineage.content_hash != self.content

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the lineage's heading fields."""
        record = self.lineage
        return {
            "name": self.name,
            "content_hash": self.content,
            "trained": self.trained,
            "generation": 0 if record is None else record.generation,
            "operator": None if record is None else record.operator,
            "seed": None if record is None else record.seed,
            "relative_change": None if record is None else record.relative_change,
            "parents": [] if record is None else list(record.parents),
        }


def family(roots: Iterable[PathLike]) -> list[Member]:
    """All adapters at or below the given folders, named by their shortest telling path."""
    folders = adapter_folders(Path(root) for root in roots)
    return [
        Member(name, content_hash(folder), read_lineage(folder))
        for folder, name in zip(folders, shortest_unique_names(folders), strict=True)
    ]


def tree(members: list[Member]) -> str:
    """The family as text: every child under its first parent, other parents named beside it."""
    links = pedigree(members)
    children: dict[str, list[Member]] = {}
    for member in members:
        for parent in links.parents[member.name][:1]:
            children.setdefault(parent, []).append(member)
    lines: list[str] = []
    for member in members:
        if member.lineage is None:
            lines.append(_label(member, links))
            lines += _branches(member.name, children, links)
    for content in links.missing:
        if content in children:
            lines.append(f"{_short(content)}  (not here, or trained since)")
            lines += _branches(content, children, links)
    return "\n".join(lines)


def _branches(root: str, children: dict[str, list[Member]], links: Pedigree) -> list[str]:
    lines: list[str] = []
    waiting = [(member, "") for member in reversed(children.get(root, []))]
    while waiting:
        member, indent = waiting.pop()
        ends = member is children[links.parents[member.name][0]][-1]
        lines.append(f"{indent}{'└── ' if ends else '├── '}{_label(member, links)}")
        further = indent + ("    " if ends else "│   ")
        waiting += [(child, further) for child in reversed(children.get(member.name, []))]
    return lines


def _label(member: Member, links: Pedigree) -> str:
    record = member.lineage
    if record is None:
        return f"{member.name}  {_short(member.content)}  generation 0"
    parts = [member.name, _short(member.content), f"generation {record.generation}"]
    parts.append(f"{record.operator} seed {record.seed}")
    others = links.parents[member.name][1:]
    if others:
        named = (name if name in links.members else _short(name) for name in others)
        parts.append("with " + ", ".join(named))
    if record.relative_change is not None:
        parts.append(f"change {record.relative_change:.3g}")
    if member.trained:
        parts.append("trained since")
    return "  ".join(parts)


def _short(content: str) -> str:
    return content.partition(":")[2][:10]
