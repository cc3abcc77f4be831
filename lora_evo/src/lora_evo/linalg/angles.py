"""Principal angles between the spaces that two updates write to and read from.

The column space of D = s*B*A is what it can write, the row space what it reads. The angles
between two such spaces are gauge-free and do not depend on norms (Bjorck & Golub 1973).
"""

import math
from dataclasses import dataclass

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.distance import check_same_ends
from lora_evo.linalg.spectrum import numerical_rank
from lora_evo.linalg.thin import one_thread, prepared


@dataclass(frozen=True, eq=False)
class Spaces:
    """D = `columns` diag(`values`) `rows`^T, float64; k is the numerical rank, 0 for D = 0."""

    columns: torch.Tensor
    """[out, k]."""
    values: torch.Tensor
    """[k], largest first."""
    rows: torch.Tensor
    """[in, k]."""


@dataclass(frozen=True)
class SpaceGap:
    """Angles between two spaces."""

    angles: tuple[float, ...]
    """In radians, smallest first: as many as the smaller space has."""

    @property
    def overlap(self) -> float | None:
        """Mean cos^2 of the angles: 1 if one space holds the other, 0 if they are orthogonal.

        None where one of the spaces is empty.
        """
        if not self.angles:
            return None
        return math.fsum(math.cos(angle) ** 2 for angle in self.angles) / len(self.angles)

    @property
    def grassmann(self) -> float | None:
        """Length of the geodesic on the Grassmann manifold: the root of the summed squares."""
        return math.hypot(*self.angles) if self.angles else None


def spaces(slot: Slot) -> Spaces:
    """Orthonormal bases of both spaces of an update and its singular values, never dense.

    B = Q_B R_B and A^T = Q_A R_A; the SVD U S V^T of the core s R_B R_A^T gives Q_B U and Q_A V.
    """
    left = torch.linalg.qr(prepared(slot.B).double())
    right = torch.linalg.qr(prepared(slot.A).double().T)
    u, values, vh = torch.linalg.svd(slot.scale * left.R @ right.R.T, full_matrices=False)
    count = numerical_rank(values)
    return Spaces(left.Q @ u[:, :count], values[:count], right.Q @ vh[:count].T)


def column_angles(first: Slot, second: Slot) -> SpaceGap:
    """Angles between what two updates of one module write to; `LoraEvoError` for other shapes."""
    return _angles("columns", first, second)


def row_angles(first: Slot, second: Slot) -> SpaceGap:
    """Angles between what two updates of one module read; `LoraEvoError` as above."""
    return _angles("rows", first, second)


def _angles(side: str, first: Slot, second: Slot) -> SpaceGap:
    check_same_ends("the module", first, second)
    with one_thread():
        return space_gap(*(getattr(spaces(slot), side) for slot in (first, second)))


def space_gap(first: torch.Tensor, second: torch.Tensor) -> SpaceGap:
    """Principal angles between the spans of two orthonormal bases [n, k1] and [n, k2].

    Large angles come from the cosines, the singular values of Q1^T Q2; small ones from the sines,
    those of the part of the smaller space outside the larger, as arccos has no digits near 1.
    """
    large, small = (first, second) if first.shape[1] >= second.shape[1] else (second, first)
    if small.shape[1] == 0:
        return SpaceGap(())
    cross = large.T @ small
    cosines = torch.linalg.svdvals(cross).clamp(max=1.0)
    sines = torch.linalg.svdvals(small - large @ cross).clamp(max=1.0).flip(0)
    angles = torch.where(cosines**2 > 0.5, sines.asin(), cosines.acos())
    return SpaceGap(tuple(float(angle) for angle in angles))
