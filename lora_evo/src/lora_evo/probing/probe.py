"""What a child keeps of its parents' behaviour: distributions and inputs on probe prompts."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from lora_evo.checks import checked_count
from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter
from lora_evo.linalg.distance import check_same_modules
from lora_evo.probing.base_model import BaseModel, Tally
from lora_evo.probing.prompt_rows import ProbeRow, TokenRow, padded, tokenised

# Positions whose distributions are compared at a time, in float64 over the whole vocabulary.
_AT_ONCE = 64


@dataclass(frozen=True)
class RowBehaviour:
    """One probe row: means over its compared positions, in nats; `nll_*` of its completion."""

    line: int
    tokens: int
    kl: float
    kl_scale: float
    nll_base: float | None
    nll_parent: float | None
    nll_child: float | None


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


@dataclass(eq=False)
class _Watch:
    """What is gathered of one parent while the batches go by."""

    tallies: dict[str, Tally]
    rows: list[RowBehaviour] = field(default_factory=list)


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
    offspring = base.worn(child, "the child")
    worn = {name: base.worn(adapter, name) for name, adapter in parents.items()}
    watches = {name: _Watch({path: Tally() for path in offspring}) for name in parents}
    done = 0
    with torch.inference_mode():
        for batch in _batches(tokens, batch_size):
            ids, mask = padded(batch, base.device)
            plain = _compared(base, batch, ids, mask)
            with base.wearing(offspring):
                after = _compared(base, batch, ids, mask)
            for name, watch in watches.items():
                with base.wearing(worn[name], offspring, watch.tallies, mask):
                    before = _compared(base, batch, ids, mask)
                watch.rows.extend(_row_behaviours(batch, plain, before, after))
            done += len(batch)
            if progress is not None:
                progress(done, len(tokens))
    return {name: _behaviour(watch) for name, watch in watches.items()}


def _batches(rows: list[TokenRow], size: int) -> Iterator[list[TokenRow]]:
    """Rows of like length together, the longest first: so too much memory shows at once."""
    ordered = sorted(rows, key=lambda row: (-len(row.ids), row.line))
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


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
        yield RowBehaviour(
            row.line,
            len(parent),
            kl,
            scale,
            _surprise(base, row.targets),
            _surprise(parent, row.targets),
            _surprise(child, row.targets),
        )


def _divergence(first: torch.Tensor, second: torch.Tensor) -> float:
    """Mean over positions of KL(first||second) from logits [positions, vocabulary], in nats."""
    total = 0.0
    for part in _parts(len(first)):
        log_p, log_q = (side[part].double().log_softmax(-1) for side in (first, second))
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
    for part in _parts(len(targets)):
        chosen = logits[part].double().log_softmax(-1).gather(1, wanted[part])
        total -= float(chosen.sum())
    return total / len(targets)


def _parts(count: int) -> list[slice]:
    return [slice(start, start + _AT_ONCE) for start in range(0, count, _AT_ONCE)]


def _behaviour(watch: _Watch) -> Behaviour:
    rows = sorted(watch.rows, key=lambda row: row.line)
    answered = [row for row in rows if row.nll_base is not None]
    kl = _mean((row.kl, row.tokens) for row in rows) or 0.0
    scale = _mean((row.kl_scale, row.tokens) for row in rows) or 0.0
    before = _mean((row.nll_parent or 0.0, row.tokens) for row in answered)
    after = _mean((row.nll_child or 0.0, row.tokens) for row in answered)
    return Behaviour(
        prompts=len(rows),
        tokens=sum(row.tokens for row in rows),
        kl=kl,
        kl_scale=scale,
        kl_ratio=_quotient(kl, scale),
        completion_tokens=sum(row.tokens for row in answered),
        nll_base=_mean((row.nll_base or 0.0, row.tokens) for row in answered),
        nll_parent=before,
        nll_child=after,
        nll_change=None if before is None or after is None else after - before,
        activation_change=_quotient(
            math.sqrt(math.fsum(tally.difference for tally in watch.tallies.values())),
            math.sqrt(math.fsum(tally.parent for tally in watch.tallies.values())),
        ),
        modules={
            path: _quotient(math.sqrt(tally.difference), math.sqrt(tally.parent))
            for path, tally in watch.tallies.items()
        },
        rows=tuple(rows),
    )


def _mean(weighted: Iterator[tuple[float, int]]) -> float | None:
    pairs = list(weighted)
    total = sum(weight for _, weight in pairs)
    return math.fsum(value * weight for value, weight in pairs) / total if total else None


def _quotient(part: float, whole: float) -> float | None:
    if whole:
        return part / whole
    return None if part else 0.0
