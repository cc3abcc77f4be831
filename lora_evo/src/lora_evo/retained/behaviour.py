"""What a child keeps of its parents' behaviour: distributions and inputs on probe prompts."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter
from lora_evo.linalg.updates import check_same_modules
from lora_evo.model.base_model import BaseModel
from lora_evo.model.exchange import check_fits, stack_saved
from lora_evo.model.stacked_lora import BASE, StackedAdapters
from lora_evo.retained.rows import PromptRow, encode_row

_AT_ONCE = 64
"""Positions whose distributions are compared at a time, in float64 over the whole vocabulary."""
_CHILD = 0
"""Place of the child in the stack; the parents follow."""


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


@dataclass(eq=False)
class _Tally:
    """Sums of squares over all real tokens: of D'x - Dx and of Dx."""

    difference: float = 0.0
    parent: float = 0.0


@dataclass(frozen=True)
class _TokenRow:
    """A row as token ids; distributions are compared after the positions first to last."""

    line: int
    ids: tuple[int, ...]
    first: int
    last: int
    targets: tuple[int, ...]


def probe(
    base: BaseModel,
    parents: Mapping[str, Adapter],
    child: Adapter,
    rows: Sequence[PromptRow],
    *,
    skip: int = 4,
    batch_size: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Behaviour]:
    """Run the base, the child and every parent over the rows; the answer has the parents' names.

    With a completion the distributions that predict its tokens are compared; without one, those
    after at least `skip` tokens of the prompt (always the one after the whole prompt). `progress`
    is called with the number of rows done and of all. Nothing is sampled: the same machine,
    versions and batch size give the same digits. Raises LoraEvoError.
    """
    for name, parent in parents.items():
        check_same_modules(set(parent.slots), set(child.slots))
        check_fits(base, parent, name, any_base=True)
    check_fits(base, child, "the child", any_base=True)
    tokens = [_tokens(row, base, skip) for row in rows]
    tallies = {name: {path: _Tally() for path in child.slots} for name in parents}
    found: dict[str, list[RowBehaviour]] = {name: [] for name in parents}
    # Rows of like length together, the longest first: so too much memory shows at once.
    ordered = sorted(tokens, key=lambda row: (-len(row.ids), row.line))
    named = {f"parent {name}": parent for name, parent in parents.items()}
    stack = stack_saved(base.model, {"child": child, **named})
    try:
        for start in range(0, len(ordered), batch_size):
            batch = ordered[start : start + batch_size]
            ids, mask = _padded(batch, base.model.device)
            plain = _compared(stack, BASE, batch, ids, mask)
            after = _compared(stack, _CHILD, batch, ids, mask)
            for place, name in enumerate(parents, start=1):
                with _counted(stack, place, tallies[name], mask):
                    before = _compared(stack, place, batch, ids, mask)
                found[name].extend(_row_behaviours(batch, plain, before, after))
            if progress is not None:
                progress(start + len(batch), len(tokens))
    finally:
        stack.remove()
    return {name: _behaviour(found[name], tallies[name]) for name in parents}


def _tokens(row: PromptRow, base: BaseModel, skip: int) -> _TokenRow:
    prompt, targets = encode_row(row, base.tokenizer, base.context)
    if targets:
        return _TokenRow(
            row.line, prompt + targets, len(prompt) - 1, len(prompt + targets) - 2, targets
        )
    return _TokenRow(row.line, prompt, min(skip, len(prompt)) - 1, len(prompt) - 1, ())


def _padded(rows: Sequence[_TokenRow], device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids and mask [rows, longest]; rows are padded behind, where no token looks."""
    ids = torch.zeros(len(rows), max(len(row.ids) for row in rows), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, : len(row.ids)] = torch.tensor(row.ids)
        mask[place, : len(row.ids)] = 1
    return ids.to(device), mask.to(device)


@torch.no_grad()
def _compared(
    stack: StackedAdapters, member: int, batch: Sequence[_TokenRow], ids: Tensor, mask: Tensor
) -> list[Tensor]:
    """Of every row, the logits [positions, vocabulary] that are to be compared."""
    with stack.route([member] * len(batch)):
        logits = stack.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    return [
        logits[place, row.first : row.last + 1].float().clone() for place, row in enumerate(batch)
    ]


@contextmanager
def _counted(
    stack: StackedAdapters, parent: int, tallies: Mapping[str, _Tally], mask: Tensor
) -> Iterator[None]:
    """Count inside what the child's update changes on the inputs that the parent's modules see."""
    real = mask.bool()

    def count(layer: Any, inputs: tuple[Tensor, ...], tally: _Tally) -> None:
        x = inputs[0][real].float()
        change, other = (
            layer.scales[m] * ((x @ layer.lora_A[m].T) @ layer.lora_B[m].T)
            for m in (parent, _CHILD)
        )
        tally.parent += float(change.double().square().sum())
        tally.difference += float((other - change).double().square().sum())

    with ExitStack() as hooks:
        for path, tally in tallies.items():
            handle = stack.layers[path].register_forward_hook(
                lambda layer, inputs, output, tally=tally: count(layer, inputs, tally)
            )
            hooks.callback(handle.remove)
        yield


def _row_behaviours(
    batch: Sequence[_TokenRow], plain: list[Tensor], before: list[Tensor], after: list[Tensor]
) -> Iterator[RowBehaviour]:
    for row, base, parent, child in zip(batch, plain, before, after, strict=True):
        kl, scale = _divergence(parent, child), _divergence(base, parent)
        if not (math.isfinite(kl) and math.isfinite(scale)):
            raise LoraEvoError(
                f"line {row.line}: the distributions are not finite; load the model as float32, "
                "or look for values that overflow in the adapters"
            )
        losses = (_loss(side, row.targets) for side in (base, parent, child))
        yield RowBehaviour(row.line, len(parent), kl, scale, *losses)


def _divergence(first: Tensor, second: Tensor) -> float:
    """Mean over positions of KL(first||second) from logits [positions, vocabulary], in nats."""
    total = 0.0
    for parts in zip(*(torch.split(side, _AT_ONCE) for side in (first, second)), strict=True):
        log_p, log_q = (part.double().log_softmax(-1) for part in parts)
        p = log_p.exp()
        terms = torch.where(p > 0, p * (log_p - log_q), 0.0)
        total += float(terms.sum(-1).clamp(min=0.0).sum())
    return total / len(first)


def _loss(logits: Tensor, targets: tuple[int, ...]) -> float | None:
    """Mean negative log-likelihood of the targets, in nats per token."""
    if not targets:
        return None
    wanted = torch.tensor(targets, device=logits.device)[:, None]
    total = 0.0
    for part, chosen in zip(
        torch.split(logits, _AT_ONCE), torch.split(wanted, _AT_ONCE), strict=True
    ):
        total -= float(part.double().log_softmax(-1).gather(1, chosen).sum())
    return total / len(targets)


def _behaviour(found: list[RowBehaviour], tallies: Mapping[str, _Tally]) -> Behaviour:
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


def _change(tallies: Collection[_Tally]) -> float | None:
    """|D'X - DX| / |DX| over some modules together."""
    difference = math.sqrt(math.fsum(tally.difference for tally in tallies))
    return _quotient(difference, math.sqrt(math.fsum(tally.parent for tally in tallies)))


def _quotient(part: float, whole: float) -> float | None:
    if whole:
        return part / whole
    return None if part else 0.0
