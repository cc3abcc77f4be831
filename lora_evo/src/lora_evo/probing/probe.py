"""What a child keeps of its parents' behaviour: distributions and inputs on probe prompts."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from lora_evo.errors import LoraEvoError, checked_count
from lora_evo.files.adapter import Adapter
from lora_evo.linalg.distance import check_same_modules
from lora_evo.probing.base_model import BaseModel, Tally
from lora_evo.probing.prompt_rows import ProbeRow, TokenRow, padded, tokenised

# Positions whose distributions are compared at a time, in float64 over the whole vocabulary.
_AT_ONCE = 64


@dataclass(frozen=True)
class RowBehaviour:
    """One probe row: means over its compared positions, in nats."""

    line: int
    tokens: int
    kl: float
    """KL(parent||child)."""
    kl_scale: float
    """KL(base||parent)."""
    nll_base: float | None
    nll_parent: float | None
    nll_child: float | None
    """All three of the completion's tokens; None without one."""


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
    """Their quotient; None where the parent does as the base does and the child not."""
    completion_tokens: int
    nll_base: float | None
    nll_parent: float | None
    nll_child: float | None
    nll_change: float | None
    """What the completions lost in the child, per token; None without completions."""
    activation_change: float | None
    """|D'X - DX| / |DX| (Frobenius) over the inputs X that all modules see in the parent, of all
    real tokens: the relative change weighted by what occurs; None for D X = 0."""
    modules: dict[str, float | None]
    """The same of each module."""
    rows: tuple[RowBehaviour, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def probe(
    base: BaseModel,
    parents: Mapping[str, Adapter],
    child: Adapter,
    rows: Sequence[ProbeRow],
    *,
    skip: int = 4,
    batch_size: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Behaviour]:
    """Run the base, the child and every parent over the rows; the answer has the parents' names.

    `skip`: tokens of a prompt without completion that go before its first compared distribution.
    `progress` is called with the number of rows done and of all. Nothing is sampled: the same
    machine, versions and batch size give the same digits. Raises `LoraEvoError`.
    """
    checked_count("skip", skip)
    checked_count("batch_size", batch_size)
    for parent in parents.values():
        check_same_modules(set(parent.slots), set(child.slots))
    tokens = tokenised(
        rows, base.tokenizer, skip=skip, longest=base.context, vocabulary=base.vocabulary
    )
    offspring = base.deltas(child, "the child")
    deltas = {name: base.deltas(adapter, name) for name, adapter in parents.items()}
    tallies = {name: {path: Tally() for path in offspring} for name in parents}
    found: dict[str, list[RowBehaviour]] = {name: [] for name in parents}
    done = 0
    with torch.inference_mode():
        # Rows of like length together, the longest first: so too much memory shows at once.
        ordered = sorted(tokens, key=lambda row: (-len(row.ids), row.line))
        for start in range(0, len(ordered), batch_size):
            batch = ordered[start : start + batch_size]
            ids, mask = padded(batch, base.device)
            plain = _compared(base, batch, ids, mask)
            with base.applied(offspring):
                after = _compared(base, batch, ids, mask)
            for name in parents:
                with base.applied(deltas[name], offspring, tallies[name], mask):
                    before = _compared(base, batch, ids, mask)
                found[name].extend(_row_behaviours(batch, plain, before, after))
            done += len(batch)
            if progress is not None:
                progress(done, len(tokens))
    return {name: _behaviour(found[name], tallies[name]) for name in parents}


def _compared(
    base: BaseModel, batch: list[TokenRow], ids: torch.Tensor, mask: torch.Tensor
) -> list[torch.Tensor]:
    """Of every row, the logits [positions, vocabulary] that are to be compared."""
    logits = base.logits(ids, mask)
    return [
        logits[place, row.first : row.last + 1].float().clone() for place, row in enumerate(batch)
    ]


def _row_behaviours(
    batch: list[TokenRow],
    plain: list[torch.Tensor],
    before: list[torch.Tensor],
    after: list[torch.Tensor],
) -> Iterator[RowBehaviour]:
    for row, base, parent, child in zip(batch, plain, before, after, strict=True):
        kl, scale = _divergence(parent, child), _divergence(base, parent)
        if not (math.isfinite(kl) and math.isfinite(scale)):
            raise LoraEvoError(
                f"line {row.line}: the distributions are not finite; load the model as float32, "
                "or look for values that overflow in the adapters"
            )
        losses = (_surprise(side, row.targets) for side in (base, parent, child))
        yield RowBehaviour(row.line, len(parent), kl, scale, *losses)


def _divergence(first: torch.Tensor, second: torch.Tensor) -> float:
    """Mean over positions of KL(first||second) from logits [positions, vocabulary], in nats."""
    total = 0.0
    for parts in zip(*(torch.split(side, _AT_ONCE) for side in (first, second)), strict=True):
        log_p, log_q = (part.double().log_softmax(-1) for part in parts)
        p = log_p.exp()
        terms = torch.where(p > 0, p * (log_p - log_q), 0.0)
        total += float(terms.sum(-1).clamp(min=0.0).sum())
    return total / len(first)


def _surprise(logits: torch.Tensor, targets: tuple[int, ...] | None) -> float | None:
    """Mean negative log-likelihood of the targets, in nats per token."""
    if targets is None:
        return None
    wanted = torch.tensor(targets, device=logits.device)[:, None]
    total = 0.0
    sides = (torch.split(side, _AT_ONCE) for side in (logits, wanted))
    for part, chosen in zip(*sides, strict=True):
        total -= float(part.double().log_softmax(-1).gather(1, chosen).sum())
    return total / len(targets)


def _behaviour(found: list[RowBehaviour], tallies: Mapping[str, Tally]) -> Behaviour:
    rows = sorted(found, key=lambda row: row.line)
    answered = [row for row in rows if row.nll_base is not None]
    kl, scale = _mean(rows, "kl") or 0.0, _mean(rows, "kl_scale") or 0.0
    before, after = _mean(answered, "nll_parent"), _mean(answered, "nll_child")
    return Behaviour(
        prompts=len(rows),
        tokens=sum(row.tokens for row in rows),
        kl=kl,
        kl_scale=scale,
        kl_ratio=_quotient(kl, scale),
        completion_tokens=sum(row.tokens for row in answered),
        nll_base=_mean(answered, "nll_base"),
        nll_parent=before,
        nll_child=after,
        nll_change=None if before is None or after is None else after - before,
        activation_change=_change(tallies.values()),
        modules={path: _change([tally]) for path, tally in tallies.items()},
        rows=tuple(rows),
    )


def _mean(rows: list[RowBehaviour], field: str) -> float | None:
    total = sum(row.tokens for row in rows)
    return math.fsum(getattr(row, field) * row.tokens for row in rows) / total if total else None


def _change(tallies: Collection[Tally]) -> float | None:
    """|D'X - DX| / |DX| over some modules together."""
    difference = math.sqrt(math.fsum(tally.difference for tally in tallies))
    return _quotient(difference, math.sqrt(math.fsum(tally.parent for tally in tallies)))


def _quotient(part: float, whole: float) -> float | None:
    if whole:
        return part / whole
    return None if part else 0.0
