"""`selfplay warmup`: supervised steps on known tasks, for members to start from."""

from pathlib import Path
from typing import Any

import click

from selfplay.config.preset import extended, read_preset
from selfplay.console import one_line_errors, read_yaml, silence_transformers
from selfplay.errors import ConfigError

PATH = click.Path(path_type=Path)


@click.command()
@click.option("--data", required=True, type=PATH, help="Tasks as JSON Lines.")
@click.option("--out", required=True, type=PATH, help="The adapter, new; OUT.part meanwhile.")
@click.option("--preset", help="Of the run to come. Default: smol with --base, else nano.")
@click.option("--config", "config_file", type=PATH, help="A YAML file instead of a preset.")
@click.option("--base", help="Base model: a folder, or a name on the hub.")
@click.option("--template", help="nano, azr or azr-chat.")
@click.option("--r", "rank", type=click.IntRange(1), help="Rank of the adapter.")
@click.option("--lora-alpha", type=click.FloatRange(0, min_open=True), help="Its scale times r.")
@click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Any key of the run.")
@click.option("--steps", type=click.IntRange(1), default=200, show_default=True)
@click.option("--batch-size", type=click.IntRange(1), default=8, show_default=True)
@click.option(
    "--learning-rate", type=click.FloatRange(0, min_open=True), default=2e-4, show_default=True
)
@click.option("--max-length", type=click.IntRange(8), default=640, show_default=True)
@click.option("--held-out", type=click.IntRange(0), default=24, show_default=True)
@click.option("--eval-every", type=click.IntRange(1), default=50, show_default=True)
@click.option("--save-every", type=click.IntRange(1), default=10, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--quiet", is_flag=True, help="No progress.")
def warmup(
    out: Path,
    preset: str | None,
    config_file: Path | None,
    base: str | None,
    template: str | None,
    rank: int | None,
    lora_alpha: float | None,
    assignments: tuple[str, ...],
    quiet: bool,
    **given: Any,
) -> None:
    """Teach an adapter the form of tasks and answers, by supervised steps on known tasks.

    DATA holds {"snippet", "input", "output"} as Absolute Zero's seeds, or tasks as
    `selfplay tasks` writes them. A run starts its members from the result with
    --set warm_start=OUT. Run the same command again to go on after any interruption.
    """
    with one_line_errors():
        from selfplay.config.run_config import override, read_config
        from selfplay.warmup.settings import WarmupSettings
        from selfplay.warmup.training import warm_up

        if preset is not None and config_file is not None:
            raise ConfigError("--preset and --config are two configurations; give one of them")
        silence_transformers()
        name = preset or ("nano" if base in (None, "nano") else "smol")
        data = extended(read_yaml(config_file)) if config_file else read_preset(name)
        options = {
            "base": base,
            "template": template,
            "learner.r": rank,
            "learner.lora_alpha": lora_alpha,
        }
        for key, value in options.items():
            if value is not None:
                override(data, f"{key}={value}")
        for assignment in assignments:
            override(data, assignment)
        settings = WarmupSettings(**given)
        losses = warm_up(
            read_config(data), settings, out, (lambda text: None) if quiet else click.echo
        )
        gain = ""
        if losses:
            gain = f", held-out loss {losses[0].held_out:.3f} to {losses[-1].held_out:.3f}"
        click.echo(f"adapter: {out}{gain}; start a run from it with --set warm_start={out}")
