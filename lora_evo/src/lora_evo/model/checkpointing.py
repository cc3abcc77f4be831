"""Gradient checkpointing of a model's layers with stacked adapters."""

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from lora_evo.model.stacked_lora import StackedAdapters

_aten = torch.ops.aten
KEPT = [
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
]
"""Operations whose results are not recomputed: the kernels of scaled_dot_product_attention."""
_M_MMAP_THRESHOLD = -3
_LARGE = 1 << 20
"""Smallest block, in bytes, with pages of its own."""


def lower_mmap_threshold() -> None:
    """Let glibc return large freed blocks, or this process keeps what checkpointing saves."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


def layers_of(decoder: nn.Module) -> Sequence[nn.Module]:
    """Return a decoder's layers: its longest list of modules, since names differ by family."""
    lists = [part for part in decoder.children() if isinstance(part, nn.ModuleList)]
    return list(max(lists, key=len, default=()))


@contextmanager
def checkpointed(layers: Iterable[nn.Module], adapters: StackedAdapters) -> Iterator[None]:
    """Use gradient checkpointing for these layers, which must be deterministic, in the block."""
    before = [vars(layer).get("forward") for layer in layers]
    for layer in layers:
        layer.forward = _recomputed(layer.forward, adapters)
    try:
        yield
    finally:
        for layer, forward in zip(layers, before, strict=True):
            del layer.forward
            if forward is not None:
                layer.forward = forward


def _recomputed(forward: Callable[..., Any], adapters: StackedAdapters) -> Callable[..., Any]:
    @contextmanager
    def both(route: AbstractContextManager[None], recomputing: Any) -> Iterator[None]:
        with route, recomputing:
            yield

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        saving, recomputing = create_selective_checkpoint_contexts(KEPT)  # type: ignore[no-untyped-call]
        route = adapters.routing.fixed(adapters.routing.current)  # that of this call
        return saving, both(route, recomputing)

    how: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
    return partial(checkpoint, forward, context_fn=contexts, **how)
