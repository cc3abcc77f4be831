"""The singular components of an update, held by their small parts."""

from dataclasses import dataclass

import numpy as np
import torch

from lora_evo.files.adapter import Slot
from lora_evo.linalg.noise import stream
from lora_evo.linalg.spectrum import NEGLIGIBLE
from lora_evo.linalg.thin import Thin, prepared, thin
from lora_evo.operators.measured import finished
from lora_evo.operators.operator import SlotChild

_PROBE = 257


@dataclass(frozen=True, eq=False)
class Components:
    """B = Q_B R_B, A^T = Q_A R_A and R_B R_A^T = u diag(values) v^T.

    The sign of each pair of singular vectors is fixed by a probe vector, so that it depends on D
    alone (as long as the values differ).
    """

    left: Thin
    """Of B."""
    right: Thin
    """Of A^T."""
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

    @property
    def alive(self) -> torch.Tensor:
        """Which values count as a rank: above a millionth of the largest [k], bool."""
        return (self.values > 0) & (self.values > NEGLIGIBLE * self.values[0])

    def child(self, slot: Slot, change: float, values: torch.Tensor) -> SlotChild:
        """The finished module `slot`, whose B A has the singular values `values` (any order)."""
        spectrum = torch.sort(values, descending=True).values * self.scale
        return finished(slot, spectrum, change, self.size * self.scale)


def components(slot: Slot, seed: int, path: str) -> Components:
    """Split a module into its singular components."""
    left, right = thin(prepared(slot.B)), thin(prepared(slot.A).T)
    u, values, vt = torch.linalg.svd(left.upper @ right.upper.T)
    # A short stretch of noise, repeated, is as good a probe as any and cheaper to draw.
    stretch = stream(seed, path, "sign").standard_normal(_PROBE)
    probe = torch.from_numpy(np.resize(stretch, len(left.factor)))
    signs = torch.where(left.seen_from(probe) @ u < 0, -1.0, 1.0).double()
    v = vt.T.clone()
    paired = len(values)
    v[:, :paired] *= signs[:paired]
    return Components(left, right, u * signs, v, values, slot.scale)
