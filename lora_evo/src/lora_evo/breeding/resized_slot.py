"""The arithmetic of another rank: configuration and factors.

Down: the best approximation of the update in Frobenius norm (Eckart & Young 1936), by the SVD of
the small core R_B R_A^T of B = Q_B R_B and A^T = Q_A R_A. With s R_B R_A^T = U S V^T,

    A' = g V^T Q_A^T,    B' = Q_B U S / (g s'),    g = |A| / sqrt(r),

so that the rows of A' are as long as the parent's rows are on average, and B' carries the
spectrum. Up: the parent's pairs stay as they are and new ones join, with fresh rows of that length
in A and zero columns in B, as LoRA starts: the update is the same, and no pair is dead.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import torch

from lora_evo.errors import LoraEvoError, checked_count
from lora_evo.files.adapter import Slot
from lora_evo.files.adapter_config import AdapterConfig
from lora_evo.linalg.noise import stream
from lora_evo.linalg.spectrum import singular_values
from lora_evo.linalg.thin import prepared
from lora_evo.operators.measured import finished
from lora_evo.operators.operator import SlotChild


def resized_config(
    config: AdapterConfig, paths: Sequence[str], rank: int, alpha: float | None
) -> AdapterConfig:
    """The configuration with rank `rank` on every module; `rank_pattern` is empty then.

    With `alpha` every module gets this one. Without, every module keeps its scale s (alpha/r, or
    alpha/sqrt(r)): `lora_alpha` is what the commonest scale asks for, and `alpha_pattern` names
    the other modules one by one. Raises `LoraEvoError` for a rank or alpha that cannot be.
    """
    checked_count("rank", rank)
    if isinstance(alpha, float) and not (math.isfinite(alpha) and alpha > 0):
        raise LoraEvoError(f"alpha is {alpha}; expected a finite number above 0")
    if alpha is not None:
        return replace(config, r=rank, lora_alpha=alpha, rank_pattern={}, alpha_pattern={})
    root = math.sqrt(rank) if config.use_rslora else rank
    wanted = {path: _plain(config.scale(path) * root) for path in paths}
    counts = sorted(set(wanted.values()))
    commonest = max(counts, key=list(wanted.values()).count)
    # PEFT matches a pattern at the end of a path; ^ makes it the whole path.
    odd = {f"^{re.escape(path)}": value for path, value in wanted.items() if value != commonest}
    return replace(config, r=rank, lora_alpha=commonest, rank_pattern={}, alpha_pattern=odd)


def resized_slot(path: str, slot: Slot, rank: int, scale: float, seed: int) -> SlotChild:
    """The slot re-expressed with `rank` pairs under `scale`, in its own dtype and layout.

    Where neither the rank nor the scale changes, the same bits.
    """
    ratio = slot.scale / scale
    same_scale = math.isclose(ratio, 1.0, rel_tol=1e-12)
    values = singular_values(slot)
    size = float(torch.linalg.vector_norm(values))
    lost = float(torch.linalg.vector_norm(values[rank:])) / size if size else 0.0
    if rank < slot.rank:
        a, b = _nearest(path, slot, rank, scale, seed)
    else:
        a = torch.cat((slot.A, _fresh_rows(path, slot, rank - slot.rank, seed)))
        b = slot.B if same_scale else (slot.B.double() * ratio).to(slot.B.dtype)
        b = torch.cat((b, b.new_zeros(len(b), rank - slot.rank)), dim=1)
    return finished(
        Slot(a, b, scale, slot.layout),
        values[:rank],
        lost,
        size,
        moments_valid=rank == slot.rank and same_scale,
        truncation_loss=lost,
    )


def _nearest(
    path: str, slot: Slot, rank: int, scale: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    left, upper = torch.linalg.qr(prepared(slot.B).double())
    right, lower = torch.linalg.qr(prepared(slot.A).double().T)
    u, values, vt = torch.linalg.svd(slot.scale * (upper @ lower.T))
    kept = min(rank, len(values))
    length = _row_length(slot)
    rows = length * (vt[:rank] @ right.T)
    # A module narrower than the rank has no more directions of its own.
    a = torch.cat((rows.to(slot.A), _fresh_rows(path, slot, rank - len(rows), seed)))
    b = torch.zeros(left.shape[0], rank, dtype=torch.float64)
    b[:, :kept] = (left @ u[:, :kept]) * (values[:kept] / (length * scale))
    return a, b.to(slot.B)


def _fresh_rows(path: str, slot: Slot, count: int, seed: int) -> torch.Tensor:
    """Uniform rows (as PEFT draws them), as long as the present ones are expected to be."""
    columns = slot.A.shape[1]
    edge = _row_length(slot) * math.sqrt(3 / columns)
    rows = stream(seed, path, "resize").uniform(-edge, edge, size=(count, columns))
    return torch.from_numpy(rows).to(slot.A.device, slot.A.dtype)


def _row_length(slot: Slot) -> float:
    """Root mean square length of the rows of A; that of a fresh LoRA where A is zero."""
    length = float(torch.linalg.matrix_norm(prepared(slot.A).double())) / math.sqrt(slot.rank)
    return length or 1 / math.sqrt(3)


def _plain(value: float) -> float:
    """A whole number as such, free of what the roots left behind."""
    value = float(f"{value:.12g}")
    return int(value) if value.is_integer() else value
