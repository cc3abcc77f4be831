"""The commands that compare adapters: `lora-evo distance` and `lora-evo diversity`."""

from collections import Counter
from pathlib import Path

import click

from lora_evo.commands.frame import (
    FOLDER,
    change_text,
    counter,
    json_option,
    print_json,
    print_table,
)
from lora_evo.files.atomic import write_text_atomically
from lora_evo.files.directory import CONFIG_FILE
from lora_evo.files.folders import adapter_folders
from lora_evo.files.tensor_names import module_type
from lora_evo.pages.extra import require_report
from lora_evo.pages.population_page import population_page
from lora_evo.population.diversity import Diversity, diversity_of_directories, member_row
from lora_evo.population.seriation import classical_map, neighbour_order
from lora_evo.probing.retention import Comparison, compare_directories, together

_MATRIX_UP_TO = 16
_SHARED = ("relative_change", "cosine", "norm_ratio", "column_overlap", "row_overlap")

_spaces = click.option("--spaces", is_flag=True, help="Also the overlap of column and row spaces.")


@click.command()
@click.argument("first", type=FOLDER)
@click.argument("second", type=FOLDER)
@click.option("--modules", is_flag=True, help="One line for each module, not for each type.")
@json_option
def distance(first: Path, second: Path, modules: bool, as_json: bool) -> None:
    """Gauge-free relative distance of two adapters' updates (symmetric; 0 to 2).

    0 is the same update, 1.41 nothing in common. `overlap`: mean squared cosine of the principal
    angles between what both write to (columns) and read (rows). `change`: difference over
    the norm of FIRST.
    """
    with counter("comparing") as progress:
        found = compare_directories(first, second, progress)
    counts = Counter(map(module_type, found.modules))
    types = {
        kind: together(part for path, part in found.modules.items() if module_type(path) == kind)
        for kind in sorted(counts)
    }
    if as_json:
        print_json(
            {
                **_pair_dict(found.whole),
                "module_types": {
                    kind: {"modules": counts[kind], **_pair_dict(part)}
                    for kind, part in types.items()
                },
                "modules": {path: _pair_dict(part) for path, part in found.modules.items()},
            }
        )
        return
    shown = found.modules if modules else types
    rows = [_pair_row(name, counts.get(name, 1), part) for name, part in shown.items()]
    rows.append(_pair_row("all", len(found.modules), found.whole))
    header = (
        "module" if modules else "type", "modules", "distance", "cosine", "norm ratio",
        "columns overlap", "rows overlap", "change",
    )  # fmt: skip
    print_table(header, rows)


@click.command()
@click.argument("directories", type=FOLDER, nargs=-1, required=True)
@_spaces
@click.option(
    "--html", "html_file", type=click.Path(path_type=Path), help="Write the picture to this file."
)
@click.option(
    "--save",
    "save_folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write every chart into this folder, as SVG and PNG.",
)
@json_option
def diversity(
    directories: tuple[Path, ...],
    spaces: bool,
    html_file: Path | None,
    save_folder: Path | None,
    as_json: bool,
) -> None:
    """Show how varied a population of adapters is in what its members do.

    DIRECTORIES are adapters, or folders that hold adapters at any depth. Distances are those of
    `lora-evo distance`; similar members are listed side by side.
    """
    if html_file is not None or save_folder is not None:
        require_report()
    with counter("comparing") as progress:
        found = diversity_of_directories(_members(directories), spaces=spaces, progress=progress)
    if html_file is not None:
        write_text_atomically(html_file, population_page(found))
    if save_folder is not None:
        from lora_evo.report import population_charts, save_charts

        save_charts(population_charts(found, classical_map(found.distances)), save_folder)
    if as_json:
        print_json(found.to_dict())
        return
    _print_population(found)
    if html_file is not None:
        click.echo(f"wrote {html_file}")


def _members(directories: tuple[Path, ...]) -> list[Path]:
    """Adapters as they are; of other folders, all adapters below."""
    folders: list[Path] = []
    for directory in directories:
        alone = (directory / CONFIG_FILE).is_file()
        folders += [directory] if alone else adapter_folders([directory])
    return folders


def _print_population(found: Diversity) -> None:
    order = neighbour_order(found.distances)
    numbers = [str(number) for number in range(1, len(order) + 1)]
    numbered = [f"{number} {found.names[at]}" for number, at in zip(numbers, order, strict=True)]
    click.echo("distances (0 the same update, 1.41 nothing in common, 2 opposite)")
    if len(order) > _MATRIX_UP_TO:
        print_table(
            ("member", "norm", "mean distance", "nearest", "distance"),
            [member_row(found, place) for place in order],
        )
    else:
        rows = [
            [name, f"{found.norms[at]:.4g}", *(f"{found.distances[at][b]:.3g}" for b in order)]
            for name, at in zip(numbered, order, strict=True)
        ]
        print_table(("member", "norm", *numbers), rows)
    if found.overlaps is not None:
        for title, matrix in (("write to", found.overlaps.columns), ("read", found.overlaps.rows)):
            click.echo(f"\noverlap of what they {title} (1 the same space, 0 orthogonal)")
            cells = [
                [name, *(_number(matrix[place][other]) for other in order)]
                for name, place in zip(numbered, order, strict=True)
            ]
            print_table(("member", *numbers), cells)
    click.echo()
    print_table(
        ("type", "modules", "part of distances", "distinct in effect"),
        [
            (
                name,
                kind.modules,
                f"{100 * kind.distance_share:.1f} %",
                f"{kind.effective_members:.2f}",
            )
            for name, kind in found.module_types.items()
        ],
    )
    one, two = found.closest
    click.echo(
        f"\n{len(found.names)} members, {found.effective_members:.2f} distinct in effect, "
        f"mean distance {found.mean_distance:.4g}; closest: {found.names[one]} and "
        f"{found.names[two]} at {found.distances[one][two]:.4g}"
    )


def _pair_dict(part: Comparison) -> dict[str, float | None]:
    return {"distance": part.distance, **{name: getattr(part, name) for name in _SHARED}}


def _pair_row(name: str, modules: int, part: Comparison) -> tuple[object, ...]:
    return (
        name,
        modules,
        f"{part.distance:.6g}",
        _number(part.cosine),
        _number(part.norm_ratio),
        _number(part.column_overlap),
        _number(part.row_overlap),
        change_text(part.relative_change),
    )


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
