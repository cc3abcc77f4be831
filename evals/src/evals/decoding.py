"""The token loop of the `hf` engine: prefill, draw, drop finished rows, until none is left.

transformers' own `generate` keeps computing rows that have ended and draws from one global random
state; here rows leave the batch when they end, and each has its own stream.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from evals.sampling import draw, uniforms

_DROP_SHARE = 8
"""Finished rows leave the cache (a copy of it) when they are at least 1/8 of the batch."""


@dataclass
class Row:
    """One sequence being written. `done` is None while it is, else "stop" or "length"."""

    prompt: list[int]
    max_tokens: int
    temperature: float
    seed: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    done: str | None = None


@torch.inference_mode()
def write_rows(
    model: Any,
    rows: Sequence[Row],
    end_tokens: frozenset[int],
    stopped: Callable[[Row], bool],
    device: torch.device,
) -> None:
    """Fill `tokens` and `logprobs` of every row; all prompts are written in one batch.

    model: a causal language model of transformers. stopped: whether a row has just written one of
    its stop texts (asked after every token). Prompts must not be empty.
    """
    alive = list(rows)
    longest = max(len(row.prompt) for row in alive)
    ids = torch.zeros((len(alive), longest), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(alive):
        ids[index, longest - len(row.prompt) :] = torch.tensor(row.prompt)
        mask[index, longest - len(row.prompt) :] = 1
    steps = max(row.max_tokens for row in alive)
    noise = uniforms([row.seed for row in alive], steps)
    heat = torch.tensor([row.temperature for row in alive], dtype=torch.float32)
    ids, mask, noise, heat = (tensor.to(device) for tensor in (ids, mask, noise, heat))
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)

    for step in range(steps):
        out = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        tokens, logprobs = draw(out.logits[:, -1], noise[:, step], heat)
        for row, token, logprob in zip(alive, tokens.tolist(), logprobs.tolist(), strict=True):
            _extend(row, token, logprob, end_tokens, stopped)
        keep = [index for index, row in enumerate(alive) if row.done is None]
        if not keep:
            return
        ids, positions = tokens[:, None], positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones((len(alive), 1))], dim=-1)
        if len(alive) - len(keep) >= max(1, len(alive) // _DROP_SHARE):
            chosen = torch.tensor(keep, device=device)
            cache.batch_select_indices(chosen)
            alive = [alive[index] for index in keep]
            ids, mask, positions, noise, heat = _select(chosen, ids, mask, positions, noise, heat)


def _extend(
    row: Row,
    token: int,
    logprob: float,
    end_tokens: frozenset[int],
    stopped: Callable[[Row], bool],
) -> None:
    """Take one more token into a row that is not done yet."""
    if row.done is not None:
        return
    row.tokens.append(token)
    row.logprobs.append(logprob)
    if token in end_tokens or stopped(row):
        row.done = "stop"
    elif len(row.tokens) >= row.max_tokens:
        row.done = "length"


def _select(rows: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.index_select(0, rows) for tensor in tensors)
