"""The parents of a child, found on disk by what they hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lora_evo.breeding.lineage import read_lineage
from lora_evo.errors import LoraEvoError
from lora_evo.files.directory import PathLike, content_hash
from lora_evo.files.folders import folders_by_content


@dataclass(frozen=True)
class Moments:
    """Whether an optimiser may go on with its moments in a child."""

    valid_at_birth: bool
    """What the child's lineage says: then each module's moments are those of its source."""
    trained: bool
    """The weights have changed since, so the trainer's own moments count."""


def parents_on_disk(child: PathLike, roots: Sequence[PathLike] | None = None) -> list[Path]:
    """The folders that hold the parents a child's lineage names, in its order, each once.

    Searched in `roots`, by default the folder that holds the child. Raises `LoraEvoError` when the
    child has no lineage or a parent is not there as it was at the birth.
    """
    folder = Path(child)
    lineage = read_lineage(folder)
    if lineage is None:
        raise LoraEvoError(
            f"{folder} has no lineage.json, so its parents are not known; name them with --parent"
        )
    places = [folder.resolve().parent] if roots is None else [Path(root) for root in roots]
    found, unreadable = folders_by_content(places, set(lineage.parents))
    for content in lineage.parents:
        if content not in found:
            reasons = "".join(f"; could not read {reason}" for reason in unreadable)
            raise LoraEvoError(
                f"no folder beside {folder} holds its parent {content[:24]} (moved, or trained "
                f"since); name the parents with --parent{reasons}"
            )
    return [found[content] for content in dict.fromkeys(lineage.parents)]


def moments_of(child: PathLike) -> Moments | None:
    """What a child's lineage says of optimiser moments; None for an adapter that was not bred."""
    lineage = read_lineage(Path(child))
    if lineage is None:
        return None
    return Moments(lineage.moments_valid, lineage.content_hash != content_hash(child))
