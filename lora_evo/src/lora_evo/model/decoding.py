"""Decoding with a key-value cache, by a plain forward pass over the layers of a known model.

It calls the model's own modules, the stacked LoRA layers among them, without the bookkeeping around
them, which costs more than the arithmetic of a small model. Works for the Llama family without
sliding windows. Other models decode as transformers does, whatever their layers keep of a text.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from lora_evo.errors import LoraEvoError, first_line

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Model types that this decoder knows, unless a layer has a sliding window."""
GENERAL_FAMILIES = (
    "bamba", "deepseek_v2", "deepseek_v3", "falcon_h1", "falcon_mamba", "gemma", "gemma2", "gemma3",
    "gemma3_text", "glm4_moe", "gpt_oss", "granite", "granitemoehybrid", "jamba", "kimi_linear",
    "lfm2", "lfm2_moe", "mamba", "mamba2", "mixtral", "nemotron_h", "olmo_hybrid", "olmoe", "opt",
    "phi3", "qwen2_5_vl", "qwen2_moe", "qwen3_5_text", "qwen3_moe", "qwen3_next", "zamba2",
)  # fmt: skip
"""Model types that the general decoder is tested with, besides those above with their windows."""
TESTED_FAMILIES = FAMILIES + GENERAL_FAMILIES
"""Model types whose numbers tests compare with those of transformers and PEFT."""
_AGREES, _AGREES_IN_HALF = 1e-4, 0.05
"""Mean of |log p - log q| in nats by which an untested family may differ from a plain pass, in
float32 and in 16 bits."""
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class KVCache:
    """Keys and values of all layers in buffers that grow by doubling and shrink by rows.

    Per layer two buffers [rows, key-value heads, capacity, head dim]; positions < length are used.
    """

    keys: list[Tensor]
    values: list[Tensor]
    length: int

    @property
    def capacity(self) -> int:
        return int(self.keys[0].shape[2])

    @property
    def dtype(self) -> torch.dtype:
        return self.keys[0].dtype

    def extended(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append to a layer [rows, key-value heads, T, head dim]; return all that it holds."""
        if layer == len(self.keys):
            self.keys.append(keys)
            self.values.append(values)
            return keys, values
        used = self.length + keys.shape[2]
        self.keys[layer][:, :, self.length : used] = keys
        self.values[layer][:, :, self.length : used] = values
        return self.keys[layer][:, :, :used], self.values[layer][:, :, :used]

    def reserve(self, capacity: int) -> None:
        if capacity > self.capacity:
            self.select(torch.arange(len(self.keys[0]), device=self.keys[0].device), capacity)

    def select(self, rows: Tensor, capacity: int | None = None) -> None:
        """Keep these rows, in this order; a row may occur more than once."""
        _, heads, room, dim = self.keys[0].shape
        room = max(capacity or 0, room)

        def chosen(buffer: Tensor) -> Tensor:
            fresh = buffer.new_empty(len(rows), heads, room, dim)
            fresh[:, :, : self.length] = buffer[:, :, : self.length].index_select(0, rows)
            return fresh

        self.keys = [chosen(k) for k in self.keys]
        self.values = [chosen(v) for v in self.values]

    def shrink(self, rows: Tensor) -> None:
        """Keep these different rows, most of which are where they were; the buffers stay."""
        places = torch.arange(len(rows), device=rows.device)
        moved = rows != places
        gaps, came = places[moved], rows[moved]
        for buffer in (*self.keys, *self.values):
            buffer.index_copy_(0, gaps, buffer.index_select(0, came))
        self.keys = [k[: len(rows)] for k in self.keys]
        self.values = [v[: len(rows)] for v in self.values]

    def join(self, other: "KVCache", real: Sequence[Tensor], width: int, room: int) -> None:
        """Append the rows of another cache, all of them ending at position `width`, with room.

        real: of both caches, [rows, length], False on padding, which goes to the front; what is
        beyond `width` of it goes away.
        """

        def joined(buffers: Sequence[Tensor]) -> Tensor:
            rows = sum(map(len, buffers))
            _, heads, _, dim = buffers[0].shape
            fresh = buffers[0].new_zeros(rows, heads, width + room, dim)
            parts = torch.split(fresh, [*map(len, buffers)])
            for buffer, mask, part in zip(buffers, real, parts, strict=True):
                order = mask.int().argsort(dim=1, stable=True)[:, -width:]  # padding comes first
                index = order[:, None, :, None].expand(-1, heads, -1, dim)
                torch.gather(buffer, 2, index, out=part[:, :, width - order.shape[1] : width])
            return fresh

        self.keys = [joined(pair) for pair in zip(self.keys, other.keys, strict=True)]
        self.values = [joined(pair) for pair in zip(self.values, other.values, strict=True)]
        self.length = width


class Decoder:
    """Runs the layers of `model`; adapters follow the route in force around the call."""

    pads = joins = True
    """Whether prompts of unlike lengths may be read together, and rows join a batch later."""

    def __init__(self, model: Any):
        self.model = model
        self.inner = model.model
        self._products = [
            (at.q_proj, at.k_proj, at.v_proj, at.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
            for at, mlp in ((layer.self_attn, layer.mlp) for layer in self.inner.layers)
        ]
        self._few = [[getattr(p, "by_row", p) for p in products] for products in self._products]
        """The same for one token a row, without gradients."""

    def prefill(
        self, ids: Tensor, real: Tensor, before: KVCache | None = None
    ) -> tuple[Tensor, KVCache]:
        """Read left-padded prompts: ids and real [rows, T], real False on padding.

        before: what each row has read already, without padding; it is extended in place. Returns
        the logits after the last token [rows, vocabulary] and the cache.
        """
        rows, T = ids.shape
        cache = KVCache([], [], 0) if before is None else before
        start = cache.length
        positions = start + (real.cumsum(1) - 1).clamp(min=0)
        mask = None
        if start or not bool(real.all()):
            causal = torch.ones(T, T, dtype=torch.bool, device=ids.device).tril()
            itself = torch.eye(T, dtype=torch.bool, device=ids.device)
            mask = ((causal & real[:, None, :]) | itself)[:, None]
            if start:
                cache.reserve(start + T)
                mask = torch.cat((mask.new_ones(rows, 1, T, start), mask), dim=-1)
        logits = self._forward(ids, positions, mask, cache)
        cache.length = start + T
        return logits, cache

    def step(self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: KVCache) -> Tensor:
        """Append one token per row and return the logits after it [rows, vocabulary].

        ids and positions [rows]; mask [rows, capacity] is added to the attention scores (0 or
        -inf), or None where no row has padding.
        """
        length = cache.length + 1
        if length > cache.capacity:
            cache.reserve(2 * length)
        bias = None if mask is None else mask[:, None, None, :length]
        logits = self._forward(ids[:, None], positions[:, None], bias, cache)
        cache.length = length
        return logits

    def _forward(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: KVCache
    ) -> Tensor:
        """Return the logits after the last of ids at positions [rows, T]; their keys are cached."""
        x: Tensor = self.inner.embed_tokens(ids)
        cos, sin = (side[:, :, None] for side in self.inner.rotary_emb(x, positions))
        half = cos.shape[-1] // 2
        sin = torch.cat((-sin[..., :half], sin[..., half:]), dim=-1)
        few = ids.shape[1] == 1 and not torch.is_grad_enabled()
        for i, layer in enumerate(self.inner.layers):
            *qkv, out, gate, up, down = (self._few if few else self._products)[i]
            attention, h = layer.self_attn, layer.input_layernorm(x)
            q, k, v = (p(h).view(*ids.shape, -1, attention.head_dim) for p in qkv)
            if hasattr(attention, "q_norm"):
                q, k = attention.q_norm(q), attention.k_norm(k)
            q, k = (torch.addcmul(s * cos, s.roll(half, -1), sin).transpose(1, 2) for s in (q, k))
            k, v = cache.extended(i, k, v.transpose(1, 2))
            how: dict[str, Any] = {"attn_mask": mask, "scale": attention.scaling}
            if ids.shape[1] > 1:
                groups = q.shape[1] // k.shape[1]
                if groups > 1 and mask is not None:  # a GPU has no fused kernel for both
                    k, v = (side.repeat_interleave(groups, 1) for side in (k, v))
                how |= {"is_causal": mask is None, "enable_gqa": groups > 1 and mask is None}
                y = F.scaled_dot_product_attention(q, k, v, **how).transpose(1, 2)
            else:
                # The query heads that share a key head attend together: no copy of keys per head.
                q = q.view(len(q), k.shape[1], -1, q.shape[-1])
                y = F.scaled_dot_product_attention(q, k, v, **how)
            x = x + out(y.reshape(*ids.shape, -1))
            h = layer.post_attention_layernorm(x)
            x = x + (down(layer.mlp.act_fn(gate(h)).mul_(up(h))) if few else layer.mlp(h))
        last: Tensor = self.model.lm_head(self.inner.norm(x)[:, -1])
        return last


@dataclass(eq=False)
class GeneralCache:
    """The cache of transformers, and how many positions it holds."""

    cache: Any
    length: int

    dtype = torch.float32
    """Of the mask, of which only zeros count."""

    def select(self, rows: Tensor, capacity: int | None = None) -> None:
        self.cache.reorder_cache(rows)  # layers with a state have no `batch_select_indices`

    shrink = select

    def join(self, other: "GeneralCache", real: Sequence[Tensor], width: int, room: int) -> None:
        self.length = width
        for pair in zip(self.cache.layers, other.cache.layers, strict=True):
            layer = pair[0]
            for states in ("conv_states", "recurrent_states"):
                for i, state in getattr(layer, states, {}).items():
                    if state is not None:
                        getattr(layer, states)[i] = torch.cat([getattr(p, states)[i] for p in pair])
            if not getattr(layer, "is_initialized", False):  # which has no keys
                continue
            most = width
            if layer.is_sliding:
                layer.cumulative_length, most = width, min(width, layer.sliding_window - 1)
            for name in ("keys", "values"):
                parts = [getattr(one, name)[:, :, -most:] for one in pair]
                parts = [F.pad(part, (0, 0, most - part.shape[2], 0)) for part in parts]
                setattr(layer, name, torch.cat(parts))


class GeneralDecoder:
    """Runs `model` as transformers does; adapters follow the route in force around the call."""

    def __init__(self, model: Any):
        self.model = model
        self.pads = not any(map(_leaks, model.modules()))
        self.joins = True
        """Whether rows may join others that are longer or shorter. If not, all rows of a batch are
        of one length, and the model counts their positions itself."""
        self._stateful = "cache_params" in signature(model.forward).parameters
        """Whether the model is a Mamba, without attention to what the cache holds."""

    def prove(self) -> None:
        """Find a way to read rows together, of any length or of one, that agrees with plain passes.

        Raises LoraEvoError if there is none.
        """
        reason = "it differs from a plain pass"
        for together in (True, False) if self.pads else (False,):
            self.pads = self.joins = together
            try:
                if self._agrees():
                    return
            except Exception as error:  # a model of an unknown kind may raise anything
                reason = first_line(error)
        raise LoraEvoError(
            f"{self.model.config.model_type} cannot be decoded ({reason}); choose a base of one of "
            f"the {len(TESTED_FAMILIES)} tested families, or --engine vllm"
        )

    @torch.no_grad()
    def _agrees(self) -> bool:
        """Return whether two short rows, read and continued by a token, are as in plain passes."""
        size, device = self.model.config.get_text_config().vocab_size, self.model.device
        lengths = (5, 13) if self.pads else (13, 13)
        rows = [[(9 + 7 * i + 3 * n) % size for i in range(m + 1)] for n, m in enumerate(lengths)]
        ids, real = padded([row[:-1] for row in rows], device, left=True)
        before, cache = self.prefill(ids, real)
        mask = mask_of(real, 1, torch.float32)
        last, positions = torch.tensor([[row[-1] for row in rows], lengths], device=device)
        after = self.step(last, positions, mask, cache)
        plain = [self.model(input_ids=torch.tensor([row], device=device)).logits for row in rows]
        target = torch.stack([logits[0, -2:] for logits in plain], dim=1).double().log_softmax(-1)
        gaps = target - torch.stack((before, after)).double().log_softmax(-1)
        most = _AGREES if before.dtype == torch.float32 else _AGREES_IN_HALF
        return float((target.exp() * gaps.abs()).sum(-1).max()) <= most

    def prefill(self, ids: Tensor, real: Tensor) -> tuple[Tensor, GeneralCache]:
        from transformers import DynamicCache

        cache = GeneralCache(DynamicCache(config=self.model.config), ids.shape[1])
        return self._forward(ids, (real.cumsum(1) - 1).clamp(min=0), real.long(), cache), cache

    def step(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: GeneralCache
    ) -> Tensor:
        cache.length += 1
        attention = ids.new_ones(len(ids), cache.length)
        if mask is not None:
            attention = (mask[:, : cache.length] == 0).long()
        return self._forward(ids[:, None], positions[:, None], attention, cache)

    def _forward(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: GeneralCache) -> Tensor:
        how: dict[str, Any] = {"past_key_values": cache.cache, "position_ids": positions}
        if self._stateful:
            how = {"cache_params": cache.cache}
        if not self.joins:
            how.pop("position_ids", None)
        elif not self._stateful or ids.shape[1] > 1:
            how["attention_mask"] = mask
        out = self.model(input_ids=ids, use_cache=True, logits_to_keep=1, **how)
        logits: Tensor = out.logits[:, -1]
        return logits


def _leaks(part: nn.Module) -> bool:
    """Whether padding, all zeros, is not zero any more where a convolution over tokens reads it."""
    layers = dict(part.named_children())
    convolves = any(isinstance(layer, nn.Conv1d) for layer in layers.values())
    before = getattr(layers.get("in_proj"), "base", layers.get("in_proj"))  # of a stacked layer
    return convolves and getattr(before, "bias", None) is not None


def mask_of(real: Tensor, room: int, dtype: torch.dtype) -> Tensor | None:
    """Return what is added to attention scores [rows, length + room]; None without padding."""
    if bool(real.all()):
        return None
    return F.pad(torch.zeros_like(real, dtype=dtype).masked_fill_(~real, -torch.inf), (0, room))


def turning_length(model: Any) -> float:
    """Return the length up to which a text is read in one way, and in another from there on.

    Phi-3's "longrope" has two tables of frequencies, chosen by the longest row of a batch (Ding et
    al. 2024, arXiv 2402.13753). Other models have no such length: inf.
    """
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    turns = rope.get("rope_type") == "longrope"
    return float(rope["original_max_position_embeddings"]) if turns else math.inf


def decoder_of(model: Any) -> Decoder | GeneralDecoder:
    """Return the fast decoder where it knows the family, else the general one, which says so."""
    config, kind = model.config, model.config.model_type
    layers = getattr(config, "layer_types", None)
    windows = layers is None and getattr(config, "sliding_window", None) is not None
    if kind in FAMILIES and not windows and "sliding_attention" not in (layers or ()):
        return Decoder(model)
    decoder = GeneralDecoder(model)
    if kind not in TESTED_FAMILIES:
        _log.warning(
            f"{kind} is not among the {len(TESTED_FAMILIES)} tested families; "
            "`selfplay doctor --base ...` tries it"
        )
        decoder.prove()
    return decoder


def padded(
    rows: Sequence[Sequence[int]], device: torch.device, *, left: bool = False
) -> tuple[Tensor, Tensor]:
    """Return ids [rows, longest], 0 behind (left: before) each row, and where they are real."""
    parts = [torch.tensor(row, dtype=torch.long) for row in rows]
    how: dict[str, Any] = {"batch_first": True, "padding_side": "left" if left else "right"}
    ids = pad_sequence(parts, **how)
    real = pad_sequence([torch.ones_like(part, dtype=torch.bool) for part in parts], **how)
    return ids.to(device), real.to(device)
