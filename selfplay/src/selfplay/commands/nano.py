"""`selfplay nano`: rebuild the built-in model, measure it, and freeze its benchmark."""

import json
from pathlib import Path
from typing import Any

import click

from selfplay.console import one_line_errors, silence_transformers

PATH = click.Path(path_type=Path)


@click.group()
def nano() -> None:
    """The built-in base model: how it is made and where it stands."""


@nano.command()
@click.option("--out", required=True, type=PATH, help="Working directory; an existing one resumes.")
@click.option("--steps", type=click.IntRange(1), default=4500, show_default=True)
@click.option("--programs", type=click.IntRange(1), default=120_000, show_default=True)
@click.option("--hidden-size", type=click.IntRange(32), default=128, show_default=True)
@click.option("--layers", type=click.IntRange(1), default=5, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--device", default="auto", show_default=True, help="cpu, cuda or auto.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True)
@click.option("--save-every", type=click.IntRange(1), default=200, show_default=True)
def pretrain(out: Path, device: str, workers: int, save_every: int, **given: Any) -> None:
    """Pretrain the nano model on generated programs; run it again to continue."""
    with one_line_errors():
        import torch

        from selfplay.nano.pretrain import PretrainConfig
        from selfplay.nano.pretrain import pretrain as run

        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        run(
            PretrainConfig(**given),
            out,
            device=device,
            workers=workers,
            save_every=save_every,
            report=click.echo,
        )
        click.echo(f"model: {out / 'model'}")


@nano.command()
@click.option("--model", type=PATH, help="Model directory; default: the one in the package.")
@click.option("--tasks", "per_level", type=click.IntRange(1), default=100, show_default=True)
@click.option("--samples", type=click.IntRange(1), default=8, show_default=True)
@click.option("--proposals", type=click.IntRange(1), default=300, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def measure(
    model: Path | None, per_level: int, samples: int, proposals: int, seed: int, as_json: bool
) -> None:
    """Measure valid proposals and solve rates on held-out tasks."""
    with one_line_errors():
        from selfplay.nano.standing import measure_model, table

        silence_transformers()
        result = measure_model(model, per_level, samples, proposals, seed)
        click.echo(json.dumps(result, indent=1) if as_json else table(result))


@nano.command()
@click.option("--out", required=True, type=PATH, help="Directory for the three files.")
@click.option("--tasks", "per_level", type=click.IntRange(1), default=100, show_default=True)
def benchmark(out: Path, per_level: int) -> None:
    """Write the held-out benchmark files that `evals` ships."""
    with one_line_errors():
        from selfplay.nano.benchmark import write_benchmark
        from selfplay.nano.labels import labelling_sandbox

        with labelling_sandbox() as sandbox:
            for path in write_benchmark(out, per_level, sandbox):
                click.echo(path)


@nano.command()
@click.argument("directory", type=PATH)
def export(directory: Path) -> None:
    """Write the built-in base model into a new directory that PEFT, transformers and vLLM load."""
    with one_line_errors():
        from selfplay.export import export_nano

        export_nano(directory)
        click.echo(f"model: {directory}")
