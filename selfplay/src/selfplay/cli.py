"""The `selfplay` command."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import yaml

from selfplay import __version__
from selfplay.errors import SelfplayError
from selfplay.experiment.commands import compare, experiment
from selfplay.nano.cli import nano
from selfplay.presets import preset_names, preset_text, read_preset
from selfplay.retention.cli import retention

RUN = click.Path(path_type=Path)


@contextmanager
def told_plainly(directory: Path | None = None) -> Iterator[None]:
    """Turn what a user can mend into one line: exit code 2 for usage, 1 for a stopped run."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        _stop(f"stopped{_resume_hint(directory)}", 1)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _stop(f"{error.strerror or error}{where}{_resume_hint(directory)}", 1)
    except ValueError as error:
        if not isinstance(error, SelfplayError) and type(error) is ValueError:
            raise
        if not isinstance(error, SelfplayError) and isinstance(error.__cause__, OSError):
            # A part of ours that says in its own words what the system refused.
            _stop(f"{error}{_resume_hint(directory)}", 1)
        _stop(str(error), 2)


def _resume_hint(directory: Path | None) -> str:
    if directory is None or not (directory / "checkpoints").is_dir():
        return ""
    return f"; nothing is lost: go on with `selfplay resume {directory}`"


def _stop(message: str, code: int) -> None:
    line = " ".join(part.strip() for part in message.splitlines())
    click.echo(f"selfplay: {line}", err=True)
    sys.exit(code)


@click.group()
@click.version_option(__version__)
def main() -> None:
    """PopuLoRA: co-evolve populations of LoRA teachers and students."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


main.add_command(nano)
main.add_command(retention)
main.add_command(experiment)
main.add_command(compare)


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
@click.option("--quiet", is_flag=True, help="No progress display.")
def train(
    preset: str,
    config_file: Path | None,
    assignments: tuple[str, ...],
    out: Path | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Train a population from a preset into a new run directory."""
    with told_plainly(out):
        from selfplay.config import override, read_config

        data = read_yaml(config_file) if config_file else read_preset(preset)
        data |= {key: value for key, value in given.items() if value is not None}
        for assignment in assignments:
            override(data, assignment)
        config = read_config(data)
        home = out or Path("runs") / f"{preset}-{config.mode}-seed{config.seed}"
    with told_plainly(home):
        from selfplay.loop import train as run_train
        from selfplay.progress import Progress

        hush()
        run_train(config, home, Progress(quiet=quiet))
        click.echo(f"done: {home}; see it with `selfplay report {home} --html report.html`")


@main.command()
@click.argument("run", type=RUN)
@click.option("--quiet", is_flag=True, help="No progress display.")
def resume(run: Path, quiet: bool) -> None:
    """Go on with a run from its newest checkpoint."""
    with told_plainly(run):
        from selfplay.loop import resume as run_resume
        from selfplay.progress import Progress

        hush()
        run_resume(run, Progress(quiet=quiet))
        click.echo(f"done: {run}")


@main.command()
@click.argument("runs", nargs=-1, required=True, type=RUN)
@click.option("--html", "page", type=RUN, help="Write one self-contained page.")
@click.option("--json", "as_json", is_flag=True, help="Print the last metrics of each run.")
def report(runs: tuple[Path, ...], page: Path | None, as_json: bool) -> None:
    """Show what runs did: a summary here, and a page with curves, trees and tasks."""
    with told_plainly():
        from selfplay.report import summary_text, write_report
        from selfplay.run_directory import METRICS, open_config, read_rows

        if as_json:
            last = {}
            for run in runs:
                open_config(run)
                rows = list(read_rows(run / METRICS))
                last[str(run)] = rows[-1] if rows else None
            click.echo(json.dumps(last, indent=1))
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
    with told_plainly():
        from selfplay.run_directory import TASKS, open_config, read_rows, write_text

        open_config(run)
        keys = ("id", "step", "teacher", "student", "kind", "program", "input", "output")
        more = ("inputs", "outputs", "message", "visible", "rho", "status")
        rows = [
            {k: row[k] for k in keys + more if row.get(k) not in (None, [], "")}
            for row in read_rows(run / TASKS)
            if (every and row["program"] is not None) or row["status"] == "ok"
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
    with told_plainly():
        from selfplay.export import export_member

        hush()
        named = export_member(run, member, out, base=base, merge=merge)
        click.echo(f"{'model' if merge else 'adapter'}: {out} (base: {named})")


@main.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True)
def presets(name: str | None, as_json: bool) -> None:
    """List the presets, or print one."""
    with told_plainly():
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


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a configuration file; one that is no mapping is refused."""
    try:
        data = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SelfplayError(f"cannot read {path} as YAML: {error}") from error
    if not isinstance(data, dict):
        raise SelfplayError(f"{path} is not a mapping of configuration keys")
    return data


def hush() -> None:
    """Keep the model library from drawing its own bars over ours."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    silent: Callable[[], None] = transformers.utils.logging.disable_progress_bar
    silent()
