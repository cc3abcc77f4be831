"""What weights alone say of an adapter, and of what a child keeps of a parent."""

import math
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import torch
from torch.nn.functional import pad

from lora_evo.files.adapter import (
    Adapter,
    Slot,
    check_comparable,
    open_adapter,
    opened,
    slot_digest,
)
from lora_evo.files.directory import PathLike, combine
from lora_evo.thin import one_thread
from lora_evo.updates import (
    Gap,
    dead_pairs,
    effective_rank,
    numerical_rank,
    overlap,
    singular_values,
    slot_gap,
    spaces,
    total_gap,
)

_SHOWN = (
    "distance", "relative_change", "cosine", "norm_ratio", "spectrum_distance", "column_overlap",
    "row_overlap",
)  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """The state of a module; over several modules norms add as squares, the rest is summed.

    A child whose balance of |A| and |B| is another than its parent's learns at another pace.
    """

    norm: float
    """|s B A| (Frobenius)."""
    norm_a: float
    norm_b: float
    rank: int
    """Rank-one pairs."""
    effective_rank: float
    numerical_rank: int
    """Singular values above a millionth of the largest."""
    dead: int
    """Pairs whose A row and B column are both zero, so that no gradient reaches them."""


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
    """A child against one parent; only norm_a, norm_b and dead depend on the factorization."""

    whole: Comparison
    modules: dict[str, Comparison]
    """By path, in sorted order."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "whole": self.whole.to_dict(),
            "modules": {path: part.to_dict() for path, part in self.modules.items()},
        }


def inspect_directory(directory: PathLike) -> dict[str, Any]:
    """Measure every module of an adapter directory, one at a time. Raises `LoraEvoError`.

    Returns `content_hash`, `config`, its `start_problem`, and by path in `modules` the widths
    `inputs` and `outputs`, `alpha`, `scale`, `dtype` and the fields of `Condition`.
    """
    modules: dict[str, dict[str, Any]] = {}
    digests: dict[str, str] = {}
    with open_adapter(directory, any_start=True) as reader, one_thread():
        config = reader.config
        for path in reader.paths:
            slot = reader.slot(path)
            digests[path] = slot_digest(slot)
            modules[path] = {
                "inputs": int(slot.A.shape[1]),
                "outputs": int(slot.B.shape[0]),
                "alpha": float(config.alpha(path)),
                "scale": slot.scale,
                "dtype": str(slot.A.dtype).removeprefix("torch."),
                **asdict(_condition(slot, singular_values(slot))),
            }
    content = combine(config, digests)
    return {
        "content_hash": content,
        "config": config.to_dict(),
        "start_problem": config.start_problem,
        "modules": modules,
    }


def retention(
    parent: Adapter | PathLike,
    child: Adapter | PathLike,
    *,
    any_base: bool = False,
) -> Retention:
    """Compare a child with a parent without the base model and without any dense update.

    Both are adapters or directories, which are read module by module. Ranks and alphas may differ;
    any_base: so may the names of their base models. Raises `LoraEvoError` when the two do not sit
    on the same modules of the same shapes, or hold NaN or infinite weights.

    Example:

        >>> parent = load_adapter("members/t0")
        >>> child = mutate(parent, "subspace_rotation", seed=1, strength=0.1)
        >>> found = retention(parent, child).whole
        >>> round(found.relative_change, 3), round(found.column_overlap, 3)
        (0.1, 1.0)
    """
    with ExitStack() as stack:
        one, two = opened(parent, stack), opened(child, stack)
        check_comparable({"the parent": one, "the child": two}, any_base=any_base)
        with one_thread():
            modules = {path: _module(path, one.slot(path), two.slot(path)) for path in one.paths}
            return Retention(_together(list(modules.values())), modules)


def _together(rows: list[Comparison]) -> Comparison:
    """Several modules as one: norms add as squares, overlaps are averaged, the rest is summed."""
    return Comparison(
        **vars(total_gap(rows)),
        spectra=math.hypot(*(row.spectra for row in rows)),
        column_overlap=_mean(row.column_overlap for row in rows),
        row_overlap=_mean(row.row_overlap for row in rows),
        parent=_sum([row.parent for row in rows]),
        child=_sum([row.child for row in rows]),
    )


def _module(path: str, parent: Slot, child: Slot) -> Comparison:
    (columns, before, rows), (young_columns, after, young_rows) = spaces(parent), spaces(child)
    size = max(len(before), len(after))
    one, two = (pad(values, (0, size - len(values))) for values in (before, after))
    return Comparison(
        **vars(slot_gap(path, parent, child)),
        spectra=float(torch.linalg.vector_norm(one - two)),
        column_overlap=overlap(columns, young_columns),
        row_overlap=overlap(rows, young_rows),
        parent=_condition(parent, before),
        child=_condition(child, after),
    )


def _condition(slot: Slot, values: torch.Tensor) -> Condition:
    return Condition(
        norm=float(torch.linalg.vector_norm(values)),
        norm_a=float(torch.linalg.matrix_norm(slot.A.detach().double())),
        norm_b=float(torch.linalg.matrix_norm(slot.B.detach().double())),
        rank=slot.rank,
        effective_rank=effective_rank(values),
        numerical_rank=numerical_rank(values),
        dead=dead_pairs(slot),
    )


def _sum(rows: list[Condition]) -> Condition:
    columns = {name: [getattr(row, name) for row in rows] for name in vars(rows[0])}
    whole: dict[str, Any] = {
        name: math.hypot(*column) if name.startswith("norm") else sum(column)
        for name, column in columns.items()
    }
    return Condition(**whole)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
