"""The work of `lora-evo retention`, which brings torch."""

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from lora_evo.commands.terminal import counter, print_json, text_table
from lora_evo.files.adapter import load_adapter
from lora_evo.files.directory import shortest_unique_names
from lora_evo.lineage import Moments, moments_of, parents_on_disk
from lora_evo.model.base_model import choose_device, load_base_model
from lora_evo.retained.behaviour import Behaviour, probe
from lora_evo.retained.recovery import CHILD, CONTINUED, RESET, Recovery, recovery
from lora_evo.retained.rows import read_rows
from lora_evo.retained.weights import (
    HINT,
    Comparison,
    Retention,
    retention_of_directories,
    verdict,
)

_HEADER = (
    "module", "change", "cosine", "norm", "spectrum", "columns", "rows", "eff.rank", "dead",
    "|A|", "|B|",
)  # fmt: skip


def run_retention(
    child: Path,
    parents: tuple[Path, ...],
    model: str | None,
    probes: Path | None,
    train: Path | None,
    steps: int,
    seeds: int,
    learning_rate: float,
    batch_size: int,
    limits: Mapping[str, float],
    as_json: bool,
) -> None:
    """Compare a child with its parents, and print the result; exit code 1 above a limit."""
    folders = list(parents) or parents_on_disk(child)
    short = shortest_unique_names(folders)  # refuses a parent given twice
    names = [str(parent) for parent in parents] or short
    weights = {
        name: retention_of_directories(folder, child)
        for name, folder in zip(names, folders, strict=True)
    }
    prompts = read_rows(probes) if probes else []
    lesson = read_rows(train) if train else []
    behaviour: dict[str, Behaviour] = {}
    trained: Recovery | None = None
    if model is not None:
        known = {name: load_adapter(folder) for name, folder in zip(names, folders, strict=True)}
        offspring = load_adapter(child)
        base = load_base_model(model, choose_device("auto"), "float32")
        if prompts:
            with counter("probing", "rows") as progress:
                behaviour = probe(
                    base, known, offspring, prompts, batch_size=batch_size, progress=progress
                )
        if lesson:
            with counter("training", "steps") as progress:
                trained = recovery(
                    base, known, offspring, lesson,
                    steps=steps, seeds=seeds, learning_rate=learning_rate,
                    batch_size=batch_size, progress=progress,
                )  # fmt: skip
    moments = moments_of(child)
    exceeded = list(_exceeded(weights, behaviour, trained, limits))
    if as_json:
        print_json(
            {
                "child": str(child),
                "moments_valid_at_birth": None if moments is None else moments.valid_at_birth,
                "trained_since_birth": None if moments is None else moments.trained,
                "parents": {
                    name: {
                        **found.to_dict(),
                        "verdict": _verdict(found, behaviour.get(name)),
                        "probe": behaviour[name].to_dict() if name in behaviour else None,
                    }
                    for name, found in weights.items()
                },
                "recovery": None if trained is None else trained.to_dict(),
                "exceeded": exceeded,
            }
        )
    else:
        for name, found in weights.items():
            for line in _parent_lines(str(child), name, found, behaviour.get(name)):
                click.echo(line)
        click.echo(_moments_line(moments))
        click.echo(HINT)
        if trained is not None:
            click.echo("\n".join(("", *_training_lines(str(child), trained))))
    for reason in exceeded:
        click.echo(f"error: {child}: {reason}", err=True)
    if exceeded:
        sys.exit(1)


def _verdict(weights: Retention, behaviour: Behaviour | None) -> str:
    return verdict(weights.whole.relative_change, behaviour.kl_ratio if behaviour else None)


def _exceeded(
    weights: Mapping[str, Retention],
    behaviour: Mapping[str, Behaviour],
    trained: Recovery | None,
    limits: Mapping[str, float],
) -> Iterator[str]:
    """Which limits the closest parent breaks, and the training."""
    changes = [found.whole.relative_change for found in weights.values()]
    ratios = [found.kl_ratio for found in behaviour.values()]
    for limit, what, values in (("change", "relative change", changes), ("kl", "KL ratio", ratios)):
        if limit in limits:
            least = min(math.inf if value is None else value for value in values)
            if least > limits[limit]:
                shown = f"{least:.6g}" if math.isfinite(least) else "undefined (from zero)"
                yield f"{what} {shown} to the closest parent is above {limits[limit]:g}"
    if trained is not None and "recovery" in limits:
        median, limit_steps = trained.median(), limits["recovery"]
        if median is None or median > limit_steps:
            reached = _after(median, trained.checks[-1])
            yield f"at its best parent's level {reached}, the limit is {limit_steps:g}"
        if not trained.has_power:
            yield "the training proves nothing, because a fresh adapter recovers as well"


def _parent_lines(
    child: str, name: str, weights: Retention, seen: Behaviour | None
) -> Iterator[str]:
    """The child against one parent: sentences, then a table of the modules."""
    whole = weights.whole
    yield (
        f"{child} against {name}: {_verdict(weights, seen)}, relative change "
        f"{_number(whole.relative_change)}, numerical rank {whole.parent.numerical_rank} to "
        f"{whole.child.numerical_rank} of {whole.child.rank}, dead pairs {whole.parent.dead} to "
        f"{whole.child.dead}"
    )
    rows = [(path, *_cells(part)) for path, part in weights.modules.items()]
    rows.append(("all", *_cells(whole)))
    header: tuple[str, ...] = _HEADER
    if seen is not None:
        yield (
            f"  KL(parent||child) {seen.kl:.4g} nats/token, KL(base||parent) {seen.kl_scale:.4g}, "
            f"ratio {_number(seen.kl_ratio)} ({seen.prompts} prompts, {seen.tokens} tokens)"
        )
        if seen.nll_change is not None:
            yield (
                f"  loss on completions {seen.nll_parent:.4g} to {seen.nll_child:.4g} nats/token "
                f"({seen.nll_change:+.4g}; base {seen.nll_base:.4g}; "
                f"{seen.completion_tokens} tokens)"
            )
        header = (*header, "on inputs")
        inputs = [seen.modules[path] for path in weights.modules] + [seen.activation_change]
        rows = [(*cells, _number(value)) for cells, value in zip(rows, inputs, strict=True)]
    yield text_table(header, rows)


def _training_lines(child: str, found: Recovery) -> Iterator[str]:
    last = found.checks[-1]
    yield f"{child} in training: at its best parent's level {_after(found.median(), last)}"
    rows = []
    for who in (CHILD, CONTINUED, RESET):
        curves, steps = found.curves[who], found.steps(who)
        start, end = (sum(curve[at] for curve in curves) / len(curves) for at in (0, -1))
        gain = "" if who == CHILD else "{:+.3f} ({:+.3f} to {:+.3f})".format(*found.gain(who))
        shown = "none" if found.median(who) is None else f"{found.median(who):g}"
        rows.append((who, shown, steps.count(None), f"{start:.3f}", f"{end:.3f}", gain))
    header = ("trained", "steps", "never", "at first", f"after {last}", "child's gain")
    yield text_table(header, rows)
    levels = ", ".join(
        f"{name} {level.mean:.3f} ± {level.half_width:.3f}" for name, level in found.levels.items()
    )
    yield f"parents' fitness: {levels}; {len(found.curves[CHILD])} seeds"
    if not found.has_power:
        yield "a fresh adapter recovers as well: THE TEST HAS NO POWER, nothing here is proved"


def _moments_line(moments: Moments | None) -> str:
    if moments is None:
        return "optimiser moments: not known (no lineage.json)"
    if moments.trained:
        return "optimiser moments: the child was trained since its birth; its trainer has them"
    if moments.valid_at_birth:
        return "optimiser moments: valid, each module's from the parent it came from"
    return "optimiser moments: to be reset"


def _after(step: float | None, last: int) -> str:
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
