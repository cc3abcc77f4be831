"""A base that needs its adapters: the nano model with noise on its weights.

The nano model is so good at easy tasks that an adapter can be thrown away without loss, and then
no experiment can tell an operator that keeps what was learnt from one that forgets it.
"""

import torch

from evals.engine.stacked_lora import StackedAdapters
from evals.engine.streams import derive_seed, stream


@torch.no_grad()
def weaken(adapters: StackedAdapters, amount: float, seed: int) -> None:
    """Add Gaussian noise, `amount` times the spread of each matrix, to the layers under adapters.

    In place; the same for the same seed.
    """
    for path, layer in adapters.layers.items():
        weight = layer.base.weight
        noise = stream(derive_seed(seed, "handicap", path)).standard_normal(tuple(weight.shape))
        scaled = torch.from_numpy(noise).to(weight) * (amount * weight.float().std())
        weight.add_(scaled.to(weight.dtype))
