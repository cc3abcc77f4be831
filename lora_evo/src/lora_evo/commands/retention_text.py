"""What `lora-evo retention` prints of a child: against each parent, and in training."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lora_evo.breeding.parents import Moments
from lora_evo.probing.probe import Behaviour
from lora_evo.probing.retention import Comparison, Retention
from lora_evo.probing.verdict import Verdict, verdict
from lora_evo.recovery.summary import Row, Summary
from lora_evo.recovery.table import FEWEST, gain_text, step_text
from lora_evo.text_table import text_table

_HEADER = (
    "module", "change", "cosine", "norm", "spectrum", "columns", "rows", "eff.rank", "dead",
    "|A|", "|B|",
)  # fmt: skip


@dataclass(frozen=True)
class Against:
    """All that is known of a child against one parent."""

    weights: Retention
    behaviour: Behaviour | None

    @property
    def verdict(self) -> Verdict:
        """The rule of thumb."""
        change = self.weights.whole.relative_change
        return verdict(change, None if self.behaviour is None else self.behaviour.kl_ratio)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **self.weights.to_dict(),
            "verdict": self.verdict,
            "probe": None if self.behaviour is None else self.behaviour.to_dict(),
        }


def parent_lines(child: str, name: str, row: Against) -> Iterator[str]:
    """The child against one parent: sentences, then a table of the modules."""
    whole, seen = row.weights.whole, row.behaviour
    yield (
        f"{child} against {name}: {row.verdict}, relative change {_number(whole.relative_change)}, "
        f"numerical rank {whole.parent.numerical_rank} to {whole.child.numerical_rank} "
        f"of {whole.child.rank}, dead pairs {whole.parent.dead} to {whole.child.dead}"
    )
    rows = [(path, *_cells(part)) for path, part in row.weights.modules.items()]
    rows.append(("all", *_cells(whole)))
    header: tuple[str, ...] = _HEADER
    if seen is not None:
        yield (
            f"  KL(parent||child) {seen.kl:.4g} nats/token, KL(base||parent) {seen.kl_scale:.4g}, "
            f"ratio {_number(seen.kl_ratio)} ({seen.prompts} prompts, {seen.tokens} tokens)"
        )
        if seen.nll_parent is not None and seen.nll_child is not None:
            yield (
                f"  loss on completions {seen.nll_parent:.4g} to {seen.nll_child:.4g} nats/token "
                f"({seen.nll_change:+.4g}; base {seen.nll_base:.4g}; "
                f"{seen.completion_tokens} tokens)"
            )
        header = (*header, "on inputs")
        inputs = [seen.modules[path] for path in row.weights.modules] + [seen.activation_change]
        rows = [(*cells, _number(value)) for cells, value in zip(rows, inputs, strict=True)]
    yield text_table(header, rows)


def moments_line(moments: Moments | None) -> str:
    """What became of the optimiser moments."""
    if moments is None:
        return "optimiser moments: not known (no lineage.json)"
    if moments.trained:
        return "optimiser moments: the child was trained since its birth; its trainer has them"
    if moments.valid_at_birth:
        return "optimiser moments: valid, each module's from the parent it came from"
    return "optimiser moments: to be reset"


def training_line(child: str, row: Row, summary: Summary) -> str:
    """One sentence on what training showed of the child."""
    last = summary.protocol.steps
    low, high = (step_text(step, last) for step in row.median_interval)
    around = f"; {100 * summary.protocol.confidence:g} %: {low} to {high}"
    return (
        f"{child} in training: at its best parent's level {after(row.median, last)} (median of "
        f"{row.trials}{around if row.trials >= FEWEST else ''}); fitness at step {last} minus the "
        f"parent trained on {gain_text(row.over_continued, row.trials, 4)}, minus a fresh adapter "
        f"{gain_text(row.over_reset, row.trials, 4)}"
    )


def after(step: float | None, last: int) -> str:
    """When a child recovered; None: not by the last step."""
    return f"not within {last} steps" if step is None else f"after {step:g} steps"


def _cells(part: Comparison) -> tuple[str, ...]:
    before, after = part.parent, part.child
    return (
        _number(part.relative_change),
        _number(part.cosine),
        _number(part.norm_ratio),
        _number(part.spectrum_distance),
        _number(part.column_overlap),
        _number(part.row_overlap),
        f"{before.effective_rank:.2f}>{after.effective_rank:.2f}",
        f"{before.dead}>{after.dead}",
        f"{before.norm_a:.3g}>{after.norm_a:.3g}",
        f"{before.norm_b:.3g}>{after.norm_b:.3g}",
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
