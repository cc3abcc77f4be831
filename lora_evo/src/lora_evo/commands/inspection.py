"""The commands that only look: `lora-evo operators`, `inspect`, `verify` and `lineage`."""

import sys
from pathlib import Path

import click

from lora_evo.breeding.verification import verify as verify_child
from lora_evo.commands.frame import FOLDER, counter, json_option, print_json, print_table
from lora_evo.errors import LoraEvoError
from lora_evo.files.atomic import write_text_atomically
from lora_evo.operators.page import operator_page, operator_pages, table
from lora_evo.pages.family_page import family_page
from lora_evo.population.family import family
from lora_evo.population.inspection import inspect_directory
from lora_evo.population.tree import tree


@click.command()
@click.argument("name", required=False)
@json_option
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


@click.command()
@click.argument("directory", type=FOLDER)
@json_option
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
        "module", "layer", "in", "out", "rank", "eff.rank", "dead", "|A|", "|B|", "|update|",
        "dtype",
    )  # fmt: skip
    rows = [
        (
            path, module.layout, module.inputs, module.outputs, module.rank,
            f"{module.effective_rank:.2f}", module.dead, f"{module.norm_a:.4g}",
            f"{module.norm_b:.4g}", f"{module.norm_update:.4g}", module.dtype,
        )
        for path, module in view.modules.items()
    ]  # fmt: skip
    print_table(header, rows)


@click.command()
@click.argument("child", type=FOLDER)
@click.argument("parents", type=FOLDER, nargs=-1)
@json_option
def verify(child: Path, parents: tuple[Path, ...], as_json: bool) -> None:
    """Re-make CHILD from its lineage and compare bit for bit.

    PARENTS are adapters or folders to search; by default the folder that holds CHILD.
    """
    with counter("verifying") as progress:
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


@click.command()
@click.argument("directories", type=FOLDER, nargs=-1, required=True)
@click.option("--html", type=FOLDER, metavar="FILE", help="Write the tree as a page to FILE.")
@click.option("--save", type=FOLDER, metavar="FOLDER", help="Write the tree there, as SVG and PNG.")
@json_option
def lineage(
    directories: tuple[Path, ...], html: Path | None, save: Path | None, as_json: bool
) -> None:
    """Draw the family tree of all adapters at or below DIRECTORIES."""
    members = family(directories)
    if not members:
        raise LoraEvoError(f"no adapters under {', '.join(map(str, directories))}")
    if html is not None:
        write_text_atomically(html, family_page(members))
    if save is not None:
        from lora_evo.report import family_tree, save_charts

        save_charts({"family": family_tree(members)}, save)
    if as_json:
        print_json([member.to_dict() for member in members])
    elif html is not None:
        click.echo(f"{html}: {len(members)} adapters")
    else:
        click.echo(tree(members))
