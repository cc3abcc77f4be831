"""Gradient checkpointing of a model's layers, under the route of each row."""

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
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
"""Operations whose results are kept: the kernels behind scaled_dot_product_attention."""
_M_MMAP_THRESHOLD = -3
_LARGE = 1 << 20
"""Bytes of a block from which on it gets pages of its own."""


def lower_mmap_threshold() -> None:
    """Have glibc hand large blocks back when they are freed, for the whole process.

    Left to itself its heap keeps them, and a pass grows by what checkpointing saves.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


def layers_of(decoder: nn.Module) -> Sequence[nn.Module]:
    """Return a decoder's layers, whatever its family calls them: its longest list of modules."""
    lists = [part for part in decoder.children() if isinstance(part, nn.ModuleList)]
    return list(max(lists, key=len, default=()))


@contextmanager
def checkpointed(layers: Iterable[nn.Module], adapters: StackedAdapters) -> Iterator[None]:
    """Run these layers, which draw no random numbers, with gradient checkpointing inside."""
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
        kept, recomputing = create_selective_checkpoint_contexts(KEPT)  # type: ignore[no-untyped-call]
        return kept, both(adapters.same_route(), recomputing)  # the route of this call

    def run(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(
            forward,
            *args,
            use_reentrant=False,
            preserve_rng_state=False,
            context_fn=contexts,
            **kwargs,
        )

    return run
