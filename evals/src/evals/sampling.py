"""Drawing tokens: every row has a random stream of its own, keyed by its seed and nothing else.

The u-th uniform of a row is number u of the Philox stream with that key (Salmon et al. 2011,
"Parallel random numbers: as easy as 1, 2, 3"), so neither the other rows of a batch nor the order
of calls can change it.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_KEY_MASK = (1 << 128) - 1


def uniforms(seeds: Sequence[int], count: int) -> Tensor:
    """[len(seeds), count] float64 in [0, 1): row i is the start of the stream of seeds[i]."""
    table = np.empty((len(seeds), count))
    for row, seed in zip(table, seeds, strict=True):
        row[:] = np.random.Generator(np.random.Philox(key=seed & _KEY_MASK)).random(count)
    return torch.from_numpy(table)


def draw(logits: Tensor, uniform: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    """One token per row by inverting the cumulative distribution of softmax(logits / temperature).

    logits [rows, vocabulary]; uniform [rows] float64 in [0, 1); temperature [rows], 0 is greedy.
    Returns tokens [rows] and their log-probabilities (nats, float32) under the temperature, for
    greedy rows under temperature 1.
    """
    greedy = temperature == 0
    divisor = torch.where(greedy, torch.ones_like(temperature), temperature)
    logprobs = torch.log_softmax(logits.float() / divisor[:, None], dim=-1)
    if bool(greedy.all()):
        tokens = logits.argmax(-1)
    else:
        cumulative = logprobs.double().exp().cumsum(-1)
        target = uniform[:, None] * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, target, right=True)[:, 0]
        tokens = tokens.clamp(max=logits.shape[-1] - 1)
        tokens = torch.where(greedy, logits.argmax(-1), tokens)
    return tokens, logprobs.gather(-1, tokens[:, None])[:, 0]
