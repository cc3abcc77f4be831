"""Noise added to the factors of a module, by a step solved for from the change of the update.

With directions E for A and F for B, A' = A + e E and B' = B + e F, so that

    (D' - D) / s = e (B E + F A) + e^2 F E,

and the square of its Frobenius norm is a polynomial of the fourth degree in e, whose coefficients
are inner products <X Y, Z W> = sum((X^T Z) * (Y W^T)) of r x r Gram matrices: nothing dense is
formed, and e is found such that |D' - D| = strength * |D| at any rank.

E and F have the root mean square of the factor that they are added to. So a rescaling of the
factorization (c B, A / c) leaves the child's update as it is; any other change of factorization
does not. A module with D = 0 (a fresh LoRA, B = 0) stays as it is, and alive.
"""

import math

import numpy as np
import torch

from lora_evo.compare import singular_values
from lora_evo.errors import LoraEvoError
from lora_evo.operators.measured import SlotChild, solve_step, unchanged
from lora_evo.operators.operator import Recipe, Setup
from lora_evo.operators.thin import prepared
from lora_evo.peft.adapter import Slot


def full_gaussian(setup: Setup) -> Recipe:
    """Add Gaussian noise to both factors of every module.

        A' = A + e rms(A) E,    B' = B + e rms(B) F,    E, F ~ N(0, 1) per entry,

    with e solved for per module so that |D' - D| = strength * |D|: the full-tensor noise of
    PopuLoRA (arXiv 2605.16727), whose step is e itself. Factorization: the child's update depends
    on that of the parent's, except for a common rescaling (c B, A / c). A module with D = 0 stays.
    """
    strength = setup.change()
    return lambda path, slots: with_gaussian_noise(setup, path, slots[0], strength)


def layer_selective_gaussian(setup: Setup) -> Recipe:
    """Add Gaussian noise to a share of the modules; the others stay exactly the parent's.

    The layer-selective mutation of PopuLoRA (arXiv 2605.16727). `share` of the units with an
    update, rounded and at least one, are chosen without replacement. A unit is one module
    (`level=module`), all of one block, such as the attention of a layer (`level=block`), or of one
    numbered layer (`level=layer`). Each chosen module gets the noise of `full_gaussian` under the
    same seed, and changes by the strength; the whole adapter changes less. Factorization: as
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
    size_a, size_b = _root_mean_square(a), _root_mean_square(b)
    # Unless the factors are finer, or their squares would leave the range of float32.
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
    """Coefficients of |B E + F A + step F E|^2 in step."""
    bb, bf, ff = (b.T @ b).double(), (b.T @ f).double(), (f.T @ f).double()
    aa, ae, ee = (a @ a.T).double(), (a @ e.T).double(), (e @ e.T).double()
    return [
        float((bb * ee).sum() + (ff * aa).sum() + 2 * (bf * ae.T).sum()),
        2 * float((bf * ee).sum() + (ff * ae).sum()),
        float((ff * ee).sum()),
    ]


def _root_mean_square(factor: torch.Tensor) -> float:
    norm = torch.linalg.vector_norm(factor, dtype=torch.float64)
    return float(norm) / math.sqrt(factor.numel())
