"""Noise added to the factors of a module, by a step solved for from the change of the update.

With directions E for A and F for B, A' = A + e E and B' = B + e F, so that

    (D' - D) / s = e (B E + F A) + e^2 F E,

and the square of its Frobenius norm is a polynomial of the fourth degree in e, whose coefficients
are inner products <X Y, Z W> = sum((X^T Z) * (Y W^T)) of r x r Gram matrices: nothing dense is
formed, and e is found such that |D' - D| = target * |D| at any rank.

E and F are given at unit size and scaled here to the root mean square of the factor that they are
added to (its standard deviation, where the mean is 0). So a rescaling of the gauge (c B, A / c)
leaves the child's update as it is; any other change of gauge does not, for the noise is drawn per
entry. A module with D = 0 (a fresh LoRA, B = 0) has no scale to measure a change by: it stays as it
is, and alive.
"""

import math

import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.spectrum import singular_values
from lora_evo.linalg.thin import prepared
from lora_evo.operators.measured import finished, unchanged
from lora_evo.operators.mutations.step import solve_step
from lora_evo.operators.operator import SlotChild


def with_noise(
    slot: Slot, target: float, toward_a: torch.Tensor, toward_b: torch.Tensor | None
) -> SlotChild:
    """The module after a step along `toward_a` [r, in] and `toward_b` [out, r] (None: B stays).

    Both are of unit size per entry; `target` is the relative change of the update; 0 is a copy.
    """
    norm = float(torch.linalg.vector_norm(singular_values(slot)))
    if target == 0.0 or norm == 0.0:
        return unchanged(slot)
    a, b = prepared(slot.A), prepared(slot.B)
    size_a, size_b = _root_mean_square(a), _root_mean_square(b)
    # Unless the factors are finer, or their squares would leave the range of float32.
    fine = torch.float64 in (a.dtype, b.dtype)
    extreme = not all(1e-12 < size < 1e12 for size in (size_a, size_b))
    precision = torch.float64 if fine or extreme else torch.float32
    a, b = a.to(precision), b.to(precision)
    e = toward_a.to(precision) * size_a
    squared = [float(((b.T @ b).double() * (e @ e.T).double()).sum()), 0.0, 0.0]
    f = None
    if toward_b is not None:
        f = toward_b.to(precision) * size_b
        squared = _polynomial(a, b, e, f)

    def change(step: float) -> float:
        total = squared[0] + step * (squared[1] + step * squared[2])
        return step * abs(slot.scale) * math.sqrt(max(total, 0.0)) / norm

    step = solve_step(change, target)
    b = slot.B if f is None else torch.add(b, f, alpha=step)
    grown = Slot(torch.add(a, e, alpha=step), b, slot.scale)
    return finished(grown, singular_values(grown), change(step), norm)


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
