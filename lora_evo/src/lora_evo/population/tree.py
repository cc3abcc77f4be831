"""The family tree of a folder of adapters, drawn as text."""

from collections.abc import Sequence

from lora_evo.population.family import Member, Pedigree, pedigree


def tree(members: Sequence[Member]) -> str:
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
