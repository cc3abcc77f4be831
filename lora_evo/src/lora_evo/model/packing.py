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
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.attention.bias import CausalBias, causal_lower_right
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from transformers.masking_utils import causal_mask_function


def takes_flash(like: Tensor) -> bool:
    """Whether a flash kernel attends to tensors of this device and dtype."""
    return like.is_cuda and like.element_size() == 2


@dataclass(frozen=True, slots=True)
class Block:
    """Texts of one attention call, padded on the right to one length; their prompts have one."""

    texts: int
    keys: int
    """Positions of a text, from 0 on."""
    queries: int
    """How many of them are queried, the last."""

    def mask(self, sees: Callable[..., Tensor], plain: str, like: Tensor) -> Any:
        """Return what the kernel takes as attention mask; None for a plain causal one.

        like: any tensor of the queries' device and dtype.
        """
        shape = self.queries, self.keys
        if sees is causal_mask_function and plain == "sdpa":
            if self.queries == self.keys:
                return None
            if takes_flash(like):
                return causal_lower_right(*shape)
        at = torch.arange(self.keys, device=like.device)
        zero = at.new_zeros(())
        mask = sees(zero, zero, at[-self.queries :, None], at).expand(shape)[None, None]
        if plain == "sdpa":
            return mask
        least = torch.finfo(like.dtype).min
        return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(~mask, least)


@dataclass(frozen=True, eq=False, slots=True)
class Packing:
    """The attention of the tokens of a packed row; all are numbers of tokens or of queries."""

    blocks: tuple[Block, ...]
    queries: Tensor
    """[queries of all blocks], the token of each; any on padding."""
    keys: Tensor
    """[keys of all blocks], likewise."""
    places: Tensor
    """[tokens], the query of each token."""


@dataclass(frozen=True, eq=False, slots=True)
class Masks:
    """A packing and the mask of each of its blocks."""

    packing: Packing
    of_blocks: list[Any]


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
    like = torch.empty((), dtype=dtype, device=packing.places.device)
    return Masks(packing, [block.mask(mask_function, plain, like) for block in packing.blocks])


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
    packing: Packing = mask.packing
    blocks = packing.blocks
    # If the keys are those of the queries, each token has one place among them.
    inverse = packing.places if len(packing.keys) == len(packing.queries) else None
    of_queries = packing.queries, packing.places, [block.texts * block.queries for block in blocks]
    of_keys = packing.keys, inverse, [block.texts * block.keys for block in blocks]
    sides = [
        torch.split(_rows(side[0].transpose(0, 1), numbers, places), sizes)
        for side, (numbers, places, sizes) in (
            (query, of_queries),
            (key, of_keys),
            (value, of_keys),
        )
    ]
    parts = []
    for block, of_block, *inputs in zip(blocks, mask.of_blocks, *sides, strict=True):
        q, k, v = (x.unflatten(0, (block.texts, -1)).transpose(1, 2) for x in inputs)
        if isinstance(of_block, CausalBias):
            more = {"scale": how.get("scaling"), "enable_gqa": q.shape[1] != k.shape[1]}
            part = F.scaled_dot_product_attention(q, k, v, of_block, **more).transpose(1, 2)
        else:
            part = kernel(module, q, k, v, of_block, **how)[0]
        parts.append(part.flatten(0, 1))
    return torch.cat(parts).index_select(0, packing.places)[None], None


def _rows(table: Tensor, numbers: Tensor, inverse: Tensor | None) -> Tensor:
    """Return rows [n, heads, features] of a table [tokens, heads, features] by number [n].

    inverse: [tokens], the place of each token's only row with a gradient. None: gradients are
    summed, in a fixed order.
    """
    flat = table.flatten(1)
    if inverse is None:
        rows = F.embedding(numbers, flat)
    else:
        rows = cast(Tensor, _Chosen.apply(flat, numbers, inverse))  # type: ignore[no-untyped-call]
    return rows.view(len(numbers), *table.shape[1:])


class _Chosen(torch.autograd.Function):
    """Rows of a table [tokens, features] by number; backwards, the one at each token's place."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, numbers: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return table.index_select(0, numbers)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad.index_select(0, *ctx.saved_tensors), None, None


_NAME = "packed_"
for _plain in ("sdpa", "eager"):
    AttentionInterface.register(_NAME + _plain, partial(_attend, _plain))
    AttentionMaskInterface.register(_NAME + _plain, partial(_mask, _plain))
