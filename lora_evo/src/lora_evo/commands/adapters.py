"""Commands that read adapters: `lora-evo inspect`, `distance`, `lineage`."""

import sys
from pathlib import Path

import click

from lora_evo.errors import LoraEvoError
from lora_evo.family import family, tree
from lora_evo.peft.directory import adapter_folders
from lora_evo.terminal import FOLDER, json_option, number, print_json, say_unfit, text_table


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
    header = ("module", "in", "out", "rank", "eff.rank", "dead", "|A|", "|B|", "|update|", "dtype")
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
