"""The commands that write a child: `lora-evo mutate`, `cross` and `resize`."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from lora_evo.breeding.child_directory import cross_directory, mutate_directory, resize_directory
from lora_evo.breeding.lineage import Lineage
from lora_evo.commands.frame import FOLDER, change_text, counter, json_option, print_json
from lora_evo.errors import LoraEvoError
from lora_evo.operators.lookup import check_names, find_operator
from lora_evo.operators.operator import Operator

overwrite_option = click.option("--overwrite", is_flag=True, help="Replace an existing output.")


def _birth_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        json_option,
        overwrite_option,
        click.option("--threads", type=int, default=1, show_default=True, help="Same child."),
        click.option("--set", "settings", multiple=True, metavar="K=V", help="A parameter."),
        click.option("--seed", type=int, required=True, help="At least 0."),
        click.option("--out", type=FOLDER, required=True, help="The child's new directory."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("operator")
@click.argument("parent", type=FOLDER)
@click.option("--strength", type=float, help="Relative change of the update, for example 0.15.")
@_birth_options
def mutate(
    operator: str, parent: Path, out: Path, settings: Sequence[str], as_json: bool, **options: Any
) -> None:
    """Write a mutated child of PARENT to --out."""
    options |= _settings(find_operator(operator, "mutation"), settings)
    with counter(operator) as progress:
        lineage = mutate_directory(operator, parent, out, progress=progress, **options)
    _print_birth(lineage, out, as_json)


@click.command()
@click.argument("operator")
@click.argument("parents", type=FOLDER, nargs=-1, required=True)
@click.option("--weights", metavar="W,W,...", help="One number for each parent.")
@_birth_options
def cross(
    operator: str,
    parents: tuple[Path, ...],
    weights: str | None,
    out: Path,
    settings: Sequence[str],
    as_json: bool,
    **options: Any,
) -> None:
    """Write a child of all PARENTS to --out, in the first one's rank and configuration."""
    options |= _settings(find_operator(operator, "crossover"), settings)
    try:
        options["weights"] = (
            None if weights is None else [float(word) for word in weights.split(",")]
        )
    except ValueError as error:
        raise LoraEvoError(f"--weights {weights}: expected numbers joined by commas") from error
    with counter(operator) as progress:
        lineage = cross_directory(operator, parents, out, progress=progress, **options)
    _print_birth(lineage, out, as_json)


@click.command()
@click.argument("parent", type=FOLDER)
@click.option("--rank", type=int, required=True, help="The rank of every module, at least 1.")
@click.option("--out", type=FOLDER, required=True, help="The new directory.")
@click.option("--alpha", type=float, help="A new alpha; without it every module keeps its scale.")
@click.option("--seed", type=int, default=0, show_default=True, help="For new rows of A.")
@overwrite_option
@json_option
def resize(parent: Path, rank: int, out: Path, as_json: bool, **options: Any) -> None:
    """Write PARENT at another rank to --out: the nearest update below, the same one above."""
    record = resize_directory(parent, out, rank=rank, **options)
    if as_json:
        print_json(record.to_dict())
        return
    worst = max(record.modules, key=lambda path: record.modules[path].truncation_loss)
    click.echo(
        f"{out}: rank {rank} on {len(record.modules)} modules; truncation lost "
        f"{record.relative_change or 0:.3g} of the update's norm"
        + (f", at most {record.truncation_loss:.3g} ({worst})" if record.truncation_loss else "")
    )


def _settings(operator: Operator, pairs: Sequence[str]) -> dict[str, Any]:
    """`k=v` words as parameters; a value is JSON where it parses, else text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, found, text = pair.partition("=")
        if not found or not name.isidentifier():
            raise LoraEvoError(f"--set {pair}: expected NAME=VALUE")
        if name in values:
            raise LoraEvoError(f"--set {pair}: {name} is given twice")
        if name in ("seed", "strength", "weights", "threads", "overwrite"):
            raise LoraEvoError(f"--set {pair}: {name} has an option of its own, --{name}")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    check_names(operator, values)
    return values


def _print_birth(record: Lineage, out: Path, as_json: bool) -> None:
    if as_json:
        print_json(record.to_dict())
        return
    click.echo(
        f"{out}: {record.operator} seed {record.seed}, generation {record.generation}, "
        f"{len(record.modules)} modules, relative change {change_text(record.relative_change)}, "
        f"optimiser moments {'valid' if record.moments_valid else 'to be reset'}"
    )
