"""`selfplay sft`: supervised steps on known tasks, for members to start from."""

from pathlib import Path
from typing import Any

import click

from selfplay.errors import ConfigError, one_line_errors, silence_transformers
from selfplay.settings import extended, read_preset, read_yaml

PATH = click.Path(path_type=Path)


@click.command()
@click.option("--data", required=True, type=PATH, help="Tasks to learn from, as JSON Lines.")
@click.option("--out", required=True, type=PATH, help="Folder of the adapter; must be new.")
@click.option("--preset", help="Preset of the run to come. Default: smol with --base, else nano.")
@click.option("--config", "config_file", type=PATH, help="A YAML file instead of a preset.")
@click.option("--base", help="Base model: a folder, or a name on the hub.")
@click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Any key of the run.")
@click.option("--steps", type=click.IntRange(1), default=200, show_default=True, help="Steps.")
@click.option(
    "--batch-size", type=click.IntRange(1), default=8, show_default=True, help="Examples a step."
)
@click.option(
    "--learning-rate", type=click.FloatRange(0, min_open=True), default=2e-4, show_default=True,
    help="Of AdamW, at its highest.",
)  # fmt: skip
@click.option(
    "--max-length", type=click.IntRange(8), default=640, show_default=True,
    help="Longest example in tokens; longer ones are left out.",
)  # fmt: skip
@click.option(
    "--held-out", type=click.IntRange(0), default=24, show_default=True,
    help="Programs whose tasks are only measured.",
)  # fmt: skip
@click.option(
    "--eval-every", type=click.IntRange(1), default=50, show_default=True,
    help="Steps between two measurements.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option("--quiet", is_flag=True, help="No progress.")
def sft(
    out: Path,
    preset: str | None,
    config_file: Path | None,
    base: str | None,
    assignments: tuple[str, ...],
    quiet: bool,
    **given: Any,
) -> None:
    """Teach an adapter the form of tasks and answers, by supervised steps on known tasks.

    DATA holds {"snippet", "input", "output"} as Absolute Zero's seeds, or tasks as
    `selfplay tasks` writes them. A run starts its members from the result with
    --set warm_start=OUT. Run the same command again to resume after any interruption.
    """
    with one_line_errors():
        from selfplay.config import read_config
        from selfplay.settings import override
        from selfplay.sft import SftSettings, fine_tune

        if preset is not None and config_file is not None:
            raise ConfigError("--preset and --config are two configurations; give one of them")
        silence_transformers()
        name = preset or ("nano" if base in (None, "nano") else "smol")
        data = extended(read_yaml(config_file)) if config_file else read_preset(name)
        for assignment in (*([f"base={base}"] if base else []), *assignments):
            override(data, assignment)
        say = (lambda text: None) if quiet else click.echo
        losses = fine_tune(read_config(data), SftSettings(**given), out, say)
        gain = ""
        if losses:
            first, last = (losses[at]["held_out"] for at in (0, -1))
            gain = f", held-out loss {first:.3f} to {last:.3f}"
        click.echo(f"adapter: {out}{gain}; start a run from it with --set warm_start={out}")
