"""Commands that look at adapters: `lora-evo inspect`, `distance`, `diversity`, `lineage`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import click

from lora_evo.commands.terminal import (
    FOLDER,
    json_option,
    number,
    print_json,
    say_unfit,
    text_table,
)
from lora_evo.errors import LoraEvoError
from lora_evo.lineage import family, tree
from lora_evo.peft.directory import adapter_folders, readable

if TYPE_CHECKING:
    from lora_evo.population import Diversity


@click.command()
@click.argument("directory", type=FOLDER)
@json_option
def inspect(directory: Path, as_json: bool) -> None:
    """Show rank and norms of every module of an adapter.

    DIRECTORY is a PEFT adapter directory. `in` and `out` are the widths of the linear layer, `rank`
    that of its two factors A and B, `eff.rank` how many directions the update B A really uses, and
    `dead` the rows of A and columns of B that add nothing because one of them is zero.
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
    if view["start_problem"]:
        click.echo(f"refused elsewhere: {view['start_problem']}")
    if view["unmatched"]:
        click.echo(f"fit no module, so are without effect: {', '.join(view['unmatched'])}")
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

    `distance` is symmetric: 0 is the same update, 1.41 nothing in common, 2 opposite updates.
    `cosine` is that of the angle between both updates, and `norm ratio` the norm of SECOND over
    that of FIRST. `change` is the norm of the difference over the norm of FIRST.
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
def diversity(directories: tuple[Path, ...], as_json: bool) -> None:
    """Compare all adapters of a population with each other.

    Shows for each adapter the norm of its update and its mean and smallest distance to the others,
    and how many members are distinct in effect: from 1 (all alike) to all (nothing in common).

    DIRECTORIES are adapters, or folders that hold adapters at any depth. Distances are those of
    `lora-evo distance`. What cannot be read, or sits on other modules or another base than the
    first, is named and left out; the exit code is then 1.
    """
    from lora_evo.peft.adapter import Adapter, check_comparable, load_adapter
    from lora_evo.population import diversity as compare_all

    folders = [folder for directory in directories for folder in adapter_folders([directory])]
    left_out: list[str] = []
    first: dict[str, Adapter] = {}

    def fitting(folder: Path) -> None:
        adapter = load_adapter(folder)
        check_comparable({**first, str(folder): adapter})
        if not first:
            first[str(folder)] = adapter

    folders = [folder for folder, _ in readable(folders, fitting, left_out.append)]
    _report(left_out)
    comparison = compare_all(folders)
    if as_json:
        print_json(comparison.to_dict())
    else:
        _print_population(comparison)
    sys.exit(1 if left_out else 0)


@click.command()
@click.argument("directories", type=FOLDER, nargs=-1, required=True)
@json_option
def lineage(directories: tuple[Path, ...], as_json: bool) -> None:
    """Print the family tree of all adapters in DIRECTORIES.

    DIRECTORIES are adapters, or folders that hold adapters at any depth. Each child stands below
    its first parent, with the first digits of its content hash, its generation, its operator, and
    the relative change of its update. What cannot be read is named and left out; the exit code is
    then 1. `selfplay report` draws the tree of a run.
    """
    left_out: list[str] = []
    members = family(directories, left_out.append)
    _report(left_out)
    say_unfit(adapter_folders(directories))
    if not members:
        raise LoraEvoError(f"no adapters that can be read under {', '.join(map(str, directories))}")
    if as_json:
        print_json([member.to_dict() for member in members])
    else:
        click.echo(tree(members))
    sys.exit(1 if left_out else 0)


def _report(left_out: Sequence[str]) -> None:
    for reason in left_out:
        click.echo(f"error: {' '.join(reason.split())}; left out", err=True)


def _print_population(comparison: "Diversity") -> None:
    names = comparison.names
    click.echo("distances (0 the same update, 1.41 nothing in common, 2 opposite)")
    rows = []
    for name, norm, gaps in zip(names, comparison.norms, comparison.distances, strict=True):
        others = {other: gap for other, gap in zip(names, gaps, strict=True) if other != name}
        near, mean = min(others, key=others.__getitem__), fmean(others.values())
        rows.append((name, number(norm), number(mean), near, number(others[near])))
    click.echo(text_table(("member", "norm", "mean distance", "nearest", "distance"), rows))
    one, two = comparison.closest
    click.echo(
        f"\n{len(names)} members, {comparison.effective_members:.2f} distinct in effect, "
        f"mean distance {comparison.mean_distance:.4g}; closest: {names[one]} and "
        f"{names[two]} at {comparison.distances[one][two]:.4g}"
    )
