"""How far a child is from a parent by their weights alone."""

from dataclasses import dataclass
from typing import Any

from lora_evo.peft_files.adapter import Adapter, check_comparable, slot_source
from lora_evo.peft_files.directory import PathLike
from lora_evo.thin import one_thread
from lora_evo.updates import Gap, slot_gap, total_gap


@dataclass(frozen=True)
class Retention:
    """A parent's update (first) and a child's; no number depends on the factorization."""

    whole: Gap
    modules: dict[str, Gap]
    """By path, in sorted order."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        modules = {path: _numbers(gap) for path, gap in self.modules.items()}
        return {"whole": _numbers(self.whole), "modules": modules}


def retention(
    parent: Adapter | PathLike, child: Adapter | PathLike, *, any_base: bool = False
) -> Retention:
    """Compare a child with a parent without the base model and without any dense update.

    Both are adapters or directories, which are read module by module. Ranks and alphas may differ;
    any_base: so may the names of their base models. Raises `LoraEvoError` when the two do not sit
    on the same modules of the same shapes, or hold NaN or infinite weights.

    Example:

        >>> parent = load_adapter("members/t0")
        >>> child = mutate(parent, "subspace_rotation", seed=1, strength=0.1)
        >>> round(retention(parent, child).whole.relative_change, 3)
        0.1
    """
    one, two = slot_source(parent), slot_source(child)
    check_comparable({"the parent": one, "the child": two}, any_base=any_base)
    with one_thread():
        gaps = {path: slot_gap(path, one.slot(path), two.slot(path)) for path in one.paths}
    return Retention(total_gap(gaps.values()), gaps)


def _numbers(gap: Gap) -> dict[str, float | None]:
    return {
        "distance": gap.distance,
        "relative_change": gap.relative_change,
        "cosine": gap.cosine,
        "norm_ratio": gap.norm_ratio,
    }
