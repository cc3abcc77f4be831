"""Decoding of any causal model of transformers, through its own forward pass and cache."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache


class GeneralCache:
    """The library's own cache, and how many positions it holds."""

    def __init__(self, cache: Any, length: int):
        self.cache = cache
        self.length = length

    def select(self, rows: Tensor, capacity: int | None = None) -> None:
        """Keep these rows, in this order; a row may occur more than once."""
        self.cache.batch_select_indices(rows)


class GeneralDecoder:
    """Runs `model` as transformers does; adapters follow the route in force around the call."""

    def __init__(self, model: Any):
        self.model = model

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        found: torch.device = self.model.get_input_embeddings().weight.device
        return found

    def prefill(self, ids: Tensor, real: Tensor) -> tuple[Tensor, GeneralCache]:
        """Read left-padded prompts: ids and real [rows, T], real False on padding.

        Returns the logits after the last token [rows, vocabulary] and the cache.
        """
        cache = GeneralCache(DynamicCache(config=self.model.config), ids.shape[1])
        return self._forward(ids, (real.cumsum(1) - 1).clamp(min=0), real.long(), cache), cache

    def step(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: GeneralCache
    ) -> Tensor:
        """Append one token per row and return the logits after it [rows, vocabulary].

        ids and positions [rows]; mask [rows, capacity] is 0 where a position is read and -inf where
        it is padding, or None where no row has padding.
        """
        cache.length += 1
        seen = ids.new_ones(len(ids), cache.length)
        if mask is not None:
            seen = (mask[:, : cache.length] == 0).long()
        return self._forward(ids[:, None], positions[:, None], seen, cache)

    def _forward(self, ids: Tensor, positions: Tensor, seen: Tensor, cache: GeneralCache) -> Tensor:
        out = self.model(
            input_ids=ids,
            attention_mask=seen,
            position_ids=positions,
            past_key_values=cache.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = out.logits[:, -1]
        return logits
