"""What weights alone say of an adapter, and of how far a child is from a parent."""

from dataclasses import dataclass
from typing import Any

import torch

from lora_evo.peft_files.adapter import (
    Adapter,
    check_comparable,
    open_adapter,
    slot_digest,
    slot_source,
)
from lora_evo.peft_files.directory import PathLike, combine
from lora_evo.thin import one_thread
from lora_evo.updates import (
    Gap,
    dead_pairs,
    effective_rank,
    numerical_rank,
    singular_values,
    slot_gap,
    total_gap,
)


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


def inspect_directory(directory: PathLike) -> dict[str, Any]:
    """Measure every module of an adapter directory, one at a time. Raises `LoraEvoError`.

    Returns `content_hash`, `config`, its `start_problem`, and by path in `modules`:

    - `inputs`, `outputs`, `alpha`, `scale`, `dtype`, and `rank`, the number of rank-one pairs;
    - `norm`, `norm_a`, `norm_b`: |s B A|, |A| and |B| (Frobenius);
    - `effective_rank`, and `numerical_rank`: singular values above a millionth of the largest;
    - `dead`: pairs whose A row and B column are both zero, so that no gradient reaches them.
    """
    modules: dict[str, dict[str, Any]] = {}
    digests: dict[str, str] = {}
    reader = open_adapter(directory, any_start=True)
    config = reader.config
    with one_thread():
        for path in reader.paths:
            slot = reader.slot(path)
            values = singular_values(slot)
            digests[path] = slot_digest(slot)
            modules[path] = {
                "inputs": int(slot.A.shape[1]),
                "outputs": int(slot.B.shape[0]),
                "alpha": float(config.alpha(path)),
                "scale": slot.scale,
                "dtype": str(slot.A.dtype).removeprefix("torch."),
                "norm": float(torch.linalg.vector_norm(values)),
                "norm_a": float(torch.linalg.matrix_norm(slot.A.double())),
                "norm_b": float(torch.linalg.matrix_norm(slot.B.double())),
                "rank": slot.rank,
                "effective_rank": effective_rank(values),
                "numerical_rank": numerical_rank(values),
                "dead": dead_pairs(slot),
            }
    return {
        "content_hash": combine(config, digests),
        "config": config.to_dict(),
        "start_problem": config.start_problem,
        "modules": modules,
    }


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
