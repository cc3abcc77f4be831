"""Mutation by rotation alone: both singular bases turn within their spaces, the spectrum stays.

With D = s*B*A = U S V^T over its k non-zero singular values, the child is

    D' = U R_U(e) S R_V(e)^T V^T,      R(e) = (I - e K / 2)^-1 (I + e K / 2),

K = (M - M^T) / sqrt(4 k) with M standard normal: the Cayley transform of a skew matrix is exactly
orthogonal (Cayley 1846), so D' has the singular values of D, and its column and row space. K_V is
taken with the sign by which both rotations add up: <K_U S, S K_V> <= 0 (turned alike, U and V
would carry equal singular values back to where they were). The step e is solved for so that
|D' - D| = strength * |D|, whatever the rank. One of the two halves of the spectral mutation
`svd_structured`; the rotation of subspaces named by PopuLoRA (arXiv 2605.16727).

A rotation changes D by at most 2 |D|, but some draws, at odd or small k, turn back before they
reach the target. Then the next draw of the same seed is taken, up to 64; a module that none of
them can change enough is refused by name.

Gauge: B' = U R_U U^T B and A' = A V R_V^T V^T, which commute with any change of gauge: the child's
update depends on the parent's alone (as long as its singular values differ), and A and B keep their
balance. An update of rank 1 has nothing to turn and is refused; a module with D = 0 stays as it
is, and alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lora_evo.adapter import Slot
from lora_evo.errors import LoraEvoError
from lora_evo.noise import stream
from lora_evo.operators.components import components
from lora_evo.operators.joint_core import unchanged
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild
from lora_evo.operators.step import solve_step
from lora_evo.operators.strength import checked_strength
from lora_evo.operators.svd_structured import cayley

_DRAWS = 64
# The steps tried before a draw is given up: target * 2^0 .. 2^11.
_DOUBLINGS = 12


def _prepare(request: Request) -> Recipe:
    strength = checked_strength(request, "subspace_rotation")

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        return _turn(path, slots[0], request.seed, strength)

    return recipe


def _turn(path: str, slot: Slot, seed: int, strength: float) -> SlotChild:
    if strength == 0.0:
        return unchanged(slot)
    parts = components(slot, seed, path)
    if parts.size == 0.0:
        return unchanged(slot)
    rank = int(parts.alive.sum())
    if rank == 1:
        raise LoraEvoError(
            f"the update of {path} has rank 1: there is nothing to turn within one direction; "
            "use svd_structured or full_gaussian"
        )
    spectrum = torch.diag(parts.values[:rank] / parts.size)
    for draw in range(_DRAWS):
        turn = _Turn(spectrum, *_skews(spectrum, seed, path, draw))
        if any(turn.change(strength * 2**power) >= strength for power in range(_DOUBLINGS)):
            break
    else:
        raise LoraEvoError(
            f"no rotation drawn changes the update of {path} (rank {rank}) by {strength:g} of its "
            "size; ask for a smaller strength, or use svd_structured"
        )
    step = solve_step(turn.change, strength)
    b = parts.left.turned(_conjugated(parts.u, cayley(step * turn.skew_u)))
    a = parts.right.turned(_conjugated(parts.v, cayley(step * turn.skew_v))).T
    return parts.child(Slot(a, b, slot.scale), turn.change(step), parts.values)


@dataclass(frozen=True, eq=False)
class _Turn:
    """One pair of rotations, by step. All [k, k]; `spectrum` has norm 1."""

    spectrum: torch.Tensor
    skew_u: torch.Tensor
    skew_v: torch.Tensor

    def change(self, step: float) -> float:
        """|R_U S R_V^T - S|."""
        turned = cayley(step * self.skew_u) @ self.spectrum @ cayley(step * self.skew_v).T
        return float(torch.linalg.matrix_norm(turned - self.spectrum))


def _skews(
    spectrum: torch.Tensor, seed: int, path: str, draw: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Skew noise for both sides, whose first-order changes of the spectrum do not cancel."""
    size = len(spectrum)
    noise = (
        torch.from_numpy(stream(seed, path, name, str(draw)).standard_normal((size, size)))
        for name in ("B", "A")
    )
    skew_u, skew_v = (drawn.sub(drawn.T).div((4 * size) ** 0.5) for drawn in noise)
    if float(((skew_u @ spectrum) * (spectrum @ skew_v)).sum()) > 0:
        skew_v = -skew_v
    return skew_u, skew_v


def _conjugated(basis: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """u R u^T for a rotation [k, k] of the first k columns of `basis` [n, n]; the others rest."""
    turned = basis.clone()
    turned[:, : len(turn)] = basis[:, : len(turn)] @ turn
    return turned.mm(basis.T)


SUBSPACE_ROTATION = Operator(
    name="subspace_rotation",
    kind="mutation",
    summary="turn both singular bases within their spaces by exact rotations",
    preserves="singular values, column and row space of every update, gauge, balance of A and B",
    prepare=_prepare,
    default_strength=0.15,
    moments="reset",
)
