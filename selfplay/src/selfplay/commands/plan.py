"""`selfplay plan`: what a run takes, before anything loads."""

import json
from pathlib import Path
from typing import Any

import click

from selfplay.config.preset import extended, read_preset
from selfplay.console import one_line_errors, read_yaml, silence_transformers
from selfplay.errors import ConfigError


@click.command()
@click.argument("preset", default="nano")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="A YAML file instead of a preset.",
)
@click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Any key of it.")
@click.option("--gpu", help="Plan for this GPU, such as H100, instead of what is found.")
@click.option(
    "--memory-gb", type=click.FloatRange(min=0, min_open=True), help="A GPU of this size."
)
@click.option("--prompt-tokens", type=click.IntRange(1), help="Of the longest prompt.")
@click.option(
    "--fill",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of its longest length that a completion has.",
)
@click.option("--tflops", type=click.FloatRange(min=0, min_open=True), help="Rate reached.")
@click.option("--gb-per-s", type=click.FloatRange(min=0, min_open=True), help="Rate reached.")
@click.option("--workers", type=click.IntRange(1), default=1, help="Plan for one of so many.")
@click.option("--json", "as_json", is_flag=True)
def plan(
    preset: str,
    config_file: Path | None,
    assignments: tuple[str, ...],
    gpu: str | None,
    memory_gb: float | None,
    prompt_tokens: int | None,
    fill: float,
    tflops: float | None,
    gb_per_s: float | None,
    workers: int,
    as_json: bool,
) -> None:
    """Say what a run takes in memory, time and disk, whether it fits, and what to change if not.

    Only the base's config.json is read.
    """
    with one_line_errors():
        from dataclasses import replace

        from selfplay.config.run_config import override, read_config
        from selfplay.planning.check import adjusted, reckoner
        from selfplay.planning.machine import found_machine, gpu_named, gpu_with
        from selfplay.planning.plan_text import plan_text, plan_values
        from selfplay.planning.remedies import remedies
        from selfplay.planning.share import largest_share, share_of_machine

        if gpu is not None and memory_gb is not None:
            raise ConfigError("--gpu and --memory-gb name two devices; give one of them")
        silence_transformers()
        data: dict[str, Any] = (
            extended(read_yaml(config_file)) if config_file else read_preset(preset)
        )
        for assignment in assignments:
            override(data, assignment)
        config = read_config(data)
        if gpu is not None:
            machine = gpu_named(gpu)
        elif memory_gb is not None:
            machine = gpu_with(memory_gb)
        else:
            machine = found_machine(config.device, config.threads)
        if workers > 1:
            config, machine = largest_share(config, workers), share_of_machine(machine, workers)
            click.echo(
                f"one of {workers} workers, with up to {config.teachers} teachers and "
                f"{config.students} students:",
                err=as_json,
            )
        machine = replace(
            machine,
            flops=tflops * 1e12 if tflops else machine.flops,
            reads=gb_per_s * 1e9 if gb_per_s else machine.reads,
        )
        reckon = reckoner(config.base, machine, prompt_tokens=prompt_tokens, fill=fill)
        found, changes = reckon(config), remedies(config, reckon)
        if as_json:
            click.echo(json.dumps(plan_values(found, changes), indent=1))
        else:
            click.echo(plan_text(found, changes, reckon(adjusted(config, changes))))
