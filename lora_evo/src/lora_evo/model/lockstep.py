"""Decoding of several members at once, each on dense weights that its adapter is merged into.

What costs calls rather than arithmetic in a small model (norms, rotations, the embedding) is done
for all rows together, token by token. Products and attention are done member by member, so that
their shapes, and with them their rounding, depend on a member's own rows: company changes no bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lora_evo.model.decoding import Decoder, KVCache, rms_norm
from lora_evo.model.stacked_lora import StackedLoRALinear


@dataclass(frozen=True, eq=False)
class Dense:
    """The weights [out, in] of linear layers that read the same, as one; and their bias."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, member: int, *modules: Any) -> "Dense":
        """Merge a member into these layers."""
        weights, biases = [], []
        for module in modules:
            stacked = isinstance(module, StackedLoRALinear)
            plain = module.base if stacked else module
            weights.append(module.merged(member) if stacked else plain.weight)
            biases.append(plain.bias)
        if all(bias is None for bias in biases):
            return cls(torch.cat(weights), None)
        filled = [
            weight.new_zeros(len(weight)) if bias is None else bias
            for weight, bias in zip(weights, biases, strict=True)
        ]
        return cls(torch.cat(weights), torch.cat(filled))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        return F.linear(x, self.weight, self.bias)

    def add_to(self, y: Tensor, x: Tensor) -> None:
        """Add the layer's output for x to y, in place."""
        y.addmm_(x, self.weight.t())
        if self.bias is not None:
            y.add_(self.bias)


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer of the base, and its linear layers with each member merged into them."""

    module: Any
    heads: dict[int, Dense]
    """Queries, keys and values."""
    out: dict[int, Dense]
    gates: dict[int, Dense]
    """Gate and up."""
    down: dict[int, Dense]


class Lockstep:
    """Runs the layers of a decoder for these members, whose adapters stay as they are."""

    def __init__(self, decoder: Decoder, members: Sequence[int]):
        self._decoder = decoder

        def merged(*modules: Any) -> dict[int, Dense]:
            return {member: Dense.of(member, *modules) for member in members}

        self._layers = [
            Layer(
                layer,
                merged(layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj),
                merged(layer.self_attn.o_proj),
                merged(layer.mlp.gate_proj, layer.mlp.up_proj),
                merged(layer.mlp.down_proj),
            )
            for layer in decoder.inner.layers
        ]
        self._head = merged(decoder.model.lm_head)

    def step(
        self, ids: Tensor, positions: Tensor, parts: Sequence[tuple[int, KVCache, Tensor | None]]
    ) -> Tensor:
        """Append one token per row and return the logits after it [rows, vocabulary].

        ids and positions [rows], those of the first part first; parts: a member, the cache of its
        rows, and their mask as of `Decoder.step`.
        """
        inner, heads = self._decoder.inner, self._decoder.heads
        caches = [cache for _, cache, _ in parts]
        used = [cache.extended() for cache in caches]
        masks = [
            None if mask is None else mask[:, None, None, :length]
            for (_, _, mask), length in zip(parts, used, strict=True)
        ]
        members, counts = [member for member, _, _ in parts], [cache.rows for cache in caches]
        x: Tensor = inner.embed_tokens(ids)
        rows = torch.split(x, counts)
        cos, sin = (side[0, :, None] for side in inner.rotary_emb(x, positions[None]))
        half = cos.shape[-1] // 2
        sin = torch.cat((-sin[..., :half], sin[..., half:]), dim=-1)
        for i, layer in enumerate(self._layers):
            attention = layer.module.self_attn
            h = torch.split(rms_norm(layer.module.input_layernorm, x), counts)
            found = [layer.heads[m](own) for m, own in zip(members, h, strict=True)]
            qkv = torch.cat(found).view(len(ids), -1, attention.head_dim)
            qk, v = qkv[:, : heads + self._decoder.kv_heads], qkv[:, -self._decoder.kv_heads :]
            if hasattr(attention, "q_norm"):
                q, k = attention.q_norm(qk[:, :heads]), attention.k_norm(qk[:, heads:])
                qk = torch.cat((q, k), dim=1)
            qk = torch.addcmul(qk * cos, qk.roll(half, -1), sin)
            sides = [torch.split(side, counts) for side in (qk[:, :heads], qk[:, heads:], v)]
            for member, own, cache, mask, q, k, v in zip(
                members, rows, caches, masks, *sides, strict=True
            ):
                keys, values = cache.append(i, k, v)
                grouped = q.reshape(len(q), self._decoder.kv_heads, -1, q.shape[-1])
                y = F.scaled_dot_product_attention(
                    grouped, keys, values, attn_mask=mask, scale=attention.scaling
                )
                layer.out[member].add_to(own, y.reshape(len(q), -1))
            h = torch.split(rms_norm(layer.module.post_attention_layernorm, x), counts)
            for member, own, part in zip(members, rows, h, strict=True):
                gate, up = layer.gates[member](part).chunk(2, dim=-1)
                layer.down[member].add_to(own, layer.module.mlp.act_fn(gate).mul_(up))
        for cache, length in zip(caches, used, strict=True):
            cache.length = length
        h = torch.split(rms_norm(inner.norm, x), counts)
        return torch.cat([self._head[m](own) for m, own in zip(members, h, strict=True)])
