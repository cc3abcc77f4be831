"""A quick look for NaN and infinity."""

from __future__ import annotations

import torch


def all_finite(factor: torch.Tensor) -> bool:
    """Whether no value is NaN or infinite.

    One sum tells: NaN and infinity survive every addition. Only where it is not finite itself,
    which an overflow of large values can cause too, every value is looked at.
    """
    values = factor.detach()
    narrow = values.dtype == torch.float16
    total = values.sum(dtype=torch.float32) if narrow else values.sum()
    return bool(torch.isfinite(total)) or bool(torch.isfinite(values).all())
