"""What a child keeps of a parent, told from the weights alone: the zero-step proxies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter, Slot
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.files.directory import PathLike, open_adapter
from lora_evo.linalg.angles import Spaces, spaces
from lora_evo.linalg.distance import Gap, check_same_modules, slot_gap, total_gap
from lora_evo.linalg.spectrum import dead_pairs, effective_rank
from lora_evo.linalg.thin import one_thread


@dataclass(frozen=True)
class Condition:
    """The state of one side; in a sum over modules norms add as squares, the rest plainly.

    `norm`, `norm_a`, `norm_b`: Frobenius norms of s*B*A, A and B. What a step of the optimiser
    does to the update depends on the last two: a child whose balance of A and B is another one
    learns at another pace. `dead`: rank-one pairs whose A row and B column are both zero, the only
    ones whose gradient is zero for ever.
    """

    norm: float
    norm_a: float
    norm_b: float
    rank: int
    effective_rank: float
    numerical_rank: int
    dead: int


@dataclass(frozen=True)
class Comparison:
    """A child's update D' against a parent's D, in one module or in all together.

    `relative_change` = |D' - D| / |D|, `norm_ratio` = |D'| / |D|, `cosine` = <D', D> / |D'||D|,
    all Frobenius. `spectrum_distance` = |S' - S| / |S| over the sorted singular values, at most
    the relative change (Mirsky 1960): the part of it that rescaling explains; the rest is turning.
    `column_overlap` and `row_overlap`: mean cos^2 of the principal angles between what both write
    to and what both listen to, 1 where one space holds the other; for all modules, the mean.
    None where a division by a zero update leaves nothing to say.
    """

    relative_change: float | None
    cosine: float | None
    norm_ratio: float | None
    spectrum_distance: float | None
    column_overlap: float | None
    row_overlap: float | None
    parent: Condition
    child: Condition


@dataclass(frozen=True)
class Retention:
    """A child against one parent. Nothing here depends on the gauge but norm_a, norm_b and dead."""

    whole: Comparison
    modules: dict[str, Comparison]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True)
class _Measured:
    """A module's comparison with what its sum over modules is made from."""

    comparison: Comparison
    gap: Gap
    spectra: float


def retention(parent: Adapter, child: Adapter) -> Retention:
    """Compare a child with a parent without the base model and without any dense update.

    Ranks and alphas may differ. Raises `LoraEvoError` when the two do not sit on the same modules
    of the same shapes, name different base models, or hold NaN or infinite weights.
    """
    _check_pair(parent.config, set(parent.slots), child.config, set(child.slots))
    return _compare(parent.paths, parent.slot, child.slot)


def retention_of_directories(parent: PathLike, child: PathLike) -> Retention:
    """`retention` of two adapter directories, holding one module of each at a time."""
    with ExitStack() as stack:
        one = stack.enter_context(open_adapter(Path(parent)))
        two = stack.enter_context(open_adapter(Path(child)))
        _check_pair(one.config, set(one.paths), two.config, set(two.paths))
        return _compare(one.paths, one.slot, two.slot)


def _check_pair(
    parent: AdapterConfig, modules: set[str], child: AdapterConfig, others: set[str]
) -> None:
    one, two = parent.base_model_name_or_path, child.base_model_name_or_path
    if one and two and one != two:
        raise LoraEvoError(
            f"the parent was trained on {one}, the child on {two}; expected one base model (or, if "
            "both names mean the same weights, equal base_model_name_or_path)"
        )
    check_same_modules(modules, others)


def _compare(
    paths: Iterable[str], parent: Callable[[str], Slot], child: Callable[[str], Slot]
) -> Retention:
    with one_thread():
        parts = {path: _module(path, parent(path), child(path)) for path in paths}
    modules = {path: part.comparison for path, part in parts.items()}
    return Retention(_whole(list(parts.values())), modules)


def _module(path: str, parent: Slot, child: Slot) -> _Measured:
    gap = slot_gap(path, parent, child)
    before, after = spaces(parent), spaces(child)
    size = max(len(before.values), len(after.values))
    spectra = float(torch.linalg.vector_norm(_padded(before, size) - _padded(after, size)))
    comparison = _comparison(
        gap,
        spectra,
        _overlap(before.columns, after.columns),
        _overlap(before.rows, after.rows),
        _condition(parent, before, gap.first),
        _condition(child, after, gap.second),
    )
    return _Measured(comparison, gap, spectra)


def _whole(parts: list[_Measured]) -> Comparison:
    rows = [part.comparison for part in parts]
    return _comparison(
        total_gap({str(place): part.gap for place, part in enumerate(parts)}),
        math.hypot(*(part.spectra for part in parts)),
        _mean(row.column_overlap for row in rows),
        _mean(row.row_overlap for row in rows),
        _together([row.parent for row in rows]),
        _together([row.child for row in rows]),
    )


def _comparison(
    gap: Gap,
    spectra: float,
    columns: float | None,
    rows: float | None,
    parent: Condition,
    child: Condition,
) -> Comparison:
    return Comparison(
        relative_change=gap.relative_change,
        cosine=gap.cosine,
        norm_ratio=gap.norm_ratio,
        spectrum_distance=spectra / gap.first if gap.first else None,
        column_overlap=columns,
        row_overlap=rows,
        parent=parent,
        child=child,
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


def _together(rows: list[Condition]) -> Condition:
    return Condition(
        norm=math.hypot(*(row.norm for row in rows)),
        norm_a=math.hypot(*(row.norm_a for row in rows)),
        norm_b=math.hypot(*(row.norm_b for row in rows)),
        rank=sum(row.rank for row in rows),
        effective_rank=math.fsum(row.effective_rank for row in rows),
        numerical_rank=sum(row.numerical_rank for row in rows),
        dead=sum(row.dead for row in rows),
    )


def _padded(held: Spaces, size: int) -> torch.Tensor:
    return torch.nn.functional.pad(held.values, (0, size - len(held.values)))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
