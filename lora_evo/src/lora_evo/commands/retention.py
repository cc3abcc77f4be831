"""`lora-evo retention`: how much of its parents a child keeps, before any training."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lora_evo.breeding.parents import Moments, moments_of, parents_on_disk
from lora_evo.commands.frame import FOLDER, guarded, json_option, print_json, print_table
from lora_evo.commands.retention_training import (
    TrainingOptions,
    exceeded_recovery,
    print_recovery,
    train,
    training_options,
)
from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter
from lora_evo.files.directory import load_adapter
from lora_evo.files.folders import shortest_unique_names
from lora_evo.probing.base_model import BaseModel, open_base
from lora_evo.probing.probe import Behaviour, probe
from lora_evo.probing.prompt_rows import ProbeRow, read_probes
from lora_evo.probing.retention import Comparison, Retention, retention_of_directories
from lora_evo.probing.verdict import HINT, Verdict, verdict
from lora_evo.recovery.summary import Summary
from lora_evo.recovery.table import to_json

_HEADER = (
    "module", "change", "cosine", "norm", "spectrum", "columns", "rows", "eff.rank", "dead",
    "|A|", "|B|",
)  # fmt: skip


@dataclass(frozen=True)
class _Against:
    """All that is known of the child against one parent."""

    weights: Retention
    behaviour: Behaviour | None

    @property
    def verdict(self) -> Verdict:
        change = self.weights.whole.relative_change
        return verdict(change, None if self.behaviour is None else self.behaviour.kl_ratio)

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.weights.to_dict(),
            "verdict": self.verdict,
            "probe": None if self.behaviour is None else self.behaviour.to_dict(),
        }


@click.command()
@click.argument("child", type=FOLDER)
@click.option("--parent", "parents", type=FOLDER, multiple=True, help="Repeat for several parents.")
@click.option("--model", type=FOLDER, help="Folder of the base model.")
@click.option("--probes", type=FOLDER, help='JSON Lines: {"prompt", "completion"?}.')
@click.option(
    "--skip", type=int, default=4, show_default=True, help="Prompt tokens left out first."
)
@click.option("--batch-size", type=int, default=8, show_default=True, help="Rows at a time.")
@click.option("--device", default="auto", show_default=True, help="For the model: cpu, cuda, ...")
@click.option("--dtype", default="float32", show_default=True, help="For the model.")
@click.option("--max-change", type=float, help="Exit code 1 above this relative change.")
@click.option("--max-kl-ratio", type=float, help="Exit code 1 above this KL ratio.")
@training_options
@json_option
@guarded
def retention(
    child: Path,
    parents: tuple[Path, ...],
    model: Path | None,
    probes: Path | None,
    skip: int,
    batch_size: int,
    device: str,
    dtype: str,
    max_change: float | None,
    max_kl_ratio: float | None,
    as_json: bool,
    **training: Any,
) -> None:
    """Compare CHILD with its parents: before training, and with --train by training.

    Parents are those named with --parent, else the adapters beside CHILD that its lineage names.
    From weights alone in seconds; with a base model and probe prompts also KL(parent||child) per
    token, its ratio to KL(base||parent), the loss on the completions, and the change of each
    module on the inputs that occur. A limit applies to the closest parent.

    With --train ROWS the child is trained on worked examples beside two controls, the first parent
    trained on and a fresh adapter, on the same rows in the same order. Fitness is the geometric
    mean of the probabilities of a held-out completion's tokens. Printed is after how many steps
    the child holds its best parent's level, and its gain over the controls. --out keeps the journal
    trials.jsonl: the same command goes on after an interruption, one with more seeds or operators
    adds to it, and `lora-evo recovery` prints it.
    """
    asked = TrainingOptions(**training)
    asked.check(model)
    _check_limits(max_change, max_kl_ratio, model, probes, asked.train)
    folders = list(parents) or parents_on_disk(child)
    short = shortest_unique_names(folders)  # refuses a parent given twice
    names = [str(parent) for parent in parents] or short
    compared = {
        name: retention_of_directories(folder, child)
        for name, folder in zip(names, folders, strict=True)
    }
    rows = None if probes is None else read_probes(probes)
    seen: Mapping[str, Behaviour] = {}
    recovery: Summary | None = None
    if model is not None:
        adapters = [load_adapter(folder) for folder in folders]
        offspring = load_adapter(child)
        known = dict(zip(short, adapters, strict=True))
        lesson = asked.lesson(child.resolve().name, offspring, known, batch_size)
        base = open_base(model, device=device, dtype=dtype)
        learner = None if lesson is None else lesson.learner(base)
        if rows is not None:
            named = dict(zip(names, adapters, strict=True))
            seen = _probe(base, rows, named, offspring, skip=skip, batch_size=batch_size)
        if lesson is not None and learner is not None:
            recovery = train(lesson, learner)
    against = {name: _Against(row, seen.get(name)) for name, row in compared.items()}
    moments = moments_of(child)
    exceeded = _exceeded(list(against.values()), max_change, max_kl_ratio)
    if recovery is not None:
        exceeded += exceeded_recovery(child.resolve().name, recovery, asked.max_recovery)
    if as_json:
        print_json(
            {
                "child": str(child),
                "moments_valid_at_birth": None if moments is None else moments.valid_at_birth,
                "trained_since_birth": None if moments is None else moments.trained,
                "parents": {name: row.to_dict() for name, row in against.items()},
                "recovery": None if recovery is None else json.loads(to_json(recovery)),
                "exceeded": exceeded,
            }
        )
    else:
        for name, row in against.items():
            _print_parent(str(child), name, row)
        click.echo(_moments(moments))
        click.echo(HINT)
        if recovery is not None and asked.out is not None:
            click.echo()
            print_recovery(str(child), child.resolve().name, recovery, asked.out)
    for reason in exceeded:
        click.echo(f"lora-evo: {child}: {reason}", err=True)
    if exceeded:
        sys.exit(1)


def _check_limits(
    max_change: float | None,
    max_kl_ratio: float | None,
    model: Path | None,
    probes: Path | None,
    train: Path | None,
) -> None:
    if probes is not None and model is None:
        raise LoraEvoError("--probes needs --model")
    if model is not None and probes is None and train is None:
        raise LoraEvoError("--model needs --probes or --train")
    if max_kl_ratio is not None and probes is None:
        raise LoraEvoError("--max-kl-ratio needs --model and --probes")
    for name, value in (("--max-change", max_change), ("--max-kl-ratio", max_kl_ratio)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise LoraEvoError(f"{name} is {value}; expected a number of at least 0")


def _probe(
    base: BaseModel,
    rows: Sequence[ProbeRow],
    parents: Mapping[str, Adapter],
    child: Adapter,
    *,
    skip: int,
    batch_size: int,
) -> dict[str, Behaviour]:
    with click.progressbar(
        length=len(rows), label="probing", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        return probe(
            base, parents, child, rows, skip=skip, batch_size=batch_size,
            progress=lambda done, _: bar.update(done - bar.pos),
        )  # fmt: skip


def _exceeded(
    against: Sequence[_Against], max_change: float | None, max_kl_ratio: float | None
) -> list[str]:
    """Which limits the closest parent breaks, in words."""
    found = []
    changes = [row.weights.whole.relative_change for row in against]
    ratios = [row.behaviour.kl_ratio for row in against if row.behaviour is not None]
    for what, values, limit in (
        ("relative change", changes, max_change),
        ("KL ratio", ratios, max_kl_ratio),
    ):
        if limit is not None:
            least = min(math.inf if value is None else value for value in values)
            if least > limit:
                shown = f"{least:.6g}" if math.isfinite(least) else "undefined (from zero)"
                found.append(f"{what} {shown} to the closest parent is above {limit:g}")
    return found


def _print_parent(child: str, name: str, row: _Against) -> None:
    whole, seen = row.weights.whole, row.behaviour
    click.echo(
        f"{child} against {name}: {row.verdict}, relative change {_number(whole.relative_change)}, "
        f"numerical rank {whole.parent.numerical_rank} to {whole.child.numerical_rank} "
        f"of {whole.child.rank}, dead pairs {whole.parent.dead} to {whole.child.dead}"
    )
    if seen is not None:
        click.echo(
            f"  KL(parent||child) {seen.kl:.4g} nats/token, KL(base||parent) {seen.kl_scale:.4g}, "
            f"ratio {_number(seen.kl_ratio)} ({seen.prompts} prompts, {seen.tokens} tokens)"
        )
        if seen.nll_parent is not None and seen.nll_child is not None:
            click.echo(
                f"  loss on completions {seen.nll_parent:.4g} to {seen.nll_child:.4g} nats/token "
                f"({seen.nll_change:+.4g}; base {seen.nll_base:.4g}; "
                f"{seen.completion_tokens} tokens)"
            )
    rows = [(path, *_cells(part)) for path, part in row.weights.modules.items()]
    rows.append(("all", *_cells(whole)))
    header: tuple[str, ...] = _HEADER
    if seen is not None:
        header = (*header, "on inputs")
        inputs = [seen.modules[path] for path in row.weights.modules] + [seen.activation_change]
        rows = [(*cells, _number(value)) for cells, value in zip(rows, inputs, strict=True)]
    print_table(header, rows)


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


def _moments(moments: Moments | None) -> str:
    if moments is None:
        return "optimiser moments: not known (no lineage.json)"
    if moments.trained:
        return "optimiser moments: the child was trained since its birth; its trainer has them"
    if moments.valid_at_birth:
        return "optimiser moments: valid, each module's from the parent it came from"
    return "optimiser moments: to be reset"
