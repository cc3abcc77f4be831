"""Gradient checkpointing per decoder layer (Chen et al. 2016, arXiv 1604.06174), attention kept.

Within the block only the input of every layer and the result of its attention stay in memory; the
backward pass computes the rest of a layer again. Attention grows with the square of the length, and
its result is as small as the layer's input, so that it is not worth computing twice. The route of
the stacked adapters is put back for each recomputation.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from evals.engine.stacked_lora import StackedAdapters

_aten = torch.ops.aten
KEPT = [
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
]
"""Operations whose results are kept: the kernels behind scaled_dot_product_attention."""
_M_MMAP_THRESHOLD = -3
"""Of glibc's malloc.h."""
_LARGE = 1 << 20
"""Bytes of a block from which on it gets pages of its own."""


def hand_large_blocks_back() -> None:
    """Have glibc, where that is the C library, hand large blocks back when they are freed.

    For the whole process. Left to itself its heap keeps them, and what is kept of each layer lies
    between them, so that a pass grows by what checkpointing saves.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


@contextmanager
def checkpointed(layers: Iterable[nn.Module], adapters: StackedAdapters) -> Iterator[None]:
    """Run these layers with gradient checkpointing inside the block.

    Layers must not draw random numbers: none are put back for the second time.
    """
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
    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        kept, again = create_selective_checkpoint_contexts(KEPT)  # type: ignore[no-untyped-call]
        return kept, _both(adapters.same_route(), again)

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


@contextmanager
def _both(one: AbstractContextManager[None], other: Any) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(one)
        stack.enter_context(other)
        yield
