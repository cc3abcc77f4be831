"""Drawing tokens: each row by the uniforms of its own seed."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from evals.engine.streams import stream


def row_uniforms(seeds: Sequence[int], count: int) -> npt.NDArray[np.float64]:
    """Return [len(seeds), count] uniforms in [0, 1): row i is the start of stream(seeds[i])."""
    table = np.empty((len(seeds), count), dtype=np.float64)
    for row, seed in zip(table, seeds, strict=True):
        row[:] = stream(seed).random(count)
    return table


def choose(logits: Tensor, uniforms: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token per row by inverting the cumulative distribution.

    logits [rows, vocabulary], uniforms [rows] float64 in [0, 1), temperatures [rows] >= 0. Returns
    tokens [rows] and their log-probabilities (nats, float32) under the row's temperature. At
    temperature 0 the token is the arg max and its log-probability is that under temperature 1.
    """
    greedy = temperatures == 0
    divisor = torch.where(greedy, torch.ones_like(temperatures), temperatures)
    logprobs = torch.log_softmax(logits.float() / divisor[:, None], dim=-1)
    cumulative = logprobs.double().exp_().cumsum(-1)
    target = uniforms[:, None] * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, target, right=True)[:, 0]
    drawn = drawn.clamp(max=logits.shape[-1] - 1)
    if bool(greedy.any()):
        drawn = torch.where(greedy, logits.argmax(-1), drawn)
    return drawn, logprobs.gather(-1, drawn[:, None])[:, 0]
