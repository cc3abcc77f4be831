"""`lora-evo retention`: what a child keeps of its parents, before training and by training."""

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lora_evo.commands.terminal import FOLDER, counter, json_option, number, print_json, text_table
from lora_evo.files.directory import content_hash, shortest_unique_names
from lora_evo.lineage import parents_on_disk, read_lineage

if TYPE_CHECKING:  # they bring torch
    from lora_evo.retained.behaviour import Behaviour
    from lora_evo.retained.recovery import Recovery
    from lora_evo.retained.weights import Comparison, Retention

_LIMITS = {"change": None, "kl": "probes", "recovery": "train"}
"""What a limit may be set on, and the option that it needs."""
_HEADER = (
    "module", "change", "cosine", "norm", "spectrum", "columns", "rows", "eff.rank", "dead",
    "|A|", "|B|",
)  # fmt: skip


@click.command()
@click.argument("child", type=FOLDER)
@click.option("--parent", "named", type=FOLDER, multiple=True, help="A parent; may be repeated.")
@click.option("--model", help="The base model: a folder or a hub name.")
@click.option("--probes", type=FOLDER, help='Prompts to compare on: {"prompt", "completion"?}.')
@click.option("--train", type=FOLDER, help='Rows to train on: {"prompt", "completion"}.')
@click.option(
    "--steps", type=click.IntRange(min=2), default=50, show_default=True, help="Training steps."
)
@click.option("--learning-rate", type=float, default=1e-4, show_default=True, help="Of AdamW.")
@click.option(
    "--limit", "words", multiple=True, metavar="NAME=NUMBER",
    help="Exit code 1 above it: change=0.3, kl=0.2 or recovery=20 (steps).",
)  # fmt: skip
@json_option
def retention(
    child: Path,
    named: tuple[Path, ...],
    model: str | None,
    probes: Path | None,
    train: Path | None,
    words: tuple[str, ...],
    as_json: bool,
    **training: Any,
) -> None:
    """Compare CHILD with its parents: before training, and with --train by training.

    Parents are those named with --parent, else the adapters next to CHILD that its lineage names.
    From weights alone in seconds; with a base model and --probes also KL(parent||child) per token,
    its ratio to KL(base||parent) (the limit `kl`), and the loss on the completions. Limits apply to
    the closest parent.

    With --train the child is trained on worked examples in five orders, and so are two controls,
    the first parent and a fresh adapter; a fifth of the prompts is held out. Fitness is the
    geometric mean of the probabilities of a held-out completion's tokens. Printed is after how many
    steps the child holds its best parent's level, and its gain over the controls.
    """
    if (model is None) == bool(probes or train):
        raise click.UsageError("--model needs --probes or --train, and they need --model")
    limits = dict(_limit(word, {"probes": probes, "train": train}) for word in words)
    folders = list(named) or parents_on_disk(child)
    short = shortest_unique_names(folders)  # refuses a parent given twice
    parents = dict(zip([str(parent) for parent in named] or short, folders, strict=True))

    from lora_evo.retained.weights import retention as compare

    weights = {name: compare(folder, child) for name, folder in parents.items()}
    behaviour: dict[str, Behaviour] = {}
    trained: Recovery | None = None
    if model is not None:
        behaviour, trained = _run(child, parents, model, probes, train, training)
    lineage = read_lineage(child)
    since = lineage.content_hash != content_hash(child) if lineage else None
    valid = lineage.moments_valid if lineage else None
    exceeded = list(_exceeded(weights, behaviour, trained, limits))
    if as_json:
        rows = {
            name: {
                **found.to_dict(),
                "probe": asdict(behaviour[name]) if name in behaviour else None,
            }
            for name, found in weights.items()
        }
        print_json(
            {
                "child": str(child),
                "moments_valid_at_birth": valid,
                "trained_since_birth": since,
                "parents": rows,
                "recovery": None if trained is None else trained.to_dict(),
                "exceeded": exceeded,
            }
        )
    else:
        for name, found in weights.items():
            click.echo("\n".join(_parent_lines(f"{child} against {name}", found, behaviour, name)))
        click.echo(f"optimiser moments: {_moments(valid, since)}")
        if trained is not None:
            click.echo("\n".join(_training_lines(str(child), trained)))
    for reason in exceeded:
        click.echo(f"error: {child}: {reason}", err=True)
    if exceeded:
        sys.exit(1)


def _limit(word: str, given: Mapping[str, Path | None]) -> tuple[str, float]:
    """Return `NAME=NUMBER` as both; given: the files that some limits need."""
    name, _, text = word.partition("=")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if name not in _LIMITS or not number >= 0:
        raise click.UsageError(
            f"--limit {word}: expected NAME=NUMBER, a number of at least 0 and a name of "
            f"{', '.join(_LIMITS)}"
        )
    needed = _LIMITS[name]
    if needed and given[needed] is None:
        raise click.UsageError(f"--limit {name} needs --{needed}")
    return name, number


def _run(
    child: Path,
    folders: Mapping[str, Path],
    model: str,
    probes: Path | None,
    train: Path | None,
    training: Mapping[str, Any],
) -> "tuple[dict[str, Behaviour], Recovery | None]":
    """Probe and train a child and its parents on the base model, as far as there are rows."""
    from lora_evo.files.adapter import load_adapter
    from lora_evo.model.base_model import choose_device, load_base_model
    from lora_evo.retained.behaviour import probe, read_rows
    from lora_evo.retained.recovery import recovery

    prompts, examples = (read_rows(file) if file else [] for file in (probes, train))
    parents = {name: load_adapter(folder) for name, folder in folders.items()}
    young = load_adapter(child)
    base = load_base_model(model, choose_device("auto"), "float32")
    behaviour: dict[str, Behaviour] = {}
    if prompts:
        with counter("probing rows") as progress:
            behaviour = probe(base, parents, young, prompts, progress=progress)
    if not examples:
        return behaviour, None
    with counter("training steps") as progress:
        return behaviour, recovery(base, parents, young, examples, progress=progress, **training)


def _exceeded(
    weights: "Mapping[str, Retention]",
    behaviour: "Mapping[str, Behaviour]",
    trained: "Recovery | None",
    limits: Mapping[str, float],
) -> Iterator[str]:
    """Yield which limits the closest parent breaks, and the training."""
    changes = [found.whole.relative_change for found in weights.values()]
    ratios = [found.kl_ratio for found in behaviour.values()]
    for limit, what, values in (("change", "relative change", changes), ("kl", "KL ratio", ratios)):
        if limit in limits:
            least = min(math.inf if value is None else value for value in values)
            if least > limits[limit]:
                shown = f"{least:.6g}" if math.isfinite(least) else "undefined (from zero)"
                yield f"{what} {shown} to the closest parent is above {limits[limit]:g}"
    if trained is not None and "recovery" in limits:
        median, most = trained.median(), limits["recovery"]
        if median is None or median > most:
            reached = _after(median, trained.checks[-1])
            yield f"at its best parent's level {reached}, the limit is {most:g}"
        if not trained.has_power:
            yield "the training proves nothing, because a fresh adapter recovers as well"


def _parent_lines(
    title: str, weights: "Retention", behaviour: "Mapping[str, Behaviour]", name: str
) -> Iterator[str]:
    """Yield the child against one parent: sentences, then a table of the modules."""
    whole, seen = weights.whole, behaviour.get(name)
    yield (
        f"{title}: relative change {number(whole.relative_change)}, numerical rank "
        f"{whole.parent.numerical_rank} to {whole.child.numerical_rank} of {whole.child.rank}, "
        f"dead pairs {whole.parent.dead} to {whole.child.dead}"
    )
    if seen is not None:
        yield (
            f"  KL(parent||child) {seen.kl:.4g} nats/token, KL(base||parent) {seen.kl_scale:.4g}, "
            f"ratio {number(seen.kl_ratio)} ({seen.prompts} prompts, {seen.tokens} tokens)"
        )
        if seen.completion_tokens:
            yield (
                f"  loss on completions {number(seen.nll_parent)} to {number(seen.nll_child)} "
                f"nats/token (base {number(seen.nll_base)}; {seen.completion_tokens} tokens)"
            )
    parts = (*weights.modules.items(), ("all", whole))
    yield text_table(_HEADER, [(path, *_cells(part)) for path, part in parts])


def _cells(part: "Comparison") -> tuple[str, ...]:
    numbers = (
        part.relative_change, part.cosine, part.norm_ratio, part.spectrum_distance,
        part.column_overlap, part.row_overlap,
    )  # fmt: skip
    before, after = part.parent, part.child
    return (
        *map(number, numbers),
        f"{before.effective_rank:.2f}>{after.effective_rank:.2f}",
        f"{before.dead}>{after.dead}",
        f"{before.norm_a:.3g}>{after.norm_a:.3g}",
        f"{before.norm_b:.3g}>{after.norm_b:.3g}",
    )


def _training_lines(child: str, found: "Recovery") -> Iterator[str]:
    last = found.checks[-1]
    yield f"\n{child} in training: at its best parent's level {_after(found.median(), last)}"
    rows = []
    for who, curves in found.curves.items():
        start, end = (sum(curve[at] for curve in curves) / len(curves) for at in (0, -1))
        gain = "" if who == "child" else "{:+.3f} ({:+.3f} to {:+.3f})".format(*found.gain(who))
        never = found.steps(who).count(None)
        rows.append((who, found.median(who), never, f"{start:.3f}", f"{end:.3f}", gain))
    yield text_table(
        ("trained", "steps", "never", "at first", f"after {last}", "child's gain"), rows
    )
    levels = ", ".join(
        f"{name} {level.mean:.3f} (95 % within {level.half_width:.3f})"
        for name, level in found.levels.items()
    )
    yield f"parents' fitness: {levels}; {len(found.curves['child'])} seeds"
    if not found.has_power:
        yield "a fresh adapter recovers as well: THE TEST HAS NO POWER, nothing here is proved"


def _moments(valid: bool | None, trained: bool | None) -> str:
    if trained is None:
        return "not known (no lineage.json)"
    if trained:
        return "the child was trained since its birth; its trainer has them"
    return "valid, each module's from the parent it came from" if valid else "to be reset"


def _after(step: float | None, last: int) -> str:
    return f"not within {last} steps" if step is None else f"after {step:g} steps"
