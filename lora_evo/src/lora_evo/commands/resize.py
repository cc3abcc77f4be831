"""The command that re-expresses an adapter at another rank."""

from __future__ import annotations

from pathlib import Path

import click

from lora_evo.breeding.child_directory import resize_directory
from lora_evo.commands.frame import FOLDER, guarded, json_option, print_json


@click.command()
@click.argument("parent", type=FOLDER)
@click.option("--rank", type=int, required=True, help="The rank of every module, at least 1.")
@click.option("--out", type=FOLDER, required=True, help="The new directory.")
@click.option("--alpha", type=float, help="A new alpha; without it every module keeps its scale.")
@click.option("--seed", type=int, default=0, show_default=True, help="For new rows of A.")
@click.option("--overwrite", is_flag=True, help="Replace an existing output.")
@json_option
@guarded
def resize(
    parent: Path,
    rank: int,
    out: Path,
    alpha: float | None,
    seed: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write PARENT at another rank to --out: the nearest update below, the same one above."""
    record = resize_directory(parent, out, rank=rank, alpha=alpha, seed=seed, overwrite=overwrite)
    if as_json:
        print_json(record.to_dict())
        return
    worst = max(record.modules, key=lambda path: record.modules[path].truncation_loss)
    click.echo(
        f"{out}: rank {rank} on {len(record.modules)} modules; truncation lost "
        f"{record.relative_change or 0:.3g} of the update's norm"
        + (f", at most {record.truncation_loss:.3g} ({worst})" if record.truncation_loss else "")
    )
