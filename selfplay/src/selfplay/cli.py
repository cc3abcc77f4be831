"""The `selfplay` command."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from lora_evo.terminal import Commands
from selfplay import __version__
from selfplay.errors import ConfigError
from selfplay.settings import preset_text, read_preset, shipped
from selfplay.terminal import one_line_errors, program, quiet_libraries, quote, say

PATH = click.Path(path_type=Path)


def _summaries(folder: Literal["presets", "plans"]) -> dict[str, str]:
    """Return the first line of each shipped file: its purpose."""
    return {name: text.splitlines()[0].lstrip("# ") for name, text in shipped(folder).items()}


def _listed(summaries: dict[str, str]) -> str:
    return "\n".join(f"{name:14} {summary}" for name, summary in summaries.items())


SET = click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE",
    help="Change one setting, for example learner.r=16; may be repeated. The config.yaml of a run "
    "lists them.",
)  # fmt: skip
ENGINE = click.option(
    "--engine", type=click.Choice(["hf", "vllm"]), help="Generation engine; vllm is for GPUs."
)
QUIET = click.option("--quiet", is_flag=True, help="Print no progress.")
SEED = click.option("--seed", type=int, help="Random seed; equal seeds give equal results.")
PAGE = click.option(
    "--html", "page", type=PATH, help="Write a page with charts and tables; it works offline."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON.")
BASE_MODEL = click.option(
    "--base",
    help="Base model: a folder or a name on the Hugging Face hub. Selects a preset that suits it.",
)
PRESET = click.option(
    "--preset", metavar="NAME|FILE",
    help=f"Settings to start from: a YAML file, or one of {', '.join(shipped('presets'))} "
    "(`selfplay presets` describes them). Default: nano, or one that suits --base.",
)  # fmt: skip
WORKERS = click.option(
    "--workers", type=click.IntRange(0), is_flag=False, flag_value=0,
    help="Number of Ray processes that share the work; without a number one per GPU, or per core "
    "if there is no GPU. Default: no Ray.",
)  # fmt: skip
RAY = click.option(
    "--ray", metavar="HOST:PORT",
    help="Train on the Ray cluster at this address; auto: the cluster of this machine.",
)  # fmt: skip


class _Commands(Commands):
    """Commands whose errors are one line, where the user can correct them."""

    def invoke(self, ctx: click.Context) -> Any:
        with one_line_errors():
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Train populations of LoRA teachers and students (PopuLoRA).

    A member is a LoRA adapter on one frozen base model: teachers write Python tasks, a sandbox
    verifies them, students solve them, and both learn. To begin, type
    `selfplay train --preset nano`; it takes minutes on a laptop.
    """
    quiet_libraries()


@main.command()
@BASE_MODEL
@PRESET
@click.option("--teachers", type=int, help="Number of members that write tasks.")
@click.option("--students", type=int, help="Number of members that solve tasks.")
@click.option("--steps", type=int, help="Training steps.")
@click.option(
    "--mode", type=click.Choice(["populora", "azr"]),
    help="A population (populora), or one adapter in both roles as in Absolute Zero (azr).",
)  # fmt: skip
@ENGINE
@SEED
@SET
@click.option("--out", type=PATH, help="New directory. Default: runs/PRESET-or-BASE-MODE-seedN.")
@WORKERS
@RAY
@click.option(
    "--force", is_flag=True, help="Train even if `selfplay plan` says that memory is too small."
)
@QUIET
def train(
    base: str | None, preset: str | None, assignments: tuple[str, ...], out: Path | None,
    workers: int | None, ray: str | None, force: bool, quiet: bool, **values: Any,
) -> None:  # fmt: skip
    """Train a population of teachers and students.

    Writes the run to a new directory. `selfplay report` shows it at any time, and `selfplay
    resume` continues it after any interruption.
    """
    from selfplay.machine.preset_choice import configure

    config = configure(base, preset, assignments, quiet, **values)
    name = Path(base).name if base else Path(preset or "nano").stem
    home = out or Path("runs") / f"{name}-{config.mode}-seed{config.seed}"
    with one_line_errors(home):
        from selfplay.machine.plan import refuse_what_cannot_fit
        from selfplay.reports.progress import Progress
        from selfplay.training import train as run_train

        if not force and ray is None and workers in (None, 1):
            refuse_what_cannot_fit(config)
        run_train(config, home, workers=workers, ray=ray, progress=Progress(quiet=quiet))
        _say_done(home)


@main.command()
@click.argument("run", type=PATH)
@WORKERS
@RAY
@QUIET
def resume(run: Path, workers: int | None, ray: str | None, quiet: bool) -> None:
    """Continue a run from its newest undamaged checkpoint.

    RUN is the directory of a run that was stopped. The result is the same as without the
    interruption, on any number of workers.
    """
    with one_line_errors(run):
        from selfplay.files.layout import open_config

        config = open_config(run)
        from selfplay.reports.progress import Progress
        from selfplay.training import resume as run_resume

        if not config.pieces and (ray is not None or workers not in (None, 1)):
            click.echo(
                "this run was started without --workers: from here on its work is cut into pieces, "
                "and its numbers differ in the last bits from those of one process",
                err=True,
            )
        run_resume(run, workers=workers, ray=ray, progress=Progress(quiet=quiet))
        _say_done(run)


def _say_done(home: Path) -> None:
    from selfplay.files.record import read_run
    from selfplay.reports.findings import conclusion

    say(conclusion(read_run(home)) or "not measured on held-out tasks")
    say(f"done: {home}; see it with:")
    click.echo(f"  {program()} report {quote(home)} --html report.html")


@main.command()
@click.option("--data", required=True, type=PATH, help="JSON Lines file of tasks to learn from.")
@click.option("--out", required=True, type=PATH, help="New directory for the adapter.")
@BASE_MODEL
@PRESET
@SET
@click.option("--steps", type=int, default=200, show_default=True, help="Optimiser steps.")
@click.option(
    "--batch-size", type=click.IntRange(1), default=8, show_default=True,
    help="Examples in each step.",
)  # fmt: skip
@click.option(
    "--learning-rate", type=click.FloatRange(0, min_open=True), default=2e-4, show_default=True,
    help="Learning rate of AdamW; rises over a twentieth of the steps, then falls to a tenth.",
)  # fmt: skip
@click.option(
    "--held-out", type=click.IntRange(0), show_default="24, or a fifth of all if that is fewer",
    help="Number of programs held out to measure the loss.",
)  # fmt: skip
@SEED
def sft(
    data: Path, out: Path, base: str | None, preset: str | None, assignments: tuple[str, ...],
    steps: int, seed: int | None, **options: Any,
) -> None:  # fmt: skip
    """Train an adapter that all members start from.

    Supervised fine-tuning on known tasks teaches the adapter how tasks and answers are written.
    Rows of --data are {"snippet", "input", "output"} as in Absolute Zero, or tasks from `selfplay
    tasks`. Give the --base, --preset and --set of the later run, and start that run with --set
    warm_start=OUT. To resume after an interruption, type the same command again.
    """
    from selfplay.machine.preset_choice import configure
    from selfplay.sft import fine_tune

    if any(assignment.partition("=")[0].strip() == "steps" for assignment in assignments):
        raise ConfigError("--set steps is for the later run; type --steps for the steps of sft")
    config = configure(base, preset, assignments, False, steps=steps, seed=seed)
    losses = [row["held_out"] for row in fine_tune(config, data, out, click.echo, **options)]
    gain = f", held-out loss {losses[0]:.3f} to {losses[-1]:.3f}" if losses else ""
    click.echo(f"adapter: {out}{gain}; start a run from it with --set warm_start={out}")


@main.command()
@click.argument("preset", required=False, metavar="[NAME|FILE|RUN]")
@BASE_MODEL
@SET
@click.option(
    "--gpu",
    help="H200, H100, A100-80GB, A100-40GB, L40S, L4, RTX4090, RTX3090, or its memory in GiB, such "
    "as 48. Default: the device of this machine.",
)
@click.option("--workers", type=click.IntRange(1), help="Workers, with one GPU each.")
@JSON
def plan(
    preset: str | None, base: str | None, assignments: tuple[str, ...], gpu: str | None,
    workers: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Estimate the memory, hours and disk space of a run.

    Takes a preset (default: nano, or one that suits --base), a YAML file of settings, or a RUN
    directory, and prints memory by part, whether it fits, and for known GPUs the hours of each
    phase. Loads no weights.
    """
    from selfplay.machine import cost
    from selfplay.machine.plan import plan_run, to_text
    from selfplay.machine.preset_choice import configure

    if preset is not None and Path(preset).is_dir():
        preset = str(Path(preset) / "config.yaml")
    config = configure(base, preset, assignments, as_json)
    planned = plan_run(config, gpu, workers)
    hours = cost.planned_hours(config, planned)
    if as_json:
        click.echo(json.dumps(asdict(planned) | {"hours": hours}, indent=1))
        return
    click.echo(to_text(planned))
    if hours:
        title = f"{config.steps} steps on {planned.machine.name}"
        click.echo(f"\n{cost.to_text(hours, title, cost.USUAL, cost.HOW)}")


@main.command()
@click.option("--base", required=True, help="nano, a folder, or a model's name on the hub.")
@PRESET
@SET
@JSON
def doctor(base: str, preset: str | None, assignments: tuple[str, ...], as_json: bool) -> None:
    """Train a base model for two steps on this machine, as a test.

    Checks GPU, vLLM, memory and disk, then loads the base and trains two steps at the preset's
    sizes. Prints seconds and memory of each phase, and whether sampler and learner give equal
    probabilities. If a check fails, the exit code is 1 and the output says what to type.
    """
    from selfplay.doctor import examine, to_text
    from selfplay.machine.preset_choice import configure

    config = configure(base, preset, assignments, as_json)
    diagnosis = examine(config, lambda phase: click.echo(f"{phase} ...", err=True))
    click.echo(json.dumps(asdict(diagnosis), indent=1) if as_json else to_text(diagnosis))
    if not all(check.passed for check in diagnosis.checks):
        sys.exit(1)


@main.command()
@click.argument("run", type=PATH)
@PAGE
@click.option("--json", "as_json", is_flag=True, help="Print the metrics of the last step as JSON.")
def report(run: Path, page: Path | None, as_json: bool) -> None:
    """Report on a run, in text or on a page.

    RUN is the directory of a run, finished or not. Prints a summary, or writes a page with --html.
    Both begin with the evaluation on held-out tasks, which no member was trained on. `selfplay
    compare` shows several runs.
    """
    from selfplay.files.record import read_run
    from selfplay.reports import run_page

    if page is not None:
        run_page.report(run, page)
        click.echo(f"open {page}", err=as_json)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(read_run(run).steps[-1]), indent=1))
    elif page is None:
        click.echo(run_page.summary(run))


_EXPERIMENT = f"""Make all runs of an experiment.

A plan has arms (settings to compare) and seeds; every arm is run with every seed. PLAN is a YAML
file or one of the shipped plans below. To resume after an interruption, type the same
command again. `selfplay compare` compares the arms.

\b
{_listed(_summaries("plans"))}
"""


@main.command(help=_EXPERIMENT)
@click.argument("plan")
@click.option(
    "--out", required=True, type=PATH,
    help="Directory for all runs. A plan begun there is continued.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1), default=2, show_default=True,
    help="Runs made at the same time.",
)  # fmt: skip
@SET
def experiment(plan: str, out: Path, workers: int, assignments: tuple[str, ...]) -> None:
    from selfplay.experiments.experiment import PLAN, open_plan, run_experiment

    def resume_command() -> str:
        source = quote(out / PLAN) if (out / PLAN).is_file() else plan
        return f"resume with `{program()} experiment {source} --out {quote(out)}`"

    try:
        failures = run_experiment(open_plan(plan, assignments), out, workers=workers)
    except KeyboardInterrupt:
        click.echo(f"error: interrupted; nothing is lost: {resume_command()}", err=True)
        sys.exit(130)
    if failures:
        failures.append(f"{len(failures)} runs failed; after correcting them {resume_command()}")
        click.echo("\n".join(f"error: {line}" for line in failures), err=True)
        sys.exit(1)
    say(f"done: {out}; see it with:")
    click.echo(f"  {program()} compare {quote(out)} --html page.html")


@main.command()
@click.argument("places", nargs=-1, required=True, metavar="DIR|[NAME=]RUN...")
@click.option(
    "--with", "kept", type=PATH,
    help="Compare every arm with kept runs, too: a file that --keep wrote, or a folder of such.",
)  # fmt: skip
@click.option("--keep", type=PATH, help="JSON Lines file to write: a row for each finished run.")
@PAGE
@JSON
def compare(
    places: tuple[str, ...], kept: Path | None, keep: Path | None, page: Path | None, as_json: bool
) -> None:
    """Compare runs with each other, seed by seed.

    DIR is the directory of an experiment. Or name RUN directories: X-seed1 and X-seed2, which
    differ in the seed only, are two seeds of one arm, X; NAME=RUN puts a run into arm NAME. Prints
    means over seeds and differences paired by seed, with 95 % intervals, and the members whose
    skill fell between two evaluations.
    """
    from lora_evo.files import check_output
    from selfplay.experiments import comparison

    for output in filter(None, (page, keep)):
        check_output(output)
    compared = comparison.compare(places, kept)
    if keep is not None:
        click.echo(f"{comparison.keep_runs(compared, keep)} runs kept", err=True)
    if page is not None:
        comparison.write_comparison(compared, page)
        click.echo(f"page: {page}", err=True)
    click.echo(comparison.to_json(compared) if as_json else comparison.to_text(compared))


@main.command()
@click.argument("run", type=PATH)
@click.option("--out", required=True, type=PATH, help="JSON Lines file to write.")
@click.option(
    "--format", "form", type=click.Choice(["ours", "azr", "cruxeval", "trl", "verl"]),
    default="ours", show_default=True,
    help="ours: rows for `code-verifier`, `sft` and rollout.tasks; others: rows for that tool.",
)  # fmt: skip
def tasks(run: Path, out: Path, form: str) -> None:
    """Write the tasks of a run to a file.

    RUN is the directory of a run. Writes the teachers' tasks that the sandbox accepted.
    """
    from selfplay.files.export import export_tasks

    click.echo(export_tasks(run, out, form))


@main.command("export-taskset")
@click.argument("source", type=PATH, metavar="RUN|FILE")
@click.argument("out", type=PATH, metavar="DIR")
def taskset(source: Path, out: Path) -> None:
    """Write tasks as a taskset of `verifiers`.

    Takes the accepted tasks of a RUN, or those of a FILE from `selfplay tasks`. DIR is a new
    directory for an installable package, whose name is the taskset's id; its reward is our sandbox.
    """
    from selfplay.files.export import export_taskset

    click.echo(export_taskset(source, out))


@main.command()
@click.argument("run", type=PATH)
@click.argument("member")
@click.option("--out", required=True, type=PATH, help="New directory to write to.")
@click.option("--merge", is_flag=True, help="Merge base and adapter into one plain model.")
@click.option(
    "--base-name", help="Base model's name in the adapter's configuration. Default: the run's."
)
def export(run: Path, member: str, out: Path, merge: bool, base_name: str | None) -> None:
    """Write a member as a PEFT adapter or a plain model.

    RUN is the directory of a run, MEMBER a name in it such as s0 (a student) or t0 (a teacher).
    PEFT loads the adapter by its path; with --merge, transformers loads the model without PEFT.
    """
    from selfplay.files.export import export_member

    named = export_member(run, member, out, merge=merge, base_name=base_name)
    click.echo(f"{'model' if merge else 'adapter'}: {out} (base: {named})")


@main.group()
def nano() -> None:
    """Write the built-in base model to a folder."""


@nano.command("export")
@click.option("--out", required=True, type=PATH, help="New directory to write to.")
def nano_export(out: Path) -> None:
    """Write the built-in base model to a folder.

    PEFT, transformers and vLLM load it from there by its path.
    """
    from selfplay.files.export import export_nano

    export_nano(out)
    click.echo(f"model: {out}")


@main.command()
@click.argument("name", required=False)
@JSON
def presets(name: str | None, as_json: bool) -> None:
    """List the presets, or print one as YAML.

    A preset is a set of settings to start from. Save the output for NAME to a file, change
    it, and give it to `selfplay train --preset FILE`.
    """
    shown = _summaries("presets") if name is None else read_preset(name)
    if as_json:
        click.echo(json.dumps(shown, indent=1))
    else:
        click.echo(_listed(shown) if name is None else preset_text(name))
