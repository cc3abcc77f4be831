"""The command `lora-evo retention`: what a child keeps of its parents, and how fast it recovers."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lora_evo.family import parents_on_disk
from lora_evo.peft.directory import shortest_unique_names
from lora_evo.terminal import (
    FOLDER,
    counter,
    json_option,
    number,
    print_json,
    say_unfit,
    text_table,
)

if TYPE_CHECKING:  # they bring torch
    from lora_evo.recovery import Recovery


@click.command()
@click.argument("child", type=FOLDER)
@click.option(
    "--parent", "parent_folders", type=FOLDER, multiple=True,
    help="Adapter directory of a parent; may be repeated. Default: the parents in lineage.json.",
)  # fmt: skip
@click.option("--model", help="Base model to run the adapters on: a folder, or a name on the hub.")
@click.option("--load-in-4bit", is_flag=True, help="Load the base in bitsandbytes' 4 bits (NF4).")
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
    train: Path | None,
    as_json: bool,
    **training: Any,
) -> None:
    """Measure how much a child keeps and how fast it recovers.

    Parents are those given with --parent, else the adapters next to CHILD that its lineage names.
    Compares weights, which takes seconds.

    --model and --train train the child on examples in five orders, and as controls the first parent
    and a fresh adapter; a fifth of the prompts is held out. Fitness is the geometric mean of the
    probabilities of a held-out completion's tokens. Prints the steps until the child stays at its
    best parent's level, and its gain over the controls. The exit code is 0 if the child recovers in
    all five orders, with a median of at most 20 steps, and the fresh adapter does not.
    """
    if (model is None) != (train is None):
        raise click.UsageError("--model and --train need each other")
    folders = list(parent_folders) or parents_on_disk(child)
    short = shortest_unique_names(folders)  # refuses duplicates
    parents = dict(zip([str(parent) for parent in parent_folders] or short, folders, strict=True))

    from lora_evo.compare import retention as compare

    measures = {name: compare(folder, child) for name, folder in parents.items()}
    trained: Recovery | None = None
    if model is not None and train is not None:
        from lora_evo.model.base import check_bits, choose_device, load_base_model
        from lora_evo.peft.adapter import load_adapter
        from lora_evo.recovery import recovery
        from lora_evo.retention_rows import read_rows

        examples, adapter = read_rows(train), load_adapter(child)
        adapters = {name: load_adapter(folder) for name, folder in parents.items()}
        base = load_base_model(model, choose_device("auto"), "float32", load_in_4bit)
        if base.quantization is None:
            check_bits(None, str(child), " (--load-in-4bit)")
        with counter("training steps") as progress:
            trained = recovery(base, adapters, adapter, examples, progress=progress, **training)
    say_unfit([child, *folders])
    if as_json:
        compared = {name: gaps.to_dict() for name, gaps in measures.items()}
        outcome = trained and trained.to_dict()
        print_json({"child": str(child), "parents": compared, "recovery": outcome})
    else:
        for name, gaps in measures.items():
            gap = gaps.whole
            click.echo(
                f"{child} against {name}: change {number(gap.relative_change, 'from zero')}, "
                f"distance {number(gap.distance)}, cosine {number(gap.cosine)}, "
                f"norm ratio {number(gap.norm_ratio)}"
            )
        if trained:
            _print_training(str(child), trained)
    if trained and (problem := trained.problem):
        click.echo(f"error: {child}: {problem}", err=True)
        sys.exit(1)


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
