"""Packed rows: texts of different lengths in one row without padding, a shared prompt only once.

A model reads all tokens of a batch as one text, with explicit positions. A registered attention
function of transformers calls the kernel once for each block of texts, in which a completion sees
the keys and values of its prompt and its own.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from transformers.masking_utils import causal_mask_function


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Texts of one attention call, padded to one length."""

    keys: Tensor
    """[texts, keys], token numbers in the packed row, in the order of positions; any on padding."""
    positions: Tensor
    """[texts, keys], positions in the text."""
    seen: Tensor
    """[texts, keys], False on padding between a prompt and its completion."""
    queries: int
    """Number of queries: the last keys."""

    def mask(self, sees: Callable[..., Tensor], plain: str, dtype: torch.dtype) -> Tensor | None:
        """Return the kernel's attention mask; None for a plain causal one."""
        whole = self.queries == self.keys.shape[1]
        if whole and sees is causal_mask_function and plain == "sdpa":
            return None
        at = self.positions[:1] if whole else self.positions  # padding is after all queries
        first = at.new_zeros(())
        mask = sees(first, first, at[:, -self.queries :, None], at[:, None, :])[:, None]
        if not whole:
            mask = mask & self.seen[:, None, None]
        if plain == "sdpa":
            return mask
        return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)


@dataclass(frozen=True, eq=False, slots=True)
class Packing:
    """The attention of the tokens of a packed row.

    places: [tokens], index of each token among the queries of all blocks.
    """

    blocks: tuple[Block, ...]
    places: Tensor


@dataclass(frozen=True, eq=False, slots=True)
class Masks:
    """A packing and the mask of each of its blocks."""

    packing: Packing
    of_blocks: list[Tensor | None]


_in_force: ContextVar[Packing | None] = ContextVar("_in_force", default=None)


@contextmanager
def packed(packing: Packing | None) -> Iterator[None]:
    """Use this packing for attention inside the block; None: no packing."""
    token = _in_force.set(packing)
    try:
        yield
    finally:
        _in_force.reset(token)


def can_pack(model: Any) -> bool:
    """Set a model up for packed rows; return False if it cannot read them.

    Each of its layers must have only keys and values in the cache, and no other state.
    """
    layers = DynamicCache(config=model.config).layers
    config = model.get_decoder().config
    plain = config._attn_implementation.removeprefix(_NAME)
    if not model._supports_attention_backend or plain not in ("sdpa", "eager"):
        return False
    if any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
        return False
    config._attn_implementation = _NAME + plain
    return True


def _mask(plain: str, *, mask_function: Any, dtype: torch.dtype, **how: Any) -> Any:
    """Return `Masks` inside `packed`, else transformers' own mask."""
    packing = _in_force.get()
    if packing is None:
        return AttentionMaskInterface()[plain](mask_function=mask_function, dtype=dtype, **how)
    return Masks(packing, [block.mask(mask_function, plain, dtype) for block in packing.blocks])


def _attend(
    plain: str, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **how: Any
) -> tuple[Tensor, Tensor | None]:
    """Attend block by block if the mask is `Masks`, else as transformers does.

    query, key, value: [1, heads, tokens, features]. Returns [1, tokens, heads, features].
    """
    family: Any = sys.modules[type(module).__module__]
    kernel = AttentionInterface()["sdpa"] if plain == "sdpa" else family.eager_attention_forward
    if not isinstance(mask, Masks):
        result: tuple[Tensor, Tensor | None] = kernel(module, query, key, value, mask, **how)
        return result
    sides = [side[0].transpose(0, 1) for side in (query, key, value)]
    parts = []
    for block, of_block in zip(mask.packing.blocks, mask.of_blocks, strict=True):
        numbers = block.keys[:, -block.queries :], block.keys, block.keys
        inputs = (_rows(*pair).transpose(1, 2) for pair in zip(sides, numbers, strict=True))
        parts.append(kernel(module, *inputs, of_block, **how)[0].flatten(0, 1))
    return _rows(torch.cat(parts), mask.packing.places)[None], None


def _rows(table: Tensor, numbers: Tensor) -> Tensor:
    """Return rows [..., heads, features] of a table [n, heads, features] by number [...].

    By an embedding, whose gradient is summed in a fixed order.
    """
    return F.embedding(numbers, table.flatten(1)).view(*numbers.shape, *table.shape[1:])


_NAME = "packed_"
for _plain in ("sdpa", "eager"):
    AttentionInterface.register(_NAME + _plain, partial(_attend, _plain))
    AttentionMaskInterface.register(_NAME + _plain, partial(_mask, _plain))
