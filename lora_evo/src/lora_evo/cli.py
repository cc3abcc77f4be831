"""The `lora-evo` command."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from lora_evo import __version__
from lora_evo.breeding.child_directory import cross_directory, mutate_directory
from lora_evo.breeding.lineage import Lineage
from lora_evo.breeding.verification import verify as verify_child
from lora_evo.commands.diversity import distance, diversity
from lora_evo.commands.frame import (
    FOLDER,
    change_text,
    guarded,
    json_option,
    print_json,
    print_table,
)
from lora_evo.commands.progress import module_counter
from lora_evo.commands.recovery import recovery
from lora_evo.commands.resize import resize
from lora_evo.commands.retention import retention
from lora_evo.errors import LoraEvoError
from lora_evo.files.atomic import write_text_atomically
from lora_evo.operators.lookup import check_names, find_operator
from lora_evo.operators.operator import Operator
from lora_evo.operators.page import operator_page, operator_pages, table
from lora_evo.pages.family_page import family_page
from lora_evo.population.family import family, tree
from lora_evo.population.inspection import inspect_directory


@click.group()
@click.version_option(__version__, prog_name="lora-evo")
def main() -> None:
    """Evolve LoRA adapters: children from PEFT directories, without the base model."""


main.add_command(recovery)
main.add_command(resize)
main.add_command(distance)
main.add_command(diversity)
main.add_command(retention)


@main.command()
@click.argument("name", required=False)
@json_option
@guarded
def operators(name: str | None, as_json: bool) -> None:
    """List the operators, or describe the one called NAME: formula, source, what it preserves."""
    if name is not None:
        page = operator_page(name)
        if as_json:
            print_json({**page.to_dict(), "description": page.description})
        else:
            click.echo(page.text())
    elif as_json:
        print_json([page.to_dict() for page in operator_pages()])
    else:
        click.echo(table(operator_pages()))
        click.echo("More about one of them: lora-evo operators NAME")


def _birth_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        json_option,
        click.option("--overwrite", is_flag=True, help="Replace an existing output."),
        click.option("--threads", type=int, default=1, show_default=True, help="Same child."),
        click.option("--set", "settings", multiple=True, metavar="K=V", help="A parameter."),
        click.option("--seed", type=int, required=True, help="At least 0."),
        click.option("--out", type=FOLDER, required=True, help="The child's new directory."),
    ):
        command = option(command)
    return command


@main.command()
@click.argument("operator")
@click.argument("parent", type=FOLDER)
@click.option("--strength", type=float, help="Relative change of the update, for example 0.15.")
@_birth_options
@guarded
def mutate(
    operator: str,
    parent: Path,
    strength: float | None,
    out: Path,
    seed: int,
    settings: tuple[str, ...],
    threads: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write a mutated child of PARENT to --out."""
    with module_counter(operator) as progress:
        lineage = mutate_directory(
            operator,
            parent,
            out,
            seed=seed,
            strength=strength,
            threads=threads,
            overwrite=overwrite,
            progress=progress,
            **_settings(find_operator(operator, "mutation"), settings),
        )
    _print_birth(lineage, out, as_json)


@main.command()
@click.argument("operator")
@click.argument("parents", type=FOLDER, nargs=-1, required=True)
@click.option("--weights", metavar="W,W,...", help="One number for each parent.")
@_birth_options
@guarded
def cross(
    operator: str,
    parents: tuple[Path, ...],
    weights: str | None,
    out: Path,
    seed: int,
    settings: tuple[str, ...],
    threads: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write a child of all PARENTS to --out, in the first one's rank and configuration."""
    with module_counter(operator) as progress:
        lineage = cross_directory(
            operator,
            parents,
            out,
            seed=seed,
            weights=None if weights is None else _weights(weights),
            threads=threads,
            overwrite=overwrite,
            progress=progress,
            **_settings(find_operator(operator, "crossover"), settings),
        )
    _print_birth(lineage, out, as_json)


@main.command()
@click.argument("directory", type=FOLDER)
@json_option
@guarded
def inspect(directory: Path, as_json: bool) -> None:
    """Show ranks, norms and dead pairs of every module."""
    view = inspect_directory(directory)
    if as_json:
        print_json(view.to_dict())
        return
    config = view.config
    click.echo(
        f"{directory}: r {config.r}, alpha {config.lora_alpha:g}, {len(view.modules)} modules, "
        f"base {config.base_model_name_or_path or 'not named'}, {view.content_hash[:24]}"
    )
    header = (
        "module",
        "layer",
        "in",
        "out",
        "rank",
        "eff.rank",
        "dead",
        "|A|",
        "|B|",
        "|update|",
        "dtype",
    )
    rows = [
        (
            path, module.layout, module.inputs, module.outputs, module.rank,
            f"{module.effective_rank:.2f}", module.dead, f"{module.norm_a:.4g}",
            f"{module.norm_b:.4g}", f"{module.norm_update:.4g}", module.dtype,
        )
        for path, module in view.modules.items()
    ]  # fmt: skip
    print_table(header, rows)


@main.command()
@click.argument("child", type=FOLDER)
@click.argument("parents", type=FOLDER, nargs=-1)
@json_option
@guarded
def verify(child: Path, parents: tuple[Path, ...], as_json: bool) -> None:
    """Re-make CHILD from its lineage and compare bit for bit.

    PARENTS are adapters or folders to search; by default the folder that holds CHILD.
    """
    with module_counter("verifying") as progress:
        result = verify_child(child, list(parents) or None, progress=progress)
    if as_json:
        print_json(result.to_dict())
    elif result.identical:
        click.echo(f"{child}: identical to the child made again from its parents")
    else:
        click.echo(f"{child}: NOT verified")
        for problem in result.problems:
            click.echo(f"  {problem}")
        if result.difference is not None:
            click.echo(f"  relative distance to the child made again: {result.difference:.3g}")
    if not result.identical:
        sys.exit(1)


@main.command()
@click.argument("directories", type=FOLDER, nargs=-1, required=True)
@click.option("--html", type=FOLDER, metavar="FILE", help="Write the tree as a page to FILE.")
@json_option
@guarded
def lineage(directories: tuple[Path, ...], html: Path | None, as_json: bool) -> None:
    """Draw the family tree of all adapters at or below DIRECTORIES."""
    members = family(directories)
    if not members:
        raise LoraEvoError(f"no adapters under {', '.join(map(str, directories))}")
    if html is not None:
        write_text_atomically(html, family_page(members))
    if as_json:
        print_json([member.to_dict() for member in members])
    elif html is not None:
        click.echo(f"{html}: {len(members)} adapters")
    else:
        click.echo(tree(members))


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


def _weights(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError as error:
        raise LoraEvoError(f"--weights {text}: expected numbers joined by commas") from error


def _print_birth(record: Lineage, out: Path, as_json: bool) -> None:
    if as_json:
        print_json(record.to_dict())
        return
    click.echo(
        f"{out}: {record.operator} seed {record.seed}, generation {record.generation}, "
        f"{len(record.modules)} modules, relative change {change_text(record.relative_change)}, "
        f"optimiser moments {'valid' if record.moments_valid else 'to be reset'}"
    )
