"""What a child keeps of a parent, told from the weights alone: the zero-step proxies."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import torch
from torch.nn.functional import pad

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter, Slot, SlotSource
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.files.directory import PathLike, Progress, open_adapter
from lora_evo.linalg.angles import Spaces, spaces
from lora_evo.linalg.distance import Gap, check_same_modules, slot_gap, total_gap
from lora_evo.linalg.spectrum import dead_pairs, effective_rank
from lora_evo.linalg.thin import one_thread

_TOLD = (
    "relative_change", "cosine", "norm_ratio", "spectrum_distance", "column_overlap", "row_overlap",
)  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """The state of one side; over several modules norms add as squares, the rest is summed.

    A child whose balance of |A| and |B| is another than its parent's learns at another pace.
    """

    norm: float
    """|s B A| (Frobenius)."""
    norm_a: float
    norm_b: float
    rank: int
    effective_rank: float
    numerical_rank: int
    dead: int
    """Rank-one pairs whose A row and B column are both zero, so that no gradient reaches them."""


@dataclass(frozen=True)
class Comparison(Gap):
    """A parent's update D (first) and a child's D' (second), in one module or several together.

    None where a division by a zero update leaves nothing to say.
    """

    spectra: float
    """|S' - S| over the sorted singular values."""
    column_overlap: float | None
    """Mean cos^2 of the principal angles between the column spaces, which both write to: 1 where
    one holds the other; of several modules, the mean."""
    row_overlap: float | None
    """The same for the row spaces, which both read."""
    parent: Condition
    child: Condition

    @property
    def spectrum_distance(self) -> float | None:
        """|S' - S| / |S|, at most the relative change (Mirsky 1960).

        It is the part of the change that rescaling explains; the rest is rotation.
        """
        return self.spectra / self.first if self.first else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **{name: getattr(self, name) for name in _TOLD},
            "parent": asdict(self.parent),
            "child": asdict(self.child),
        }


@dataclass(frozen=True)
class Retention:
    """A child against one parent. Nothing here depends on the gauge but norm_a, norm_b and dead."""

    whole: Comparison
    modules: dict[str, Comparison]
    """By path, in sorted order."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "whole": self.whole.to_dict(),
            "modules": {path: part.to_dict() for path, part in self.modules.items()},
        }


def retention(parent: Adapter, child: Adapter) -> Retention:
    """Compare a child with a parent without the base model and without any dense update.

    Ranks and alphas may differ. Raises `LoraEvoError` when the two do not sit on the same modules
    of the same shapes, name different base models, or hold NaN or infinite weights.
    """
    _check_same_base(parent.config, child.config)
    return _compare(parent, child, None)


def retention_of_directories(parent: PathLike, child: PathLike) -> Retention:
    """`retention` of two adapter directories, holding one module of each at a time."""
    with open_adapter(parent) as one, open_adapter(child) as two:
        _check_same_base(one.config, two.config)
        return _compare(one, two, None)


def compare_directories(
    first: PathLike, second: PathLike, progress: Progress | None = None
) -> Retention:
    """As `retention_of_directories`, of any two adapters, which may name different base models."""
    with open_adapter(first) as one, open_adapter(second) as two:
        return _compare(one, two, progress)


def together(parts: Iterable[Comparison]) -> Comparison:
    """Several modules as one: norms add as squares, overlaps are averaged, the rest is summed."""
    rows = list(parts)
    return Comparison(
        **vars(total_gap(rows)),
        spectra=math.hypot(*(row.spectra for row in rows)),
        column_overlap=_mean(row.column_overlap for row in rows),
        row_overlap=_mean(row.row_overlap for row in rows),
        parent=_sum([row.parent for row in rows]),
        child=_sum([row.child for row in rows]),
    )


def _check_same_base(parent: AdapterConfig, child: AdapterConfig) -> None:
    one, two = parent.base_model_name_or_path, child.base_model_name_or_path
    if one and two and one != two:
        raise LoraEvoError(
            f"the parent was trained on {one}, the child on {two}; expected one base model (or, if "
            "both names mean the same weights, equal base_model_name_or_path)"
        )


def _compare(parent: SlotSource, child: SlotSource, progress: Progress | None) -> Retention:
    check_same_modules(set(parent.paths), set(child.paths))
    modules = {}
    with one_thread():
        for path in parent.paths:
            modules[path] = _module(path, parent.slot(path), child.slot(path))
            if progress is not None:
                progress(len(modules), len(parent.paths))
    return Retention(together(modules.values()), modules)


def _module(path: str, parent: Slot, child: Slot) -> Comparison:
    gap = slot_gap(path, parent, child)
    before, after = spaces(parent), spaces(child)
    size = max(len(before.values), len(after.values))
    one, two = (pad(side.values, (0, size - len(side.values))) for side in (before, after))
    return Comparison(
        **vars(gap),
        spectra=float(torch.linalg.vector_norm(one - two)),
        column_overlap=_overlap(before.columns, after.columns),
        row_overlap=_overlap(before.rows, after.rows),
        parent=_condition(parent, before, gap.first),
        child=_condition(child, after, gap.second),
    )


def _overlap(first: torch.Tensor, second: torch.Tensor) -> float | None:
    """Mean cos^2 between the spans of orthonormal [n, k1] and [n, k2]: |Q1^T Q2|^2 / min(k)."""
    least = min(first.shape[1], second.shape[1])
    if not least:
        return None
    return min(1.0, float((first.T @ second).square().sum()) / least)


def _condition(slot: Slot, held: Spaces, norm: float) -> Condition:
    return Condition(
        norm=norm,
        norm_a=float(torch.linalg.matrix_norm(slot.A.detach().double())),
        norm_b=float(torch.linalg.matrix_norm(slot.B.detach().double())),
        rank=slot.rank,
        effective_rank=effective_rank(held.values),
        numerical_rank=len(held.values),
        dead=dead_pairs(slot),
    )


def _sum(rows: list[Condition]) -> Condition:
    return Condition(
        norm=math.hypot(*(row.norm for row in rows)),
        norm_a=math.hypot(*(row.norm_a for row in rows)),
        norm_b=math.hypot(*(row.norm_b for row in rows)),
        rank=sum(row.rank for row in rows),
        effective_rank=math.fsum(row.effective_rank for row in rows),
        numerical_rank=sum(row.numerical_rank for row in rows),
        dead=sum(row.dead for row in rows),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
