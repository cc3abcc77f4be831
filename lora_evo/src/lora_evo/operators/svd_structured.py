"""Mutation by the singular value decomposition: turn both subspace bases, rescale the spectrum.

With D = s*B*A = U S V^T, the child is

    D' = U R_U(e) S exp(e z) R_V(e)^T V^T,      R(e) = (I - e K / 2)^-1 (I + e K / 2),

z standard normal, and K = (M - M^T) / sqrt(4 r) for M standard normal: the Cayley transform of a
skew matrix is exactly orthogonal (Cayley 1846), so U R_U and V R_V stay orthonormal. (The
first-order form I + e K of public implementations is not, and grows with the rank.) The step e is
solved for so that |D' - D| = strength * |D| in Frobenius norm, whatever the rank. The operator
is the "SVD-structured" spectral mutation of PopuLoRA (arXiv 2605.16727).

Gauge: B' = U R_U E U^T B and A' = A V E R_V^T V^T with E = exp(e z / 2), which multiply to D',
become B and A as e goes to 0, and commute with any change of gauge (B G, G^-1 A): the balance of
norms between A and B is the parent's. Signs of singular vectors are fixed by a probe, so that the
child's update depends on the parent's update alone (as long as its singular values differ).

A module with D = 0 (a fresh LoRA, B = 0) has no spectrum: it stays as it is, and alive.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from lora_evo.adapter import Slot
from lora_evo.errors import LoraEvoError
from lora_evo.noise import stream
from lora_evo.operators.operator import Operator, Recipe, Request, SlotChild
from lora_evo.operators.step import solve_step
from lora_evo.spectrum import effective_rank, numerical_rank
from lora_evo.thin import Thin, prepared, thin

_PROBE = 1021


def _prepare(request: Request) -> Recipe:
    strength = request.strength
    if strength is None or not 0.0 <= strength < 1.0:
        raise LoraEvoError(
            f"strength is {strength}; svd_structured wants a relative change of the update, at "
            "least 0 (a copy) and below 1, for example 0.15"
        )
    rotation = request.parameters["rotation"]
    if (
        isinstance(rotation, bool)
        or not isinstance(rotation, int | float)
        or not (0.0 <= rotation <= 100.0)
    ):
        raise LoraEvoError(
            f"rotation is {rotation!r}; expected a number from 0 (spectrum only) to 100 "
            "(almost rotation only); 1 is the default"
        )

    def recipe(path: str, slots: Sequence[Slot]) -> SlotChild:
        return _mutate(path, slots[0], request.seed, strength, float(rotation))

    return recipe


def _mutate(path: str, slot: Slot, seed: int, strength: float, rotation: float) -> SlotChild:
    left, right = thin(prepared(slot.B)), thin(prepared(slot.A).T)
    u, s, vt = torch.linalg.svd(left.upper @ right.upper.T)
    size = float(torch.linalg.vector_norm(s))
    norm = size * slot.scale
    if strength == 0.0 or size == 0.0:
        values = s * slot.scale
        return SlotChild(slot, 0, 0.0, effective_rank(values), numerical_rank(values), True, norm)
    noise = stream(seed, path, "S")
    z = torch.from_numpy(noise.standard_normal(len(s)))
    skew_u, skew_v = (_skew(noise, len(basis), slot.rank, rotation) for basis in (u, vt))
    u, v = _with_fixed_signs(left, u, vt.T, noise)
    turns = _Turns(s / size, z, skew_u, skew_v)
    step = solve_step(turns.change, strength)
    change = turns.change(step)
    grown = torch.exp(step * z / 2)
    b = left.turned(_conjugated(u, turns.turn_u, grown))
    a = right.turned(_conjugated(v, turns.turn_v, grown)).T
    values = torch.sort(s * torch.exp(step * z), descending=True).values * slot.scale
    child = Slot(a, b, slot.scale)
    return SlotChild(child, 0, change, effective_rank(values), numerical_rank(values), False, norm)


class _Turns:
    """|D' - D| / |D| as a function of the step, with the rotations of the step asked for last."""

    def __init__(
        self, shares: torch.Tensor, z: torch.Tensor, skew_u: torch.Tensor, skew_v: torch.Tensor
    ) -> None:
        self._shares, self._z = shares, z
        self._skews = (skew_u, skew_v)
        self._both = torch.stack(self._skews) if len(skew_u) == len(skew_v) else None
        self._step = 0.0
        self._change = 0.0
        self.turn_u = torch.eye(len(skew_u), dtype=torch.float64)
        self.turn_v = torch.eye(len(skew_v), dtype=torch.float64)

    def change(self, step: float) -> float:
        """|U R_U S exp(e z) R_V^T V^T - U S V^T| in units of |S|, for e = `step`."""
        if step == self._step:
            return self._change
        if self._both is None:
            self.turn_u, self.turn_v = (cayley(step * skew) for skew in self._skews)
        else:
            self.turn_u, self.turn_v = cayley(step * self._both)
        count = len(self._shares)
        grown = self._shares * torch.exp(step * self._z)
        moved = (self.turn_u[:, :count] * grown) @ self.turn_v[:, :count].T
        moved.diagonal().sub_(self._shares)
        self._step, self._change = step, float(torch.linalg.matrix_norm(moved))
        return self._change


def cayley(skew: torch.Tensor) -> torch.Tensor:
    """(I - K/2)^-1 (I + K/2): orthogonal for skew-symmetric K [..., n, n]."""
    eye = torch.eye(skew.shape[-1], dtype=skew.dtype)
    half = skew / 2
    turned: torch.Tensor = torch.linalg.solve(eye - half, eye + half)
    return turned


def _skew(noise: np.random.Generator, size: int, rank: int, rotation: float) -> torch.Tensor:
    """Skew noise whose rows have expected length rotation / sqrt(2), whatever the rank."""
    drawn = torch.from_numpy(noise.standard_normal((size, size)))
    return drawn.sub(drawn.T).mul(rotation / (4 * rank) ** 0.5)


def _conjugated(basis: torch.Tensor, turn: torch.Tensor, grown: torch.Tensor) -> torch.Tensor:
    """u R E u^T, with E filled up by ones where there are fewer singular values than columns."""
    scaled = turn.clone()
    scaled[:, : len(grown)] *= grown
    return basis.mm(scaled).mm(basis.T)


def _with_fixed_signs(
    left: Thin, u: torch.Tensor, v: torch.Tensor, noise: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Flip pairs of singular vectors so that each left one points along a probe vector.

    The probe repeats a short stretch of noise, which is as good as any fixed vector.
    """
    probe = torch.from_numpy(np.resize(noise.standard_normal(_PROBE), len(left.factor)))
    signs = torch.where(left.seen_from(probe) @ u < 0, -1.0, 1.0).double()
    paired = min(len(u), len(v))
    v = v.clone()
    v[:, :paired] *= signs[:paired]
    return u * signs, v


SVD_STRUCTURED = Operator(
    name="svd_structured",
    kind="mutation",
    summary="turn both singular bases by exact rotations and rescale the singular values",
    preserves="column and row space of every update, rank, gauge, norm balance of A and B",
    prepare=_prepare,
    defaults={"rotation": 1.0},
    default_strength=0.15,
    moments="reset",
)
