"""`lora-evo retention`: how much of its parents a child keeps, before any training."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lora_evo.cli_frame import FOLDER, guarded, json_option, print_json, print_table
from lora_evo.directory import load_adapter
from lora_evo.errors import LoraEvoError
from lora_evo.names import telling_names
from lora_evo.parents import Moments, moments_of, parents_on_disk
from lora_evo.probe import Behaviour, probe
from lora_evo.probe_model import open_base
from lora_evo.probe_rows import read_probes
from lora_evo.retention import Comparison, Retention, retention_of_directories
from lora_evo.verdict import HINT, Verdict, verdict

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
@click.option("--model", type=FOLDER, help="Folder of the base model; needs --probes.")
@click.option("--probes", type=FOLDER, help='JSON Lines: {"prompt", "completion"?}; needs --model.')
@click.option(
    "--skip", type=int, default=4, show_default=True, help="Prompt tokens left out first."
)
@click.option("--batch-size", type=int, default=8, show_default=True, help="Prompts at a time.")
@click.option("--device", default="auto", show_default=True, help="For the model: cpu, cuda, ...")
@click.option("--dtype", default="float32", show_default=True, help="For the model.")
@click.option("--max-change", type=float, help="Exit code 1 above this relative change.")
@click.option("--max-kl-ratio", type=float, help="Exit code 1 above this KL ratio.")
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
) -> None:
    """Compare CHILD with its parents before any training (zero-step proxies).

    Parents are those named with --parent, else the adapters beside CHILD that its lineage names.
    From weights alone in seconds; with a base model and probe prompts also KL(parent||child) per
    token, its ratio to KL(base||parent), the loss on the completions, and the change of each
    module on the inputs that occur. A limit applies to the closest parent.
    """
    _check_limits(max_change, max_kl_ratio, model, probes)
    folders = list(parents) or parents_on_disk(child)
    names = telling_names(folders)  # refuses a parent given twice
    if parents:
        names = [str(parent) for parent in parents]
    compared = {
        name: retention_of_directories(folder, child)
        for name, folder in zip(names, folders, strict=True)
    }
    seen: Mapping[str, Behaviour] = {}
    if model is not None and probes is not None:
        seen = _probe(model, probes, dict(zip(names, folders, strict=True)), child, skip=skip,
                      batch_size=batch_size, device=device, dtype=dtype)  # fmt: skip
    against = {name: _Against(row, seen.get(name)) for name, row in compared.items()}
    moments = moments_of(child)
    exceeded = _exceeded(list(against.values()), max_change, max_kl_ratio)
    if as_json:
        print_json(
            {
                "child": str(child),
                "moments_valid_at_birth": None if moments is None else moments.valid_at_birth,
                "trained_since_birth": None if moments is None else moments.trained,
                "parents": {name: row.to_dict() for name, row in against.items()},
                "exceeded": exceeded,
            }
        )
    else:
        for name, row in against.items():
            _print_parent(str(child), name, row)
        click.echo(_moments(moments))
        click.echo(HINT)
    for reason in exceeded:
        click.echo(f"lora-evo: {child}: {reason}", err=True)
    if exceeded:
        sys.exit(1)


def _check_limits(
    max_change: float | None, max_kl_ratio: float | None, model: Path | None, probes: Path | None
) -> None:
    if (model is None) != (probes is None):
        raise LoraEvoError("--model and --probes belong together; give both or neither")
    if max_kl_ratio is not None and model is None:
        raise LoraEvoError("--max-kl-ratio needs --model and --probes")
    for name, value in (("--max-change", max_change), ("--max-kl-ratio", max_kl_ratio)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise LoraEvoError(f"{name} is {value}; expected a number of at least 0")


def _probe(
    model: Path,
    probes: Path,
    parents: Mapping[str, Path],
    child: Path,
    *,
    skip: int,
    batch_size: int,
    device: str,
    dtype: str,
) -> dict[str, Behaviour]:
    rows = read_probes(probes)
    base = open_base(model, device=device, dtype=dtype)
    adapters = {name: load_adapter(folder) for name, folder in parents.items()}
    with click.progressbar(
        length=len(rows), label="probing", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        return probe(
            base, adapters, load_adapter(child), rows, skip=skip, batch_size=batch_size,
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
