"""Making a child again from its parents and its lineage, and comparing bit for bit."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lora_evo.breeding.growth import Growth, birth
from lora_evo.breeding.lineage import Lineage, read_lineage
from lora_evo.breeding.order import RESIZE, checked_order
from lora_evo.errors import LoraEvoError
from lora_evo.files.content_hash import slot_digest
from lora_evo.files.directory import PathLike, Progress, content_hash, open_adapter
from lora_evo.files.folders import folders_by_content
from lora_evo.linalg.distance import Gap, slot_gap, total_gap
from lora_evo.operators.lookup import recorded_operator


@dataclass(frozen=True)
class Verification:
    """What came of making a child again."""

    identical: bool
    """Weights, configuration and lineage are what the recipe gives, bit for bit."""
    difference: float | None
    """Relative Frobenius distance of the updates; None when the child could not be made again."""
    modules_differing: tuple[str, ...]
    problems: tuple[str, ...]
    """What is not as it should be, in words."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def verify(
    child_dir: PathLike,
    parents: Sequence[PathLike] | PathLike | None = None,
    *,
    progress: Progress | None = None,
) -> Verification:
    """Re-make the child in `child_dir` and compare it, streaming module by module.

    `parents`: adapter directories, or folders to search for them (by content, whatever their
    names); by default the folder that holds the child. Equal bits are promised for equal versions
    of torch and numpy on the same kind of processor; elsewhere see `difference`. Raises
    `LoraEvoError` when the child itself cannot be read or has no lineage.
    """
    child = Path(child_dir)
    content = content_hash(child)
    lineage = read_lineage(child)
    if lineage is None:
        raise LoraEvoError(f"{child} has no lineage.json: it was not bred, so nothing to verify")
    recorded_hash, hash_here = (text.partition(":")[0] for text in (lineage.content_hash, content))
    if recorded_hash != hash_here:
        raise LoraEvoError(
            f"{child}: its lineage tells contents by {recorded_hash}, this version by {hash_here}; "
            f"verify it with lora_evo {lineage.versions.get('lora_evo', 'of its time')}"
        )
    folders, missing = _find_parents(lineage, child, parents)
    problems = list(missing)
    if content != lineage.content_hash:
        problems.append(
            "the child is not as it was born (trained on, or edited): its lineage says "
            f"{lineage.content_hash[:24]}, it holds {content[:24]}"
        )
    if missing:
        return Verification(False, None, (), tuple(problems))
    remade, gaps, differing = _remake(lineage, child, folders, progress)
    if differing:
        problems.append(
            f"{len(differing)} of {len(gaps)} modules differ from the child made again, "
            f"for example {differing[0]}"
        )
        if lineage.versions != remade.versions:
            problems.append(
                f"it was made with {_versions(lineage)}, and made again with {_versions(remade)}"
            )
    elif content != remade.content_hash:
        problems.append("adapter_config.json is not what the parents' ones give")
    recorded, again = lineage.to_dict(), remade.to_dict()
    odd = {name for name in again if recorded[name] != again[name]} - {"versions", "generation"}
    if odd and not differing:
        problems.append(
            f"lineage.json differs from the one made again in: {', '.join(sorted(odd))}"
        )
    difference = total_gap(gaps.values()).distance
    return Verification(not problems, difference, tuple(differing), tuple(problems))


def _find_parents(
    lineage: Lineage, child: Path, parents: Sequence[PathLike] | PathLike | None
) -> tuple[list[Path], list[str]]:
    if parents is None:
        roots = [child.resolve().parent]
    elif isinstance(parents, Sequence) and not isinstance(parents, str):
        roots = [Path(parent) for parent in parents]
    else:
        roots = [Path(parents)]
    found, unreadable = folders_by_content(roots, set(lineage.parents))
    problems = [
        f"the parent {content[:24]} was not found under "
        f"{', '.join(str(root) for root in roots)}; name the folder that holds it as it was then"
        for content in dict.fromkeys(lineage.parents)
        if content not in found
    ]
    if problems:
        problems += [f"could not be read: {reason}" for reason in unreadable]
    return [found[content] for content in lineage.parents if content in found], problems


def _remake(
    lineage: Lineage, child: Path, folders: list[Path], progress: Progress | None
) -> tuple[Lineage, dict[str, Gap], list[str]]:
    """The record of the child made again, every module's distance, and which differ in any bit."""
    order = lineage.order
    if order.operator != RESIZE:
        try:
            operator = recorded_operator(order.operator, lineage.plugin, lineage.versions)
        except LoraEvoError as error:
            raise LoraEvoError(f"{child}: {error}") from error
        settings = (order.seed, order.strength, order.weights, order.parameters)
        order = checked_order(operator.kind, order.operator, *settings, len(folders))
    with ExitStack() as stack:
        readers = [stack.enter_context(open_adapter(folder)) for folder in folders]
        reader = stack.enter_context(open_adapter(child))
        again = birth(readers, order)
        if reader.paths != readers[0].paths:
            raise LoraEvoError(f"{child} sits on other modules than its first parent")
        gaps: dict[str, Gap] = {}
        grown: list[Growth] = []
        differing: list[str] = []
        for growth in again.grow():
            there = reader.slot(growth.path)
            gaps[growth.path] = slot_gap(growth.path, growth.child.slot, there)
            if slot_digest(there) != growth.digest:
                differing.append(growth.path)
            grown.append(growth.without_tensors())
            if progress is not None:
                progress(len(grown), len(reader.paths))
        return again.lineage(grown, (0,) * len(readers)), gaps, differing


def _versions(lineage: Lineage) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(lineage.versions.items()))
