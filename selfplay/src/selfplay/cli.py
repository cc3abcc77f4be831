"""The `selfplay` command."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import click
import msgspec

from evals.atomic import write_text
from selfplay import __version__
from selfplay.commands.experiment import compare, experiment
from selfplay.commands.nano import nano
from selfplay.commands.plan import plan
from selfplay.commands.retention import retention
from selfplay.commands.warmup import warmup
from selfplay.commands.workers import parts_opener, usual_workers, warn_of_rounding, worker_options
from selfplay.config.preset import extended, preset_names, preset_text, read_preset
from selfplay.console import one_line_errors, read_yaml, silence_transformers

RUN = click.Path(path_type=Path)


@click.group()
@click.version_option(__version__)
def main() -> None:
    """PopuLoRA: co-evolve populations of LoRA teachers and students."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


main.add_command(nano)
main.add_command(retention)
main.add_command(experiment)
main.add_command(compare)
main.add_command(plan)
main.add_command(warmup)


@main.command()
@click.option("--preset", default="nano", show_default=True, help="See `selfplay presets`.")
@click.option("--config", "config_file", type=RUN, help="A YAML file instead of a preset.")
@click.option("--teachers", type=int, help="Members that propose tasks.")
@click.option("--students", type=int, help="Members that solve tasks.")
@click.option("--steps", type=int, help="Steps of the run.")
@click.option("--mode", help="populora, or azr: one adapter in both roles.")
@click.option("--engine", help="hf or vllm.")
@click.option("--seed", type=int, help="Seed of every random choice.")
@click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Any other key.")
@click.option("--out", type=RUN, help="Run directory, new. Default: runs/PRESET-MODE-seedN.")
@worker_options
@click.option("--force", is_flag=True, help="Try even what `selfplay plan` says cannot fit.")
@click.option("--quiet", is_flag=True, help="No progress display.")
def train(
    preset: str,
    config_file: Path | None,
    assignments: tuple[str, ...],
    out: Path | None,
    workers: int | None,
    address: str | None,
    force: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Train a population from a preset into a new run directory."""
    with one_line_errors(out):
        from selfplay.config.run_config import cut_by_member, override, read_config

        data = extended(read_yaml(config_file)) if config_file else read_preset(preset)
        data |= {key: value for key, value in given.items() if value is not None}
        for assignment in assignments:
            override(data, assignment)
        config = read_config(data)
        if workers is not None or address is not None:
            config = cut_by_member(config)
        elif config.rollout.by_member:
            workers = usual_workers(config)
        parts = parts_opener(workers, address)
        home = out or Path("runs") / f"{preset}-{config.mode}-seed{config.seed}"
    with one_line_errors(home):
        from selfplay.planning.check import refuse_what_cannot_fit
        from selfplay.step.loop import train as run_train
        from selfplay.step.progress import Progress

        silence_transformers()
        if not force and address is None:
            refuse_what_cannot_fit(config, workers or 1)
        run_train(config, home, Progress(quiet=quiet), parts)
        click.echo(f"done: {home}; see it with `selfplay report {home} --html report.html`")


@main.command()
@click.argument("run", type=RUN)
@worker_options
@click.option("--quiet", is_flag=True, help="No progress display.")
def resume(run: Path, workers: int | None, address: str | None, quiet: bool) -> None:
    """Go on with a run from its newest checkpoint, on any number of workers."""
    with one_line_errors(run):
        from selfplay.run.directory import open_config
        from selfplay.step.loop import resume as run_resume
        from selfplay.step.progress import Progress

        silence_transformers()
        config = open_config(run)
        if workers is None and address is None and config.rollout.by_member:
            workers = usual_workers(config)
        warn_of_rounding(config, workers, address)
        run_resume(run, Progress(quiet=quiet), parts_opener(workers, address))
        click.echo(f"done: {run}")


@main.command()
@click.argument("runs", nargs=-1, required=True, type=RUN)
@click.option("--html", "page", type=RUN, help="Write one self-contained page.")
@click.option(
    "--save",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write every chart into this folder, as SVG and PNG.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the last metrics of each run.")
def report(runs: tuple[Path, ...], page: Path | None, folder: Path | None, as_json: bool) -> None:
    """Show what runs did: a summary here, and a page with curves, trees and tasks."""
    with one_line_errors():
        from selfplay.report.reading.run_data import read_run
        from selfplay.report.summary import summary_text

        if as_json:
            last = {str(run): msgspec.to_builtins(read_run(run).steps[-1]) for run in runs}
            click.echo(json.dumps(last, indent=1))
        if page is not None or folder is not None:
            from selfplay.report.page import save_report_charts, write_report

        if folder is not None:
            save_report_charts(runs, folder)
            click.echo(f"charts: {folder}", err=as_json)
        if page is not None:
            write_report(runs, page)
            click.echo(f"report: {page}", err=as_json)
        if not as_json:
            for run in runs:
                click.echo(summary_text(run))


@main.command()
@click.argument("run", type=RUN)
@click.option("--out", required=True, type=RUN, help="Tasks as JSON Lines.")
@click.option("--all", "every", is_flag=True, help="Refused proposals too.")
def tasks(run: Path, out: Path, every: bool) -> None:
    """Write a run's tasks in the form that `code-verifier check` and `metrics` read."""
    with one_line_errors():
        from selfplay.records.row_file import read_rows
        from selfplay.records.task_row import TaskRow
        from selfplay.run.directory import TASKS, open_config

        open_config(run)
        keys = ("id", "step", "teacher", "student", "kind", "program", "input", "output")
        more = ("inputs", "outputs", "message", "visible", "rho", "status")
        rows = [
            {k: v for k in keys + more if (v := getattr(row, k)) not in (None, (), "")}
            for row in read_rows(run / TASKS, TaskRow)
            if (every and row.program is not None) or row.accepted
        ]
        write_text(out, "".join(json.dumps(row) + "\n" for row in rows))
        click.echo(f"{len(rows)} tasks: {out}")


@main.command()
@click.argument("run", type=RUN)
@click.argument("member")
@click.option("--out", required=True, type=RUN, help="A new directory.")
@click.option("--merge", is_flag=True, help="Write base and adapter as one plain model.")
@click.option("--base", help="Path or hub name that the adapter names; default: the run's.")
def export(run: Path, member: str, out: Path, merge: bool, base: str | None) -> None:
    """Write a member so that PEFT (or, merged, transformers alone) loads it by its path."""
    with one_line_errors():
        from selfplay.export import export_member

        silence_transformers()
        named = export_member(run, member, out, base=base, merge=merge)
        click.echo(f"{'model' if merge else 'adapter'}: {out} (base: {named})")


@main.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True)
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
            width = shutil.get_terminal_size().columns
            for n, text in known.items():
                click.echo(f"{n:10} {text}"[:width])
