"""The `selfplay` command."""

import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from selfplay import __version__
from selfplay.commands.experiment import compare, experiment
from selfplay.commands.plan import plan
from selfplay.commands.sft import sft
from selfplay.errors import SelfplayError, one_line_errors, silence_transformers
from selfplay.settings import (
    extended,
    override,
    preset_names,
    preset_text,
    read_preset,
    read_yaml,
)

if TYPE_CHECKING:  # torch comes with it, and a report does without
    from selfplay.config import Config

PATH = click.Path(path_type=Path)
F = TypeVar("F", bound=Callable[..., Any])


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """PopuLoRA: co-evolve populations of LoRA teachers and students."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


main.add_command(experiment)
main.add_command(compare)
main.add_command(plan)
main.add_command(sft)


def worker_options(command: F) -> F:
    """Give a command the options `--workers` and `--ray`."""
    address = click.option(
        "--ray", metavar="HOST:PORT", help="Address of a Ray cluster to train on, or auto."
    )
    workers = click.option(
        "--workers",
        type=click.IntRange(1),
        help="Processes that members are spread over. Default: 1; for nano all cores, with Ray.",
    )
    return address(workers(command))


@main.command()
@click.option(
    "--preset", default="nano", show_default=True, type=click.Choice(preset_names()),
    help="Configuration to start from.",
)  # fmt: skip
@click.option("--config", "config_file", type=PATH, help="YAML file to use instead of a preset.")
@click.option("--teachers", type=int, help="Members that propose tasks.")
@click.option("--students", type=int, help="Members that solve tasks.")
@click.option("--steps", type=int, help="Steps of the run.")
@click.option(
    "--mode", type=click.Choice(["populora", "azr"]), help="azr: one adapter in both roles."
)
@click.option("--engine", type=click.Choice(["hf", "vllm"]), help="What samples.")
@click.option("--seed", type=int, help="Random seed.")
@click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Set any other key.")
@click.option("--out", type=PATH, help="New run directory. Default: runs/PRESET-MODE-seedN.")
@worker_options
@click.option("--force", is_flag=True, help="Train even if `selfplay plan` says it cannot fit.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def train(
    preset: str,
    config_file: Path | None,
    assignments: tuple[str, ...],
    out: Path | None,
    workers: int | None,
    ray: str | None,
    force: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Train a population from a preset into a new run directory."""
    with one_line_errors(out):
        from selfplay.config import cut_by_member, read_config

        data = extended(read_yaml(config_file)) if config_file else read_preset(preset)
        data |= {key: value for key, value in given.items() if value is not None}
        for assignment in assignments:
            override(data, assignment)
        config = read_config(data)
        if workers is not None or ray is not None:
            config = cut_by_member(config)
        elif config.rollout.by_member:
            workers = _usual_workers(config)
        _require_ray(workers, ray)
        home = out or Path("runs") / f"{preset}-{config.mode}-seed{config.seed}"
    with one_line_errors(home):
        from selfplay.planning import refuse_what_cannot_fit
        from selfplay.progress import Progress
        from selfplay.training import train as run_train

        silence_transformers()
        if not force and ray is None:
            refuse_what_cannot_fit(config, workers or 1)
        run_train(config, home, Progress(quiet=quiet), workers=workers, ray=ray)
        click.echo(f"done: {home}; see it with `selfplay report {home} --html report.html`")


@main.command()
@click.argument("run", type=PATH)
@worker_options
@click.option("--quiet", is_flag=True, help="Show no progress.")
def resume(run: Path, workers: int | None, ray: str | None, quiet: bool) -> None:
    """Continue a run from its newest checkpoint, on any number of workers."""
    with one_line_errors(run):
        from selfplay.directory import open_config
        from selfplay.progress import Progress
        from selfplay.training import resume as run_resume

        silence_transformers()
        config = open_config(run)
        if workers is None and ray is None and config.rollout.by_member:
            workers = _usual_workers(config)
        _require_ray(workers, ray)
        by_member = config.learner.micro_batch_members == 1 and config.rollout.by_member
        if not by_member and (ray is not None or (workers or 1) > 1):
            click.echo(
                "this run was started without --workers: several members share its batches, and "
                "on workers its numbers differ in the last bits from those of one process",
                err=True,
            )
        run_resume(run, Progress(quiet=quiet), workers=workers, ray=ray)
        click.echo(f"done: {run}")


def _usual_workers(config: "Config") -> int:
    """Return how many workers a run gets without --workers.

    The built-in model is too small for two threads to help it; it uses cores by workers, where Ray
    is installed.
    """
    from lora_evo.model import choose_device
    from selfplay.population import all_founders

    small = (config.base, config.engine) == ("nano", "hf")
    if not small or find_spec("ray") is None or choose_device(config.device).type != "cpu":
        return 1
    return min(len(os.sched_getaffinity(0)), len(all_founders(config)))


def _require_ray(workers: int | None, ray: str | None) -> None:
    if (ray is not None or workers not in (None, 1)) and find_spec("ray") is None:
        raise SelfplayError(
            "several workers need Ray, which is not installed; type: pip install "
            "'populab-selfplay[ray]', or leave out --workers and --ray"
        )


@main.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option("--html", "page", type=PATH, help="Write one self-contained page.")
@click.option("--json", "as_json", is_flag=True, help="Print the last metrics of each run.")
def report(runs: tuple[Path, ...], page: Path | None, as_json: bool) -> None:
    """Show what runs did: a summary here, and a page that leads with their evaluation."""
    with one_line_errors():
        from selfplay import run_report
        from selfplay.run_record import read_run

        if page is not None:
            run_report.report(runs, page)
            click.echo(f"report: {page}", err=as_json)
        if as_json:
            last = {str(run): msgspec.to_builtins(read_run(run).steps[-1]) for run in runs}
            click.echo(json.dumps(last, indent=1))
        else:
            click.echo("\n\n".join(map(run_report.summary, runs)))


@main.command()
@click.argument("run", type=PATH)
@click.option("--out", required=True, type=PATH, help="JSON Lines file to write.")
@click.option("--all", "every", is_flag=True, help="Write refused proposals, too.")
def tasks(run: Path, out: Path, every: bool) -> None:
    """Write a run's tasks in the form that `code-verifier check` and `metrics` read."""
    with one_line_errors():
        from selfplay.export import export_tasks

        count = export_tasks(run, out, refused=every)
        click.echo(f"{count} tasks: {out}")


@main.command()
@click.argument("run", type=PATH)
@click.argument("member")
@click.option("--out", required=True, type=PATH, help="New directory to write.")
@click.option("--merge", is_flag=True, help="Write base and adapter as one plain model.")
@click.option("--base", help="Path or hub name that the adapter names. Default: the run's.")
def export(run: Path, member: str, out: Path, merge: bool, base: str | None) -> None:
    """Write a member so that PEFT (or, merged, transformers alone) loads it by its path."""
    with one_line_errors():
        from selfplay.export import export_member

        silence_transformers()
        named = export_member(run, member, out, base=base, merge=merge)
        click.echo(f"{'model' if merge else 'adapter'}: {out} (base: {named})")


@main.group()
def nano() -> None:
    """The built-in base model."""


@nano.command("export")
@click.option("--out", required=True, type=PATH, help="New directory to write.")
def nano_export(out: Path) -> None:
    """Write the built-in base model where PEFT, transformers and vLLM load it by its path."""
    with one_line_errors():
        from selfplay.export import export_nano

        export_nano(out)
        click.echo(f"model: {out}")


@main.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def presets(name: str | None, as_json: bool) -> None:
    """List the presets, or print one."""
    with one_line_errors():
        if name is not None:
            data = read_preset(name)
            click.echo(json.dumps(data, indent=1) if as_json else preset_text(name))
            return
        known = {n: preset_text(n).splitlines()[0].lstrip("# ") for n in preset_names()}
        if as_json:
            click.echo(json.dumps(known, indent=1))
        else:
            click.echo("\n".join(f"{n:10} {text}" for n, text in known.items()))
