"""Packed rows: texts of different lengths in one row without padding, a shared prompt only once.

A model reads all tokens of a batch as one text, with explicit positions. A registered attention
function of transformers calls the kernel once for each block of texts, in which a completion sees
the keys and values of its prompt and its own.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.attention.bias import CausalBias, causal_lower_right
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from transformers.masking_utils import causal_mask_function

Tokens: TypeAlias = Sequence[tuple[int, ...]]
Numbers: TypeAlias = "np.ndarray[Any, Any]"


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


def _texts(
    prompts: Tokens, completions: Tokens, members: Sequence[int]
) -> tuple[list[tuple[int, ...]], list[int], list[int], list[tuple[int, int | None]]]:
    """Return the texts of rows, the member and the stem of each; and each row's stem and branch.

    Rows of one member with one prompt share it as a stem, and each has its completion as a branch;
    any other row is a stem, which is its own. The last token of a completion is not read.
    """
    keys = list(zip(members, prompts, strict=True))
    counts = Counter(key for key, c in zip(keys, completions, strict=True) if len(c) > 1)
    stems: list[tuple[int, tuple[int, ...]]] = []  # with their members
    branches: list[tuple[int, tuple[int, ...]]] = []  # with their stems
    stem_of: dict[tuple[int, tuple[int, ...]], int] = {}
    rows: list[tuple[int, int | None]] = []
    for key, completion in zip(keys, completions, strict=True):
        (member, prompt), branch, shared = key, completion[:-1], counts[key] > 1
        if not shared or key not in stem_of:
            stem_of[key] = len(stems)
            stems.append((member, prompt if shared else prompt + branch))
        rows.append((stem_of[key], len(branches) if shared and branch else None))
        if shared and branch:
            branches.append((stem_of[key], branch))
    n = len(stems)
    stem_of_text = [*range(n), *(stem for stem, _ in branches)]
    owners = [stems[stem][0] for stem in stem_of_text]
    rows = [(stem, None if branch is None else n + branch) for stem, branch in rows]
    return [text for _, text in stems + branches], owners, stem_of_text, rows


def pack(
    prompts: Tokens, completions: Tokens, members: Sequence[int], device: torch.device
) -> tuple[Tensor, list[int], Tensor, Packing, list[tuple[int, ...]]]:
    """Pack rows into one, the texts of each member together.

    Returns ids [1, tokens], the member of each token, positions [1, tokens] in the row's text, the
    packing, and for each row the places of the tokens whose next one is in its completion.
    """
    texts, owners, stem_of, rows = _texts(prompts, completions, members)
    lengths = np.array([len(text) for text in texts])
    order = sorted(range(len(lengths)), key=owners.__getitem__)
    starts = np.zeros_like(lengths)
    starts[order] = lengths[order].cumsum() - lengths[order]
    stems = np.array(stem_of)
    begins = np.where(stems == np.arange(len(stems)), 0, lengths[stems])
    positions = np.concatenate([begins[i] + np.arange(lengths[i]) for i in order])
    places = []
    for (stem, branch), prompt, completion in zip(rows, prompts, completions, strict=True):
        last = int(starts[stem]) + len(prompt) - 1
        first = last + 1 if branch is None else int(starts[branch])
        places.append((last, *range(first, first + len(completion) - 1)))
    return (
        torch.tensor([[token for i in order for token in texts[i]]], device=device),
        [owners[i] for i in order for _ in texts[i]],
        torch.tensor(positions[None], device=device),
        _packing(lengths, starts, begins, starts[stems], device),
        places,
    )


def _packing(
    lengths: Numbers, starts: Numbers, begins: Numbers, prompts: Numbers, device: torch.device
) -> Packing:
    """Return the attention of texts, one number of each: its length, its first token in the packed
    row, its first position, and the first token of its prompt."""
    blocks, queried, key_rows, real = [], [], [], []
    for begin in sorted(set(begins.tolist())):  # stems, then branches by length of their prompt
        of_block = np.flatnonzero(begins == begin)
        grid = np.arange(lengths[of_block].max())
        inside = grid < lengths[of_block, None]
        tokens = np.where(inside, starts[of_block, None] + grid, 0)
        keys = np.hstack((prompts[of_block, None] + np.arange(begin), tokens))
        blocks.append(Block(len(of_block), keys.shape[1], len(grid)))
        queried.append(tokens.ravel())
        key_rows.append(keys.ravel())
        real.append(inside.ravel())
    queries, inside = np.concatenate(queried), np.concatenate(real)
    places = np.empty(lengths.sum(), dtype=int)
    places[queries[inside]] = inside.nonzero()[0]
    put = partial(torch.tensor, device=device)
    return Packing(tuple(blocks), put(queries), put(np.concatenate(key_rows)), put(places))


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
    tables = (query, of_queries), (key, of_keys), (value, of_keys)
    sides = [
        torch.split(_rows(side[0].transpose(0, 1), numbers, places), sizes)
        for side, (numbers, places, sizes) in tables
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
