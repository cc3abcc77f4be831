"""The `selfplay` command."""

import json
import os
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from selfplay import __version__
from selfplay.errors import SelfplayError, one_line_errors, pip_install, silence_transformers
from selfplay.settings import preset_names, preset_text, read_preset

if TYPE_CHECKING:  # torch comes with it, and a report does without
    from selfplay.config import Config

PATH = click.Path(path_type=Path)
SET = click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Set any key.")
ENGINE = click.option("--engine", type=click.Choice(["hf", "vllm"]), help="What samples.")
QUIET = click.option("--quiet", is_flag=True, help="Show no progress.")
SEED = click.option("--seed", type=int, help="Random seed.")
PAGE = click.option("--html", "page", type=PATH, help="Write one self-contained page.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON.")
BASE = click.option(
    "--base", help="Your own model, a folder or a hub's name; what suits it is chosen and said."
)
PRESET = click.option(
    "--preset", metavar="NAME|FILE",
    help="Preset to start from, or a YAML file. Default: nano, or as suits --base.",
    shell_complete=lambda *given: [name for name in preset_names() if name.startswith(given[-1])],
)  # fmt: skip


WORKERS = click.option(
    "--workers",
    type=click.IntRange(1),
    help="Processes that members are spread over. Default: 1; for nano all cores, with Ray.",
)
RAY = click.option(
    "--ray", metavar="HOST:PORT", help="Address of a Ray cluster to train on, or auto."
)


class Commands(click.Group):
    """Commands whose errors are one line, where a user can mend them."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was typed."""
        with one_line_errors():
            return super().invoke(ctx)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """PopuLoRA: co-evolve populations of LoRA teachers and students."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _configured(
    base: str | None, preset: str | None, assignments: tuple[str, ...], quiet: bool, **given: Any
) -> "Config":
    """Return the configuration of a command's options; for a base, say what was chosen."""
    from selfplay.config import load_preset

    if base is None:
        return load_preset(preset or "nano", *assignments, **given)
    from selfplay.own_model import config_for

    silence_transformers()
    config, chosen = config_for(base, *assignments, preset=preset, **given)
    if not quiet:
        click.echo(chosen, err=True)
    return config


@main.command()
@BASE
@PRESET
@click.option("--teachers", type=int, help="Members that propose tasks.")
@click.option("--students", type=int, help="Members that solve tasks.")
@click.option("--steps", type=int, help="Steps of the run.")
@click.option(
    "--mode", type=click.Choice(["populora", "azr"]), help="azr: one adapter in both roles."
)
@ENGINE
@SEED
@SET
@click.option("--out", type=PATH, help="New run directory. Default: runs/PRESET-MODE-seedN.")
@WORKERS
@RAY
@click.option("--force", is_flag=True, help="Train even if `selfplay plan` says it cannot fit.")
@QUIET
def train(
    base: str | None,
    preset: str | None,
    assignments: tuple[str, ...],
    out: Path | None,
    workers: int | None,
    ray: str | None,
    force: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Train a population into a new run directory."""
    config = _configured(base, preset, assignments, quiet, **given)
    workers = _workers(config, workers, ray)
    name = Path(base).name if base else Path(preset or "nano").stem
    home = out or Path("runs") / f"{name}-{config.mode}-seed{config.seed}"
    with one_line_errors(home):
        from selfplay.planning import refuse_what_cannot_fit
        from selfplay.progress import Progress
        from selfplay.training import train as run_train

        silence_transformers()
        if not force and ray is None:
            refuse_what_cannot_fit(config, workers or 1)
        run_train(config, home, workers=workers, ray=ray, progress=Progress(quiet=quiet))
        _say_done(home)


@main.command()
@click.argument("run", type=PATH)
@WORKERS
@RAY
@QUIET
def resume(run: Path, workers: int | None, ray: str | None, quiet: bool) -> None:
    """Continue a run from its newest checkpoint, on any number of workers."""
    with one_line_errors(run):
        from selfplay.directory import open_config
        from selfplay.progress import Progress
        from selfplay.training import resume as run_resume

        silence_transformers()
        config = open_config(run)
        workers = _workers(config, workers, ray)
        by_member = config.learner.micro_batch_members == 1 and config.rollout.by_member
        if not by_member and (ray is not None or (workers or 1) > 1):
            click.echo(
                "this run was started without --workers: several members share its batches, and "
                "on workers its numbers differ in the last bits from those of one process",
                err=True,
            )
        run_resume(run, workers=workers, ray=ray, progress=Progress(quiet=quiet))
        _say_done(run)


def _say_done(home: Path) -> None:
    """End a transcript with the held-out tasks before and after, and how to see the rest."""
    from selfplay.run_record import conclusion, read_run

    click.echo(conclusion(read_run(home)) or "not measured on held-out tasks")
    click.echo(f"done: {home}; see it with `selfplay report {home} --html report.html`")


@main.command()
@click.argument("run", type=PATH)
def verify(run: Path) -> None:
    """Compare a run's files with the hashes in its checkpoints; a line for each damaged one."""
    from selfplay.checkpoint import newest_checkpoint, verify_run

    found = verify_run(run)
    for damage in found:
        click.echo(damage)
    if found:
        sys.exit(1)
    checkpoint = newest_checkpoint(run)
    there = "there is no checkpoint yet" if checkpoint is None else f"as {checkpoint} says"
    click.echo(f"no file of {run} is damaged; {there}")


def _workers(config: "Config", workers: int | None, ray: str | None) -> int | None:
    """Return how many workers a run gets; SelfplayError where they need Ray, which is not there.

    The built-in models are too small for two threads to help them: without --workers they use cores
    by workers, where Ray is installed.
    """
    from lora_evo.model import choose_device
    from selfplay.population import all_founders

    has_ray = find_spec("ray") is not None
    if workers is None and ray is None and config.rollout.by_member:
        small = config.base in ("nano", "nano-niches") and config.engine == "hf"
        cores = small and has_ray and choose_device(config.device).type == "cpu"
        workers = min(len(os.sched_getaffinity(0)), len(all_founders(config))) if cores else 1
    if not has_ray and (ray is not None or workers not in (None, 1)):
        raise SelfplayError(
            "several workers need Ray, which is not installed; type: "
            f"{pip_install('ray')}, or leave out --workers and --ray"
        )
    return workers


@main.command()
@click.option("--data", required=True, type=PATH, help="Tasks to learn from, as JSON Lines.")
@click.option("--out", required=True, type=PATH, help="New folder of the adapter.")
@BASE
@PRESET
@SET
@click.option("--steps", type=int, default=200, show_default=True, help="Steps.")
@click.option(
    "--batch-size", type=click.IntRange(1), default=8, show_default=True, help="Examples a step."
)
@click.option(
    "--learning-rate", type=click.FloatRange(0, min_open=True), default=2e-4, show_default=True,
    help="Of AdamW, at its highest.",
)  # fmt: skip
@click.option(
    "--held-out", type=click.IntRange(0), default=24, show_default=True,
    help="Programs whose tasks are only measured.",
)  # fmt: skip
@SEED
def sft(
    data: Path, out: Path, base: str | None, preset: str | None, assignments: tuple[str, ...],
    steps: int, seed: int | None, **given: Any,
) -> None:  # fmt: skip
    """Teach an adapter the form of tasks and answers, by supervised steps on known tasks.

    DATA holds {"snippet", "input", "output"} as Absolute Zero's seeds, or tasks as
    `selfplay tasks` writes them; base, preset and --set are those of the run to come, which starts
    its members from the result with --set warm_start=OUT. Run the same command again to resume
    after any interruption.
    """
    from selfplay.sft import fine_tune

    silence_transformers()
    config = _configured(base, preset, assignments, False, steps=steps, seed=seed)
    losses = [row["held_out"] for row in fine_tune(config, data, out, click.echo, **given)]
    gain = f", held-out loss {losses[0]:.3f} to {losses[-1]:.3f}" if losses else ""
    click.echo(f"adapter: {out}{gain}; start a run from it with --set warm_start={out}")


@main.command()
@click.argument("preset", default="nano", metavar="[NAME|FILE|RUN]")
@SET
@click.option("--gpu", help="A GPU such as H100, or its GiB. Default: the device found here.")
@click.option("--workers", type=click.IntRange(1), default=1, help="Plan for one of so many.")
@click.option(
    "--fill", type=click.FloatRange(0, 1, min_open=True),
    help="Share of its limit that a completion has. Default: what a RUN had, else .15 to .5.",
)  # fmt: skip
@JSON
def plan(
    preset: str, assignments: tuple[str, ...], gpu: str | None, workers: int, fill: float | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Say what a run takes in memory, time and disk, whether it fits, and what to change if not."""
    from selfplay import planning
    from selfplay.config import load_preset

    run = Path(preset)
    if not run.is_dir():
        config = load_preset(preset, *assignments)
    else:
        config = load_preset(str(run / "config.yaml"), *assignments)
        fill = fill or planning.measured_fill(run, config)
    ends = (fill, fill) if fill else planning.FILL
    found, changes = planning.plan_run(config, gpu, workers, ends)
    if as_json:
        click.echo(json.dumps(asdict(found) | {"changes": changes}, indent=1))
    else:
        click.echo(planning.to_text(found, changes, config.steps))


@main.command()
@click.option("--base", required=True, help="Base model: nano, a directory, or a hub's name.")
@click.option(
    "--preset", metavar="NAME|FILE",
    help="Sizes to try. Default: as suits the base.",
)  # fmt: skip
@SET
@JSON
def doctor(base: str, preset: str | None, assignments: tuple[str, ...], as_json: bool) -> None:
    """Try a base on this machine for ten minutes: what it takes, what works, what to change."""
    from selfplay.doctor import examine, to_text

    silence_transformers()
    config = _configured(base, preset, assignments, as_json)
    found = examine(config, lambda phase: click.echo(f"{phase} ...", err=True))
    click.echo(json.dumps(asdict(found), indent=1) if as_json else to_text(found))
    if not all(check.passed for check in found.checks):
        sys.exit(1)


@main.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@PAGE
@click.option("--json", "as_json", is_flag=True, help="Print the last metrics of each run.")
def report(runs: tuple[Path, ...], page: Path | None, as_json: bool) -> None:
    """Show what runs did: a summary here, and a page that leads with their evaluation."""
    from selfplay import run_report
    from selfplay.run_record import read_run

    if page is not None:
        run_report.report(runs, page)
    if as_json:
        last = {str(run): msgspec.to_builtins(read_run(run).steps[-1]) for run in runs}
        click.echo(json.dumps(last, indent=1))
    elif page is None:
        click.echo("\n\n".join(map(run_report.summary, runs)))
    if page is not None:
        click.echo(f"open {page}", err=as_json)


@main.command()
@click.argument("plan")
@click.option("--out", required=True, type=PATH, help="Directory; an existing one is resumed.")
@click.option("--workers", default=2, show_default=True, help="Runs made at the same time.")
@SET
def experiment(plan: str, out: Path, workers: int, assignments: tuple[str, ...]) -> None:
    """Make all runs of PLAN, a YAML file or the name of a shipped plan; resume what is begun."""
    from selfplay.experiment import PLAN, open_plan, run_experiment

    again = f"resume with `selfplay experiment {out / PLAN} --out {out}`"
    try:
        chosen = open_plan(plan, assignments)
        failed = run_experiment(chosen, out, workers=workers)
    except KeyboardInterrupt:
        click.echo(f"error: interrupted; nothing is lost: {again}", err=True)
        sys.exit(130)
    for line in failed:
        click.echo(f"error: {line}", err=True)
    if failed:
        click.echo(f"error: {len(failed)} runs failed; after mending them {again}", err=True)
        sys.exit(1)
    click.echo(f"done: {out}; see it with `selfplay compare {out} --html page.html`")


@main.command()
@click.argument("places", nargs=-1, required=True, type=PATH, metavar="DIR|RUN...")
@PAGE
@JSON
def compare(places: tuple[Path, ...], page: Path | None, as_json: bool) -> None:
    """Compare the arms of an experiment's directory, or of any runs.

    Runs whose settings differ in nothing but the seed are one arm.
    """
    from lora_evo import check_output
    from selfplay import comparison

    if page is not None:
        check_output(page)
    found = comparison.compare(places)
    if page is not None:
        comparison.write_comparison(found, page)
        click.echo(f"page: {page}", err=True)
    click.echo(comparison.to_json(found) if as_json else comparison.to_text(found))


@main.command()
@click.argument("run", type=PATH)
@click.option("--out", required=True, type=PATH, help="JSON Lines file to write.")
@click.option(
    "--format", "form", type=click.Choice(["ours", "azr", "cruxeval", "trl", "verl"]),
    default="ours", show_default=True, help="Whose reader it is for.",
)  # fmt: skip
def tasks(run: Path, out: Path, form: str) -> None:
    """Write a run's tasks: as `code-verifier check` and `metrics` read them, or others."""
    from selfplay.export import export_tasks

    click.echo(export_tasks(run, out, form))


@main.command()
@click.argument("run", type=PATH)
@click.argument("member")
@click.option("--out", required=True, type=PATH, help="New directory to write.")
@click.option("--merge", is_flag=True, help="Write base and adapter as one plain model.")
def export(run: Path, member: str, out: Path, merge: bool) -> None:
    """Write a member so that PEFT (or, merged, transformers alone) loads it by its path."""
    from selfplay.export import export_member

    silence_transformers()
    named = export_member(run, member, out, merge=merge)
    click.echo(f"{'model' if merge else 'adapter'}: {out} (base: {named})")


@main.group()
def nano() -> None:
    """The built-in base model."""


@nano.command("export")
@click.option("--out", required=True, type=PATH, help="New directory to write.")
def nano_export(out: Path) -> None:
    """Write the built-in base model where PEFT, transformers and vLLM load it by its path."""
    from selfplay.export import export_nano

    export_nano(out)
    click.echo(f"model: {out}")


@main.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def presets(name: str | None, as_json: bool) -> None:
    """List the presets, or print one."""
    if name is not None:
        data = read_preset(name)
        click.echo(json.dumps(data, indent=1) if as_json else preset_text(name))
        return
    known = {n: preset_text(n).splitlines()[0].lstrip("# ") for n in preset_names()}
    if as_json:
        click.echo(json.dumps(known, indent=1))
    else:
        click.echo("\n".join(f"{n:10} {text}" for n, text in known.items()))
