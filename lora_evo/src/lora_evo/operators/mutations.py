"""Mutations: rotation, rescaling or masking of singular components, and noise on the factors.

Noise with directions E of A and F of B and a step e gives A' = A + e E and B' = B + e F, so that

    (D' - D) / s = e (B E + F A) + e^2 F E,

and the square of its Frobenius norm is a polynomial of the fourth degree in e, whose coefficients
are inner products <X Y, Z W> = sum((X^T Z) * (Y W^T)) of r x r Gram matrices.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad

from lora_evo.compare import NEGLIGIBLE, numerical_rank, singular_values
from lora_evo.errors import LoraEvoError
from lora_evo.operators.operator import Recipe, Setup
from lora_evo.operators.slot_child import SlotChild, unchanged
from lora_evo.peft.adapter import Slot
from lora_evo.thin import prepared, thin

# Most draws of one seed, until one of them can change a module enough.
DRAWS = 64
# Largest factor by which a singular value grows or shrinks in one mutation.
LARGEST_GROWTH = 8.0
_PROBE = 257
_TOLERANCE = 1e-7
_SECANTS = 30
_TRIES = 200
_FARTHEST = 2.0**24


def svd_structured(setup: Setup) -> Recipe:
    """Rotate both singular bases and rescale the singular values.

    With D = s*B*A = U S V^T over its k non-zero singular values, the child is

        D' = U R_U(e) S exp(g(e z)) R_V(e)^T V^T,      R(e) = (I - e K / 2)^-1 (I + e K / 2),

    z standard normal, g(x) = c tanh(x / c) with c = log 8, and K = (M - M^T) / sqrt(4 k) for M
    standard normal: the Cayley transform of a skew matrix is exactly orthogonal (Cayley 1846). The
    step e is solved for so that |D' - D| = strength * |D| (Frobenius); if a draw cannot reach that,
    the next one is taken. The "SVD-structured" mutation of PopuLoRA (arXiv 2605.16727). `rotation`
    is the weight of K.

    Factorization: B' = U R_U E U^T B and A' = A V E R_V^T V^T with E = exp(g / 2) commute with any
    change of factorization (B G, G^-1 A): the balance of norms between A and B is the parent's. The
    child's update depends only on the parent's update (if its singular values differ). A module
    with D = 0 (a fresh LoRA, B = 0) does not change, and can still learn.
    """
    strength = setup.change()
    rotation = setup.number("rotation", 0.0, 100.0)
    return lambda path, slots: rotate_bases(setup, path, slots[0], strength, rotation, 1.0)


def subspace_rotation(setup: Setup) -> Recipe:
    """Rotate both singular bases within their spaces; the spectrum stays.

    With D = s*B*A = U S V^T over its k non-zero singular values, the child is

        D' = U R_U(e) S R_V(e)^T V^T,      R(e) = (I - e K / 2)^-1 (I + e K / 2),

    the rotations of `svd_structured` only, so D' has the singular values of D, and its column and
    row space: the subspace rotation of PopuLoRA (arXiv 2605.16727). An error names a module that no
    draw can change enough. An update of rank 1, which cannot rotate, does not change; an adapter
    with only such updates is an error.

    Factorization: B' = U R_U U^T B and A' = A V R_V^T V^T; as `svd_structured`.
    """
    strength = setup.change()
    return lambda path, slots: rotate_bases(setup, path, slots[0], strength, 1.0, rescaling=0.0)


def component_masking(setup: Setup) -> Recipe:
    """Mask singular components, small ones more often, and initialise them again.

    With D = s*B*A = sum_j S_j u_j v_j^T, components are drawn without replacement, with chances in
    proportion to S_j^-tail (`tail=0`: equal chances; an exponential race, Efraimidis & Spirakis
    2006). In the order drawn, a component is masked if its square fits into the rest of
    (strength * |D|)^2; the first that does not fit is finally shrunk by the square root of the
    rest. So |D' - D| = strength * |D| exactly. Component masking of PopuLoRA (arXiv 2605.16727),
    which draws with equal chances. A random row of A with a zero column of B replaces a masked
    component, as in a fresh LoRA: the next training step can change it.

    Factorization: the child's update depends only on the parent's (if its singular values differ);
    A' = rho V^T with rho = |A| / sqrt(r), B' = U S' / (s rho): |A| stays, and B has the spectrum. A
    module with D = 0 does not change, and can still learn.
    """
    strength = setup.change()
    tail = setup.number("tail", 0.0, 10.0)
    return lambda path, slots: _mask(setup, path, slots[0], strength, tail)


@dataclass(frozen=True, eq=False)
class Components:
    """B = Q_B R_B, A^T = Q_A R_A and R_B R_A^T = u diag(values) v^T.

    A probe vector determines the sign of each pair of singular vectors, so that it depends only on
    D (if the values differ).
    """

    left: Any
    right: Any
    u: torch.Tensor
    """[min(out, r)]^2, orthogonal, float64."""
    v: torch.Tensor
    """[min(in, r)]^2, orthogonal, float64."""
    values: torch.Tensor
    """The singular values of B A, largest first."""
    scale: float

    @property
    def size(self) -> float:
        """Frobenius norm of B A."""
        return float(torch.linalg.vector_norm(self.values))

    def child(self, slot: Slot, change: float, values: torch.Tensor) -> SlotChild:
        """Return the child's module; values: the singular values of its B A, in any order."""
        spectrum = torch.sort(values, descending=True).values * self.scale
        return SlotChild(slot, spectrum, change, self.size * self.scale)


def components(setup: Setup, path: str, slot: Slot) -> Components:
    """Split a module into its singular components."""
    left, right = thin(slot.B), thin(slot.A.T)
    u, values, vt = torch.linalg.svd(left.R @ right.R.T)
    # Short noise, repeated, is as good a probe as long noise, and cheaper.
    noise = setup.noise(path, "sign").standard_normal(_PROBE)
    probe = torch.from_numpy(np.resize(noise, len(left.Q)))
    signs = torch.where(probe @ left.Q @ u < 0, -1.0, 1.0).double()
    v = vt.T.clone()
    v[:, : len(values)] *= signs[: len(values)]
    return Components(left, right, u * signs, v, values, slot.scale)


class Turns:
    """R_U(e) S exp(g(e z)) R_V(e)^T, as in `svd_structured`, for the last step e.

    The sign of K_V is chosen so that both rotations add up, <K_U S, S K_V> <= 0.
    """

    def __init__(self, shares: torch.Tensor, z: torch.Tensor, skews: torch.Tensor) -> None:
        """`shares` [k]: singular values of norm 1; z [k]; both skew matrices [2, k, k]."""
        skew_u, skew_v = skews.unbind()
        spread = (skew_u * shares, shares[:, None] * skew_v)
        if float((spread[0] * spread[1]).sum()) > 0:
            skew_v, spread = -skew_v, (spread[0], -spread[1])
        self._shares, self._z = shares, z
        self._skews = torch.stack((skew_u, skew_v))
        first_order = spread[0] - spread[1] + torch.diag(shares * z)
        self.slope = float(torch.linalg.matrix_norm(first_order))

    def change(self, step: float) -> float:
        """Return |R_U S exp(g) R_V^T - S| / |S|; its derivative at step 0 is `slope`."""
        half = step * self._skews / 2
        eye = torch.eye(half.shape[-1], dtype=half.dtype)
        self.turn_u, self.turn_v = torch.linalg.solve(eye - half, eye + half).unbind()
        most = math.log(LARGEST_GROWTH)
        self.growth = torch.exp(most * torch.tanh((step / most) * self._z))
        moved = (self.turn_u * (self._shares * self.growth)) @ self.turn_v.T
        moved.diagonal().sub_(self._shares)
        self.moved = float(torch.linalg.matrix_norm(moved))
        return self.moved


def rotate_bases(
    setup: Setup, path: str, slot: Slot, target: float, rotation: float, rescaling: float
) -> SlotChild:
    """Return the module after rotations and rescaling with a relative change of `target`.

    rotation, rescaling: weights of K and z. Negligible components do not take part, so that the
    column and row space stay. Raises `LoraEvoError` if no draw reaches the target.
    """
    parts = components(setup, path, slot)
    rank = numerical_rank(parts.values)
    if target == 0.0 or rank == 0 or (rank == 1 and rescaling == 0.0):
        return unchanged(slot)
    shares = parts.values[:rank] / parts.size
    for draw in range(DRAWS):
        noise = setup.noise(path, "turns", str(draw))
        z = rescaling * torch.from_numpy(noise.standard_normal(rank))
        m = torch.from_numpy(noise.standard_normal((2, rank, rank)))
        # Rows have the expected length rotation / sqrt(2) at every rank.
        turns = Turns(shares, z, (m - m.mT) * (rotation / (4 * rank) ** 0.5))
        try:
            solve_step(turns.change, target, turns.slope)
        except LoraEvoError:
            continue
        half = turns.growth.sqrt()
        left = _conjugated(parts.u, turns.turn_u * half)
        right = _conjugated(parts.v, turns.turn_v * half)
        b = parts.left.Q @ (left @ parts.left.R)
        a = (parts.right.Q @ (right @ parts.right.R)).T
        values = parts.values.clone()
        values[:rank] *= turns.growth
        return parts.child(Slot(a, b, slot.scale), turns.moved, values)
    raise LoraEvoError(
        f"none of {DRAWS} draws changes the update of {path} (rank {rank}) by {target:g} of its "
        "size; ask for a smaller strength, or use full_gaussian"
    )


def _conjugated(basis: torch.Tensor, small: torch.Tensor) -> torch.Tensor:
    """Return u W u^T for u = `basis` [n, n] and W = `small` [k, k], extended by the identity."""
    result = basis.clone()
    result[:, : len(small)] = basis[:, : len(small)] @ small
    return result.mm(basis.T)


def _mask(setup: Setup, path: str, slot: Slot, strength: float, tail: float) -> SlotChild:
    parts = components(setup, path, slot)
    if strength == 0.0 or parts.size == 0.0:
        return unchanged(slot)
    values = parts.values / parts.size
    draws = torch.from_numpy(setup.noise(path, "S").standard_exponential(len(values)))
    kept, masked = masked_values(values, draws, strength, tail)
    length = float(torch.linalg.vector_norm(prepared(slot.A), dtype=torch.float64)) / slot.rank**0.5
    a = parts.right.Q @ (parts.v * length)
    b = parts.left.Q @ (parts.u[:, : len(kept)] * (kept * (parts.size / length)))
    # Zeros if a side of the module is narrower than the rank.
    a, b = (pad(side, (0, slot.rank - side.shape[1])) for side in (a, b))
    a = a.T
    # B has zero columns for these rows of A: masked ones, and those beyond a narrow input.
    for row in (*masked.nonzero().flatten().tolist(), *range(len(parts.v), slot.rank)):
        noise = torch.from_numpy(setup.noise(path, "fresh", str(row)).standard_normal(a.shape[1]))
        a[row] = noise * (length / float(torch.linalg.vector_norm(noise)))
    change = float(torch.linalg.vector_norm(kept - values))
    return parts.child(Slot(a, b, slot.scale), change, kept * parts.size)


def masked_values(
    values: torch.Tensor, draws: torch.Tensor, strength: float, tail: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the remaining values, and whether each is masked.

    values [k]: of norm 1, largest first; draws [k]: standard exponential.
    """
    kept, masked = values.clone(), torch.zeros(len(values), dtype=torch.bool)
    alive = values > NEGLIGIBLE * values[0]
    race = torch.where(alive, draws * (values / values[0]) ** tail, math.inf)
    budget, shrunk = strength**2, -1
    for index in torch.argsort(race, stable=True)[: int(alive.sum())].tolist():
        energy = float(values[index]) ** 2
        if energy <= budget:
            budget -= energy
            kept[index], masked[index] = 0.0, True
        elif shrunk < 0:
            shrunk = index
    if shrunk >= 0:  # else all fit, at a strength of 1 up to rounding
        kept[shrunk] -= math.sqrt(budget)
    return kept, masked


def full_gaussian(setup: Setup) -> Recipe:
    """Add Gaussian noise to both factors of every module.

        A' = A + e rms(A) E,    B' = B + e rms(B) F,    E, F ~ N(0, 1) per entry,

    with e solved for in each module so that |D' - D| = strength * |D|: the full-tensor noise of
    PopuLoRA (arXiv 2605.16727), whose step is e itself. Factorization: the child's update depends
    on the parent's factors, except for a common rescaling (c B, A / c). A module with D = 0 does
    not change.
    """
    strength = setup.change()
    return lambda path, slots: with_gaussian_noise(setup, path, slots[0], strength)


def layer_selective_gaussian(setup: Setup) -> Recipe:
    """Add Gaussian noise to a share of the modules; the others do not change.

    The layer-selective mutation of PopuLoRA (arXiv 2605.16727). `share` of the units with an
    update, at least one, are drawn; a unit is one module (`level=module`), all modules of a block,
    such as the attention of a layer (`level=block`), or all of one numbered layer (`level=layer`).
    Their modules get the noise of `full_gaussian` with the same seed. Factorization: as
    `full_gaussian`.
    """
    strength = setup.change()
    share = setup.number("share", 0.0, 1.0)
    if share == 0.0:
        raise LoraEvoError("share is 0; expected above 0 (for a copy, set the strength to 0)")
    units = setup.units()
    alive = {unit for path, unit in units.items() if setup.alive(path)}
    drawn = sorted((setup.uniform(unit, "chosen"), unit) for unit in alive)
    chosen = {unit for _, unit in drawn[: max(1, round(share * len(drawn)))]}
    return lambda path, slots: with_gaussian_noise(
        setup, path, slots[0], strength if units[path] in chosen else 0.0
    )


def with_gaussian_noise(setup: Setup, path: str, slot: Slot, strength: float) -> SlotChild:
    """Return the module with noise on both factors; a copy at strength 0."""
    norm = float(torch.linalg.vector_norm(singular_values(slot)))
    if strength == 0.0 or norm == 0.0:
        return unchanged(slot)
    a, b = prepared(slot.A), prepared(slot.B)
    size_a, size_b = (  # root mean squares
        float(torch.linalg.vector_norm(factor, dtype=torch.float64)) / math.sqrt(factor.numel())
        for factor in (a, b)
    )
    # float32, unless the factors are in float64 or their squares would overflow.
    fine = torch.float64 in (a.dtype, b.dtype)
    extreme = not all(1e-12 < size < 1e12 for size in (size_a, size_b))
    precision = torch.float64 if fine or extreme else torch.float32
    a, b = a.to(precision), b.to(precision)

    def toward(name: str, factor: torch.Tensor, size: float) -> torch.Tensor:
        noise = setup.noise(path, name).standard_normal(factor.shape, dtype=np.float32)
        return torch.from_numpy(noise).to(precision) * size

    e, f = toward("A", a, size_a), toward("B", b, size_b)
    squared = _polynomial(a, b, e, f)

    def change(step: float) -> float:
        total = squared[0] + step * (squared[1] + step * squared[2])
        return step * abs(slot.scale) * math.sqrt(max(total, 0.0)) / norm

    step = solve_step(change, strength)
    grown = Slot(torch.add(a, e, alpha=step), torch.add(b, f, alpha=step), slot.scale)
    return SlotChild(grown, singular_values(grown), change(step), norm)


def _polynomial(a: torch.Tensor, b: torch.Tensor, e: torch.Tensor, f: torch.Tensor) -> list[float]:
    """Return the coefficients of |B E + F A + step F E|^2 as a polynomial in step."""
    bb, bf, ff = (b.T @ b).double(), (b.T @ f).double(), (f.T @ f).double()
    aa, ae, ee = (a @ a.T).double(), (a @ e.T).double(), (e @ e.T).double()
    return [
        float((bb * ee).sum() + (ff * aa).sum() + 2 * (bf * ae.T).sum()),
        2 * float((bf * ee).sum() + (ff * ae).sum()),
        float((ff * ee).sum()),
    ]


def solve_step(change: Callable[[float], float], target: float, slope: float = 1.0) -> float:
    """Return a step e > 0 with change(e) = target to a relative 1e-7, by bracketed secants.

    slope: estimate of the derivative at 0. change: continuous with change(0) = 0; its last call is
    with the returned step. Raises `LoraEvoError` if no step changes enough.
    """
    low, high = 0.0, math.inf
    before, gap_before = 0.0, -target
    step = first = target / slope if slope > 0 else target
    for tried in range(_TRIES):
        gap = change(step) - target
        if abs(gap) <= _TOLERANCE * target or high - low <= _TOLERANCE * 1e-8 * step:
            return step
        if gap > 0:
            high = step
        else:
            low = step
        rise = gap - gap_before
        guess = step - gap * (step - before) / rise if rise else low
        before, gap_before = step, gap
        if high == math.inf:
            step = min(max(guess, 1.01 * low), 2 * low) if guess > low else 2 * low
        elif tried < _SECANTS and low < guess < high:
            step = guess
        else:
            step = (low + high) / 2
        if step > first * _FARTHEST:
            break
    raise LoraEvoError(f"no step reaches a relative change of {target}; ask for less")
