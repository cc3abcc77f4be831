"""Commands that read adapters: `lora-evo inspect`, `distance`, `lineage`, `retention`."""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lora_evo.commands.terminal import (
    FOLDER,
    counter,
    json_option,
    number,
    print_json,
    say_unfit,
    text_table,
)
from lora_evo.errors import LoraEvoError
from lora_evo.lineage import family, parents_on_disk, read_lineage, tree
from lora_evo.peft.directory import adapter_folders, content_hash, shortest_unique_names

if TYPE_CHECKING:  # they bring torch
    from lora_evo.compare import Gap
    from lora_evo.recovery import Behaviour, Recovery


@click.command()
@click.argument("directory", type=FOLDER)
@json_option
def inspect(directory: Path, as_json: bool) -> None:
    """Show rank and norms of every module of an adapter.

    DIRECTORY is a PEFT adapter directory. `in` and `out` are the widths of the linear layer, `rank`
    is the rank of the factors, `eff.rank` the effective rank of the update B A, and `dead` counts
    the ranks whose row of A and column of B are both zero, so that they never learn.
    """
    from lora_evo.compare import inspect_directory

    view = inspect_directory(directory)
    if as_json:
        print_json(view)
        return
    config, modules = view["config"], view["modules"]
    click.echo(
        f"{directory}: r {config['r']}, alpha {config['lora_alpha']:g}, {len(modules)} modules, "
        f"base {config.get('base_model_name_or_path') or 'not named'}, {view['content_hash'][:24]}"
    )
    say_unfit([directory])
    header = (
        "module", "in", "out", "rank", "eff.rank", "dead", "|A|", "|B|", "|update|", "dtype",
    )  # fmt: skip
    rows = [
        (
            path, row["inputs"], row["outputs"], row["rank"], f"{row['effective_rank']:.2f}",
            row["dead"], f"{row['norm_a']:.4g}", f"{row['norm_b']:.4g}", f"{row['norm']:.4g}",
            row["dtype"],
        )
        for path, row in modules.items()
    ]  # fmt: skip
    click.echo(text_table(header, rows))


@click.command()
@click.argument("first", type=FOLDER)
@click.argument("second", type=FOLDER)
@json_option
def distance(first: Path, second: Path, as_json: bool) -> None:
    """Compare the updates of two adapters, module by module.

    `distance` is symmetric: 0 for equal updates, 1.41 for orthogonal ones, 2 for opposite ones.
    `cosine` is the cosine of the angle between the updates, `norm ratio` the norm of SECOND over
    the norm of FIRST, and `change` the norm of the difference over the norm of FIRST.
    """
    from lora_evo.compare import retention

    comparison = retention(first, second, any_base=True)
    say_unfit([first, second])
    if as_json:
        numbers = comparison.to_dict()
        print_json({**numbers["whole"], "modules": numbers["modules"]})
        return
    rows = [
        (
            path, number(part.distance, digits=6), number(part.cosine), number(part.norm_ratio),
            number(part.relative_change, "from zero", 6),
        )
        for path, part in (*comparison.modules.items(), ("all", comparison.whole))
    ]  # fmt: skip
    header = ("module", "distance", "cosine", "norm ratio", "change")
    click.echo(text_table(header, rows))


@click.command()
@click.argument("directories", type=FOLDER, nargs=-1, required=True)
@json_option
def lineage(directories: tuple[Path, ...], as_json: bool) -> None:
    """Print the family tree of all adapters in DIRECTORIES.

    DIRECTORIES are adapters, or folders that contain adapters at any depth. Each child stands below
    its first parent, with the first digits of its content hash, its generation, operator and
    relative change. Adapters that cannot be read are named and left out, and the exit code is then
    1. `selfplay report` draws the tree of a run.
    """
    left_out: list[str] = []
    members = family(directories, left_out.append)
    for reason in left_out:
        click.echo(f"error: {' '.join(reason.split())}; left out", err=True)
    say_unfit(adapter_folders(directories))
    if not members:
        raise LoraEvoError(f"no adapters that can be read under {', '.join(map(str, directories))}")
    if as_json:
        print_json([member.to_dict() for member in members])
    else:
        click.echo(tree(members))
    sys.exit(1 if left_out else 0)


@click.command()
@click.argument("child", type=FOLDER)
@click.option(
    "--parent", "parent_folders", type=FOLDER, multiple=True,
    help="Adapter directory of a parent; may be repeated. Default: the parents in lineage.json.",
)  # fmt: skip
@click.option("--model", help="Base model to run the adapters on: a folder, or a name on the hub.")
@click.option("--load-in-4bit", is_flag=True, help="Load the base in bitsandbytes' 4 bits (NF4).")
@click.option(
    "--probes", type=FOLDER,
    help='JSON Lines of prompts to compare outputs on: {"prompt", "completion"?}.',
)  # fmt: skip
@click.option(
    "--train", type=FOLDER,
    help='JSON Lines of examples to train on: {"prompt", "completion"}.',
)  # fmt: skip
@click.option(
    "--steps", type=click.IntRange(min=2), default=50, show_default=True,
    help="Optimiser steps of each training run.",
)  # fmt: skip
@click.option(
    "--learning-rate", type=click.FloatRange(min=0, min_open=True), default=1e-4, show_default=True,
    help="Step size of the AdamW optimiser.",
)  # fmt: skip
@json_option
def retention(
    child: Path,
    parent_folders: tuple[Path, ...],
    model: str | None,
    load_in_4bit: bool,
    probes: Path | None,
    train: Path | None,
    as_json: bool,
    **training: Any,
) -> None:
    """Measure how much a child keeps and how fast it recovers.

    Parents are those given with --parent, else the adapters next to CHILD that its lineage names.
    Compares weights, which takes seconds; with --model and --probes also outputs, by
    KL(parent||child) per token and its ratio to KL(base||parent).

    --train trains the child on examples in five orders, and as controls the first parent and a
    fresh adapter; a fifth of the prompts is held out. Fitness is the geometric mean of the
    probabilities of a held-out completion's tokens. Prints the steps until the child stays at its
    best parent's level, and its gain over the controls. The exit code is 0 if the child recovers in
    all five orders, with a median of at most 20 steps, and the fresh adapter does not.
    """
    if (model is None) == bool(probes or train):
        raise click.UsageError("--model needs --probes or --train, and they need --model")
    folders = list(parent_folders) or parents_on_disk(child)
    short = shortest_unique_names(folders)  # refuses duplicates
    parents = dict(zip([str(parent) for parent in parent_folders] or short, folders, strict=True))

    from lora_evo.compare import retention as compare

    weights = {name: compare(folder, child) for name, folder in parents.items()}
    behaviour: dict[str, Behaviour] = {}
    trained: Recovery | None = None
    if model is not None:
        behaviour, trained = _run(child, parents, model, load_in_4bit, probes, train, training)
    say_unfit([child, *folders])
    lineage = read_lineage(child)
    since = lineage.content_hash != content_hash(child) if lineage else None
    valid = lineage.moments_valid if lineage else None
    if as_json:
        of_parents = {
            name: {**comparison.to_dict(), "probe": asdict(behaviour[name]) if behaviour else None}
            for name, comparison in weights.items()
        }
        report = {
            "child": str(child),
            "moments_valid_at_birth": valid,
            "trained_since_birth": since,
            "parents": of_parents,
            "recovery": trained and trained.to_dict(),
        }
        print_json(report)
    else:
        for name, comparison in weights.items():
            _print_gap(f"{child} against {name}", comparison.whole, behaviour.get(name))
        click.echo(f"AdamW's state to train on with: {_moments(valid, since)}")
        if trained:
            _print_training(str(child), trained)
    if trained and not (trained.passed() and trained.has_power):
        why = "it does not recover"
        if not trained.has_power:
            why = "the training proves nothing, because a fresh adapter recovers as well"
        click.echo(f"error: {child}: {why}", err=True)
        sys.exit(1)


def _moments(valid: bool | None, since: bool | None) -> str:
    """Return the AdamW state to continue with. valid: at birth; since: trained since birth."""
    if valid is None:
        return "not known, there is no lineage.json"
    if since:
        return "the child's own: it was trained since its birth"
    return "each module's from the parent it came from" if valid else "begin it anew"


def _run(
    child: Path,
    folders: Mapping[str, Path],
    model: str,
    load_in_4bit: bool,
    probes: Path | None,
    train: Path | None,
    training: Mapping[str, Any],
) -> "tuple[dict[str, Behaviour], Recovery | None]":
    from lora_evo.model.base import check_bits, choose_device, load_base_model
    from lora_evo.model.supervised import read_rows
    from lora_evo.peft.adapter import load_adapter
    from lora_evo.recovery import probe, recovery

    prompts, examples = (read_rows(file) if file else [] for file in (probes, train))
    parents = {name: load_adapter(folder) for name, folder in folders.items()}
    adapter = load_adapter(child)
    base = load_base_model(model, choose_device("auto"), "float32", load_in_4bit)
    if base.quantization is None:
        check_bits(None, str(child), " (--load-in-4bit)")
    behaviour: dict[str, Behaviour] = {}
    if prompts:
        with counter("probing rows") as progress:
            behaviour = probe(base, parents, adapter, prompts, progress=progress)
    if not examples:
        return behaviour, None
    with counter("training steps") as progress:
        return behaviour, recovery(base, parents, adapter, examples, progress=progress, **training)


def _print_gap(title: str, gap: "Gap", behaviour: "Behaviour | None") -> None:
    click.echo(
        f"{title}: change {number(gap.relative_change, 'from zero')}, distance "
        f"{number(gap.distance)}, cosine {number(gap.cosine)}, norm ratio {number(gap.norm_ratio)}"
    )
    if b := behaviour:
        click.echo(
            f"  KL(parent||child) {b.kl:.4g} nats/token, KL(base||parent) {b.kl_scale:.4g}, "
            f"ratio {number(b.kl_ratio)} ({b.prompts} prompts, {b.tokens} tokens)"
        )


def _print_training(child: str, trained: "Recovery") -> None:
    last, median = trained.checks[-1], trained.median()
    when = f"not within {last} steps" if median is None else f"after {median:g} steps"
    click.echo(f"\n{child} in training: at its best parent's level {when}")
    rows = []
    for who, curves in trained.curves.items():
        start, end = (sum(curve[at] for curve in curves) / len(curves) for at in (0, -1))
        gain = "" if who == "child" else "{:+.3f} ({:+.3f} to {:+.3f})".format(*trained.gain(who))
        never = trained.steps(who).count(None)
        rows.append((who, trained.median(who), never, f"{start:.3f}", f"{end:.3f}", gain))
    header = ("trained", "steps", "never", "at first", f"after {last}", "child's gain")
    click.echo(text_table(header, rows))
    levels = ", ".join(
        f"{name} {level.mean:.3f} (95 % within {level.half_width:.3f})"
        for name, level in trained.levels.items()
    )
    click.echo(f"parents' fitness: {levels}; {len(trained.curves['child'])} seeds")
