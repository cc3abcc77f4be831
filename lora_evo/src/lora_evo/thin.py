"""QR factorisations of tall thin matrices, and what keeps the bytes of sums equal."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

# Bytes, as of torch's own tensors: products may round differently with other alignments.
_ALIGNMENT = 64


def thin(*factors: torch.Tensor) -> Any:
    """Return torch's pair F = Q R of factors [n, r_k] side by side, by Householder reflections.

    Q [n, m] is orthonormal and R [m, sum r_k] upper triangular, m the lesser width; float64.
    """
    return torch.linalg.qr(torch.cat([f.detach().cpu().double() for f in factors], dim=1))


def triangle(factor: torch.Tensor) -> torch.Tensor:
    """Return R of a factor alone, at half the cost."""
    upper: torch.Tensor = torch.linalg.qr(factor.detach().cpu().double(), mode="r").R
    return upper


def prepared(factor: torch.Tensor) -> torch.Tensor:
    """Return the factor detached, contiguous and aligned in main memory, copied if necessary."""
    plain = factor.detach().cpu().contiguous()
    return plain if plain.data_ptr() % _ALIGNMENT == 0 else plain.clone()


_thread_setting = threading.RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside, so that sums are equal; a lock, as all share it."""
    with _thread_setting:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
