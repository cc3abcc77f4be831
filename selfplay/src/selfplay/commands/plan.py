"""`selfplay plan`: what a run takes, before anything loads."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from selfplay.errors import ConfigError, one_line_errors


@click.command()
@click.argument("preset", default="nano")
@click.option("--config", type=click.Path(path_type=Path), help="A YAML file instead of a preset.")
@click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Change a setting.")
@click.option("--gpu", help="Plan for this GPU, such as H100; default: the device found here.")
@click.option("--memory-gb", type=click.FloatRange(1), help="Plan for a GPU of this size.")
@click.option("--workers", type=click.IntRange(1), default=1, help="Plan for one of so many.")
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON.")
def plan(
    preset: str,
    config: Path | None,
    assignments: tuple[str, ...],
    gpu: str | None,
    memory_gb: float | None,
    workers: int,
    as_json: bool,
) -> None:
    """Say what a run takes in memory, time and disk, whether it fits, and what to change if not."""
    with one_line_errors():
        from selfplay import planning
        from selfplay.config import read_config
        from selfplay.settings import extended, one_of, override, read_preset, read_yaml

        data = extended(read_yaml(config)) if config else read_preset(preset)
        for assignment in assignments:
            override(data, assignment)
        settings = read_config(data)
        known = {name.lower(): name for name in planning.CARDS}
        if gpu is not None and gpu.lower() not in known:
            raise ConfigError(f"--gpu is {gpu!r}; {one_of(gpu, list(planning.CARDS))}")
        if gpu is not None:
            machine = planning.gpu(known[gpu.lower()], memory_gb)
        elif memory_gb is not None:
            machine = planning.gpu_of_size(memory_gb)
        else:
            machine = planning.this_machine(settings.device, settings.threads)
        settings, machine = planning.one_worker(settings, machine, workers)
        model = planning.read_architecture(settings.base)
        found = planning.make_plan(settings, model, machine)
        changes, changed = planning.smaller(settings, model, machine)
        if as_json:
            more = {"peak": found.peak, "fits": found.fits, "changes": changes}
            click.echo(json.dumps(asdict(found) | more, indent=1))
            return
        gib = planning.GIB
        step = found.step
        click.echo(
            f"{found.model}: {found.parameters:,} parameters, {step.members} adapters of "
            f"{found.adapter_parameters:,}; at most {step.proposals.count:,} proposals and "
            f"{step.attempts.count:,} attempts a step"
        )
        phases = {"while learning": found.learning, "while sampling": found.sampling}
        disk = {"a checkpoint": found.checkpoint, "all that is kept": found.disk}
        rates = f"{machine.flops / 1e12:.3g} TFLOP/s and {machine.reads / 1e9:.3g} GB/s"
        for title, values, scale in (
            ("memory, GiB", {**found.memory, **phases}, gib),
            (f"seconds a step on {machine.name}, at {rates}", found.seconds, 1),
            ("disk, GiB", disk, gib),
        ):
            click.echo(f"\n{title}")
            for name, value in values.items():
                click.echo(f"  {name:32}{value / scale:12.2f}")
        click.echo(f"\n{planning.verdict(found, changes)}")
        if changes:
            fits = "fits" if changed.fits else "still does not fit"
            click.echo(f"with these it needs {changed.peak / gib:.1f} GiB and {fits}")
