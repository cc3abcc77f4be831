"""Verification: a child is made again from its record, and compared with its directory."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.children import Birth
from lora_evo.compare import Gap, slot_gap, total_gap
from lora_evo.errors import LoraEvoError
from lora_evo.family import find_parents, lineage_of
from lora_evo.operators.operator import OPERATORS, Operator, find_operator
from lora_evo.peft.adapter import open_adapter, slot_digest
from lora_evo.peft.directory import PathLike, content_hash
from lora_evo.peft.lineage import Lineage


@dataclass(frozen=True)
class Verification:
    identical: bool
    """Whether weights, configuration and lineage are equal, bit for bit."""
    difference: float | None
    """Relative Frobenius distance of the updates; None if the child could not be made again."""
    modules_differing: tuple[str, ...]
    problems: tuple[str, ...]


def verify(
    child_dir: PathLike,
    parents: Sequence[PathLike] | PathLike | None = None,
    *,
    operator: Operator | None = None,
) -> Verification:
    """Make the child in `child_dir` again and compare it, module by module.

    `parents`: adapter directories, or folders to search for them by content; by default the folder
    that contains the child. `operator`: the child's operator, if it is not a built-in one. Equal
    bits are guaranteed for equal versions of torch and numpy on the same kind of processor; on
    others see `difference`. Raises `LoraEvoError` if the child cannot be read, has no lineage, or
    has an unknown operator.
    """
    child = Path(child_dir)
    lineage, content = lineage_of(child), content_hash(child)
    roots = [parents] if isinstance(parents, str | os.PathLike) else parents
    folders, problems = find_parents(child, lineage, roots)
    if content != lineage.content_hash:
        problems.append(
            "the child has changed since its birth (trained, or edited): its lineage says "
            f"{lineage.content_hash[:24]}, its content is {content[:24]}"
        )
    if len(folders) < len(lineage.parents):
        return Verification(False, None, (), tuple(problems))
    operator = operator or OPERATORS.get(lineage.operator)
    if operator is None:
        raise LoraEvoError(
            f"{child} was made with {lineage.operator!r}, which is not built in; in Python: "
            f"lora_evo.verify({str(child)!r}, operator=OBJECT)"
        )
    fields = ("seed", "strength", "weights", "parameters")
    settings: dict[str, Any] = {name: getattr(lineage, name) for name in fields}
    *readers, reader = (open_adapter(folder) for folder in (*folders, child))
    try:
        again = Birth(readers, find_operator(operator), **settings)
    except LoraEvoError as error:
        raise LoraEvoError(f"{child} cannot be made again: {error}") from error
    if reader.paths != again.setup.paths:
        raise LoraEvoError(f"{child} sits on other modules than its parents")
    gaps: dict[str, Gap] = {}
    differing: list[str] = []
    for path, slot, digest in again.grow():
        stored = reader.slot(path)
        gaps[path] = slot_gap(path, slot, stored)
        if slot_digest(stored) != digest:
            differing.append(path)
    remade = again.lineage()
    if differing:
        problems.append(
            f"{len(differing)} of {len(gaps)} modules differ from the child made again, "
            f"for example {differing[0]} (made with {_versions(lineage)}, here {_versions(remade)})"
        )
    else:
        if content != remade.content_hash:
            problems.append("adapter_config.json differs from the one made again")
        names = vars(remade).keys() - {"versions", "generation", "quantization"}
        if odd := sorted(n for n in names if getattr(lineage, n) != getattr(remade, n)):
            problems.append(f"lineage.json differs from the one made again in: {', '.join(odd)}")
    difference = total_gap(gaps.values()).distance
    return Verification(not problems, difference, tuple(differing), tuple(problems))


def _versions(lineage: Lineage) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(lineage.versions.items()))
