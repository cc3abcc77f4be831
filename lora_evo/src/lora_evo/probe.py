"""A child's next-token distributions against its parents' on their base model."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from lora_evo.errors import LoraEvoError
from lora_evo.model.base import BaseModel, fitted
from lora_evo.model.decoding import padded
from lora_evo.model.scoring import TokenPair
from lora_evo.model.stacked_linear import BASE
from lora_evo.model.stacked_lora import StackedAdapters, stack_saved
from lora_evo.peft.adapter import Adapter, check_comparable
from lora_evo.retention_rows import PromptRow, encode_row

BATCH_SIZE = 8
_SKIP = 4
"""Tokens at the start of a prompt without completion whose distributions are not compared."""
_AT_ONCE = 64
"""Positions compared at a time, in float64 over the whole vocabulary."""


@dataclass(frozen=True)
class Behaviour:
    """A child against one parent on all rows; means over positions, in nats per token."""

    prompts: int
    tokens: int
    kl: float
    """KL(parent||child) of the next-token distributions."""
    kl_scale: float
    """KL(base||parent)."""
    kl_ratio: float | None
    """kl / kl_scale; None if only the parent equals the base."""


@contextmanager
def stacked(
    base: BaseModel, parents: Mapping[str, Adapter], child: Adapter
) -> Iterator[StackedAdapters]:
    """Put the child, as member 0, and its parents on the base inside the block."""
    adapters = {"the child": child} | {f"parent {name}": p for name, p in parents.items()}
    stack = stack_saved(base.model, {name: fitted(base, a, name) for name, a in adapters.items()})
    try:
        yield stack
    finally:
        stack.remove()


def probe(
    base: BaseModel,
    parents: Mapping[str, Adapter],
    child: Adapter,
    rows: Sequence[PromptRow],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Behaviour]:
    """Compare the child's next-token distributions with every parent's over the rows.

    In a row with a completion, those that predict its tokens are compared; otherwise those after at
    least 4 tokens of the prompt (always the one after the whole prompt). Nothing is sampled.
    `progress` is called with the number of rows done and their total. Raises LoraEvoError.
    """
    for parent in parents.values():
        check_comparable({"the parent": parent, "the child": child}, any_base=True)
    pairs = [(row.line, encode_row(row, base.tokenizer, base.context)) for row in rows]
    # Similar lengths together, the longest first: if memory is too small, it fails at once.
    pairs.sort(key=lambda pair: -pair[1].length)
    sums: dict[str, list[tuple[int, float, float]]] = {name: [] for name in parents}
    with stacked(base, parents, child) as stack:
        for start in range(0, len(pairs), BATCH_SIZE):
            lines, batch = zip(*pairs[start : start + BATCH_SIZE], strict=True)
            of_base, of_child = (_logits(stack, member, batch) for member in (BASE, 0))
            for member, name in enumerate(parents, start=1):
                of_parent = _logits(stack, member, batch)
                for line, *logits in zip(lines, of_base, of_parent, of_child, strict=True):
                    sums[name].append(_row_sums(line, *logits))
            if progress is not None:
                progress(start + len(batch), len(pairs))
    return {name: _behaviour(rows_of) for name, rows_of in sums.items()}


@torch.no_grad()
def _logits(stack: StackedAdapters, member: int, batch: Sequence[TokenPair]) -> list[Tensor]:
    """Return the logits [positions, vocabulary] of each row that are compared."""
    ids, real = padded([pair.ids for pair in batch], stack.device)
    with stack.route([member] * len(batch)):
        logits = stack.model(input_ids=ids, attention_mask=real.long(), use_cache=False).logits
    rows = []
    for pair, row in zip(batch, logits, strict=True):
        prompt = len(pair.prompt_ids)
        end = pair.length - 1 if pair.completion_ids else prompt
        first = prompt - 1 if pair.completion_ids else min(_SKIP, prompt) - 1
        rows.append(row[first:end].float().clone())
    return rows


def _row_sums(line: int, base: Tensor, parent: Tensor, child: Tensor) -> tuple[int, float, float]:
    """Return the number of positions, and the sums of KL(parent||child) and KL(base||parent)."""
    kl, scale = _divergence(parent, child), _divergence(base, parent)
    if not (math.isfinite(kl) and math.isfinite(scale)):
        raise LoraEvoError(
            f"line {line}: the distributions are not finite; load the model as float32, "
            "or look for values that overflow in the adapters"
        )
    return len(parent), kl, scale


def _divergence(first: Tensor, second: Tensor) -> float:
    """Return KL(first||second) summed over positions, from logits [positions, vocabulary]; nats."""
    total = 0.0
    for parts in zip(*(torch.split(side, _AT_ONCE) for side in (first, second)), strict=True):
        log_p, log_q = (part.double().log_softmax(-1) for part in parts)
        p = log_p.exp()
        terms = torch.where(p > 0, p * (log_p - log_q), 0.0)
        total += float(terms.sum(-1).clamp(min=0.0).sum())
    return total


def _behaviour(rows: list[tuple[int, float, float]]) -> Behaviour:
    tokens, kl, scale = map(math.fsum, zip(*rows, strict=True))
    ratio = kl / scale if scale else (None if kl else 0.0)
    return Behaviour(len(rows), int(tokens), kl / tokens, scale / tokens, ratio)
