"""Rotations and rescalings of the singular components of an update, by one step."""

import math

import torch

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Slot
from lora_evo.linalg.noise import stream
from lora_evo.operators.measured import unchanged
from lora_evo.operators.mutations.components import components
from lora_evo.operators.mutations.step import solve_step
from lora_evo.operators.operator import SlotChild

# Draws of one seed that are tried until one of them can change a module enough.
DRAWS = 64
# No singular value grows or shrinks by more than this in one mutation.
LARGEST_GROWTH = 8.0


class Turns:
    """R_U(e) S exp(g(e z)) R_V(e)^T, as in `svd_structured`, for e the step asked for last.

    K_V is taken with the sign by which both rotations add up, <K_U S, S K_V> <= 0: turned alike, U
    and V would carry equal values back to where they were.
    """

    def __init__(self, shares: torch.Tensor, z: torch.Tensor, skews: torch.Tensor) -> None:
        """`shares` [k]: singular values of norm 1; z [k]; both skew matrices [2, k, k]."""
        skew_u, skew_v = skews
        spread = (skew_u * shares, shares[:, None] * skew_v)
        if float((spread[0] * spread[1]).sum()) > 0:
            skew_v, spread = -skew_v, (spread[0], -spread[1])
        self._shares, self._z = shares, z
        self._skews = torch.stack((skew_u, skew_v))
        first_order = spread[0] - spread[1] + torch.diag(shares * z)
        self.slope = float(torch.linalg.matrix_norm(first_order))

    def change(self, step: float) -> float:
        """|R_U S exp(g) R_V^T - S|, in units of |S|; its derivative at 0 is `slope`."""
        self.turn_u, self.turn_v = cayley(step * self._skews)
        most = math.log(LARGEST_GROWTH)
        self.growth = torch.exp(most * torch.tanh((step / most) * self._z))
        moved = (self.turn_u * (self._shares * self.growth)) @ self.turn_v.T
        moved.diagonal().sub_(self._shares)
        self.moved = float(torch.linalg.matrix_norm(moved))
        return self.moved


def turned(
    path: str, slot: Slot, seed: int, target: float, rotation: float, rescaling: float
) -> SlotChild:
    """The module after turns and growth that change its update by `target`, relative to its size.

    `rotation` and `rescaling` weigh K and z. Only components that are alive take part, so that the
    column and row space stay. A draw that turns back before it reaches the target makes way for
    the next one of the same seed. A module with D = 0 stays as it is. Raises `LoraEvoError` where
    no draw reaches the target.
    """
    parts = components(slot, seed, path)
    if target == 0.0 or parts.size == 0.0:
        return unchanged(slot)
    rank = int(parts.alive.sum())
    if rank == 1 and rescaling == 0.0:
        raise LoraEvoError(
            f"the update of {path} has rank 1: there is nothing to turn within one direction; "
            "use svd_structured or full_gaussian"
        )
    shares = parts.values[:rank] / parts.size
    for draw in range(DRAWS):
        noise = stream(seed, path, "turns", str(draw))
        z = rescaling * torch.from_numpy(noise.standard_normal(rank))
        drawn = torch.from_numpy(noise.standard_normal((2, rank, rank)))
        # Rows of expected length rotation / sqrt(2), whatever the rank.
        turns = Turns(shares, z, (drawn - drawn.mT) * (rotation / (4 * rank) ** 0.5))
        try:
            solve_step(turns.change, target, turns.slope)
        except LoraEvoError:
            continue
        half = turns.growth.sqrt()
        b = parts.left.turned(_conjugated(parts.u, turns.turn_u * half))
        a = parts.right.turned(_conjugated(parts.v, turns.turn_v * half)).T
        values = parts.values.clone()
        values[:rank] *= turns.growth
        return parts.child(Slot(a, b, slot.scale), turns.moved, values)
    raise LoraEvoError(
        f"none of {DRAWS} draws changes the update of {path} (rank {rank}) by {target:g} of its "
        "size; ask for a smaller strength, or use full_gaussian"
    )


def _conjugated(basis: torch.Tensor, small: torch.Tensor) -> torch.Tensor:
    """u W u^T for W = `small` [k, k] on the first k columns of `basis` [n, n]; the others rest."""
    result = basis.clone()
    result[:, : len(small)] = basis[:, : len(small)] @ small
    return result.mm(basis.T)


def cayley(skew: torch.Tensor) -> torch.Tensor:
    """(I - K/2)^-1 (I + K/2): orthogonal for skew-symmetric K [..., n, n] (Cayley 1846)."""
    eye = torch.eye(skew.shape[-1], dtype=skew.dtype)
    half = skew / 2
    result: torch.Tensor = torch.linalg.solve(eye - half, eye + half)
    return result
