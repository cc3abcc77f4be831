"""What a child keeps of a parent, by the weights alone: the proxies before any training."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Literal

import torch
from torch.nn.functional import pad

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter, Slot, SlotSource, open_adapter
from lora_evo.files.config import AdapterConfig
from lora_evo.files.directory import PathLike, Progress
from lora_evo.linalg.spaces import Spaces, spaces
from lora_evo.linalg.thin import one_thread
from lora_evo.linalg.updates import (
    Gap,
    check_same_modules,
    dead_pairs,
    effective_rank,
    slot_gap,
    total_gap,
)

_SHOWN = (
    "relative_change", "cosine", "norm_ratio", "spectrum_distance", "column_overlap", "row_overlap",
)  # fmt: skip

Verdict = Literal["mild", "borderline", "strong"]

# From a study of 41 children of 4-layer MLPs with LoRA of rank 16 on synthetic data, recovery
# being a loss within 3 % of the parent's. Steps to it, by relative change: up to 14 below 0.2, up
# to 36 below 0.4, 0 to more than 240 above; by KL ratio: up to 36 below 0.2, 80 and more above
# 0.35. They rank with the change (Spearman 0.83 and 0.87) and with the KL (0.91 and 0.85).
_CHANGE = (0.2, 0.4)
_KL_RATIO = (0.1, 0.2)

HINT = (
    "mild, borderline and strong are hints from a study of small MLPs with rank-16 adapters: "
    "there, children with a change below 0.2 were back at their parent's loss within 14 steps, "
    "with a change below 0.4 or a KL ratio below 0.2 within 36; only training shows the recovery"
)


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
            **{name: getattr(self, name) for name in _SHOWN},
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


def verdict(relative_change: float | None, kl_ratio: float | None = None) -> Verdict:
    """Judge by the KL ratio where it is known, which sees the inputs, else by the relative change.

    mild: change below 0.2 or KL ratio below 0.1; strong: change above 0.4 or KL ratio above 0.2,
    or nothing to compare with (a parent whose update is zero).
    """
    value, (low, high) = (relative_change, _CHANGE) if kl_ratio is None else (kl_ratio, _KL_RATIO)
    if value is None or value > high:
        return "strong"
    return "mild" if value < low else "borderline"


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
