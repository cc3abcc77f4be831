"""Keys and values of prompts, read once with their gradients, for all rows that share them."""

from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer


def holds_prompts(model: Any) -> bool:
    """Return whether each layer of a model has keys and values, and no state beside them."""
    layers = DynamicCache(config=model.config).layers
    return all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)


def of_stems() -> Cache:
    """Return a cache that takes up what a pass over stems reads."""
    return Cache(layer_class_to_replicate=Stem)


def of_branches(stems: Cache, parents: Tensor) -> Cache:
    """Return a cache for a pass over branches. parents: [branches], each one's stem."""
    return Cache(layers=[Branch(stem, parents) for stem in stems.layers])


class Stem(DynamicLayer):  # type: ignore[misc]
    """Keys and values of a layer for stems. A checkpointed layer may give them once more."""

    is_initialized: bool

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.keys, self.values, self.is_initialized = key_states, value_states, True
        return key_states, value_states


class Branch(DynamicLayer):  # type: ignore[misc]
    """Gives each branch the keys and values of its stem before its own; keeps none of these.

    parents: [branches], each one's stem.
    """

    def __init__(self, stem: Stem, parents: Tensor):
        super().__init__()
        self.keys, self.values, self.is_initialized = stem.keys, stem.values, True
        self.parents = parents

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        keys, values = (part.index_select(0, self.parents) for part in (self.keys, self.values))
        return torch.cat((keys, key_states), dim=2), torch.cat((values, value_states), dim=2)
