"""Two adapter directories against each other: gaps and overlaps of every module."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_evo.files.directory import PathLike, open_adapter
from lora_evo.files.tensor_names import module_type
from lora_evo.linalg.distance import Gap, check_same_modules, slot_gap, total_gap
from lora_evo.linalg.pair_matrices import space_overlaps
from lora_evo.linalg.thin import one_thread


@dataclass(frozen=True)
class PairPart:
    """One or more modules of two adapters.

    `column_overlap` and `row_overlap`: mean cos^2 of the principal angles between what both write
    to and what both listen to, over the modules where both updates are nonzero; None without any.
    """

    modules: int
    gap: Gap
    column_overlap: float | None
    row_overlap: float | None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "distance": self.gap.distance,
            "relative_change": self.gap.relative_change,
            "cosine": self.gap.cosine,
            "norm_ratio": self.gap.norm_ratio,
            "column_overlap": self.column_overlap,
            "row_overlap": self.row_overlap,
        }


@dataclass(frozen=True)
class Pair:
    """All modules by path, in sorted order."""

    modules: dict[str, PairPart]

    @property
    def whole(self) -> PairPart:
        """All modules together."""
        return _together(self.modules.values())

    @property
    def module_types(self) -> dict[str, PairPart]:
        """Modules of one type together (`q_proj` of all layers), in sorted order."""
        types = sorted({module_type(path) for path in self.modules})
        return {
            kind: _together(
                part for path, part in self.modules.items() if module_type(path) == kind
            )
            for kind in types
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the whole, its types and its modules."""
        return {
            **self.whole.to_dict(),
            "module_types": {
                kind: {"modules": part.modules, **part.to_dict()}
                for kind, part in self.module_types.items()
            },
            "modules": {path: part.to_dict() for path, part in self.modules.items()},
        }


def compare_directories(
    first: PathLike, second: PathLike, *, progress: Callable[[int, int], None] | None = None
) -> Pair:
    """Compare two adapter directories, one module of each in memory at a time.

    Ranks and alphas may differ. Raises `LoraEvoError` when they do not sit on the same modules of
    the same shapes. `progress` is told how many modules of how many are done.
    """
    parts: dict[str, PairPart] = {}
    with ExitStack() as stack:
        one = stack.enter_context(open_adapter(Path(first)))
        two = stack.enter_context(open_adapter(Path(second)))
        check_same_modules(set(one.paths), set(two.paths))
        stack.enter_context(one_thread())
        for done, path in enumerate(one.paths, start=1):
            slots = one.slot(path), two.slot(path)
            gap = slot_gap(path, *slots)
            columns, rows = (float(matrix[0, 1]) for matrix in space_overlaps(slots))
            parts[path] = PairPart(1, gap, _known(columns), _known(rows))
            if progress is not None:
                progress(done, len(one.paths))
    return Pair(parts)


def _together(parts: Iterable[PairPart]) -> PairPart:
    held = list(parts)
    return PairPart(
        modules=sum(part.modules for part in held),
        gap=total_gap({str(place): part.gap for place, part in enumerate(held)}),
        column_overlap=_mean([part.column_overlap for part in held]),
        row_overlap=_mean([part.row_overlap for part in held]),
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
