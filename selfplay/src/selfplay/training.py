"""Runs: started in a new directory, resumed from the newest checkpoint, trained to the end."""

import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import click

from league import League
from lora_evo import Adapter, EngineStopped, LoraEvoError, load_adapter, read_lineage, save_adapter
from lora_evo.files import write_text
from lora_evo.model import BaseModel, resolve, same_base
from selfplay import checkpoint as checkpoints
from selfplay import seeds
from selfplay.config import Config, config_text, for_workers
from selfplay.errors import ConfigError
from selfplay.evaluate import evaluate_members
from selfplay.extensions import open_extensions, try_operators, with_names
from selfplay.files import layout as files
from selfplay.files.rows import GIVEN, EvalRow, StepRow, append_rows, read_rows
from selfplay.files.trackers import Trackers, measured_metrics, require_trackers, step_metrics
from selfplay.machine.devices import refuse_spread_base
from selfplay.members.population import Members, open_population
from selfplay.members.remote import RemotePopulation, open_workers
from selfplay.reports.progress import Progress
from selfplay.run import Extensions, Run
from selfplay.sampling.judge import open_sandbox, open_tasksets
from selfplay.sampling.prompts import require_faithful, template_of
from selfplay.step import train_step
from selfplay.tasks.held_out import guard_of, held_out_tasks
from selfplay.tasks.template import Template


def train(
    config: Config,
    out: str | PathLike[str],
    *,
    extensions: Extensions | None = None,
    workers: int | None = None,
    ray: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Start a run in a new directory and train it to the end.

    Parameters as in `new_run`.

    Example:

        >>> train(load_preset("nano", steps=2, seed=1), "runs/mine")
    """
    _train_to_end(partial(new_run, config), out, extensions, workers, ray, progress)


def resume(
    out: str | PathLike[str],
    *,
    extensions: Extensions | None = None,
    workers: int | None = None,
    ray: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Continue a run from its newest checkpoint, on any number of workers.

    Parameters as in `open_run`.

    Example:

        >>> resume("runs/mine")
    """
    _train_to_end(open_run, out, extensions, workers, ray, progress)


def _train_to_end(
    opening: Callable[..., AbstractContextManager[Run]], out: str | PathLike[str], *arguments: Any
) -> None:
    """Train a run to the end; if a worker or an engine dies, go back to the last checkpoint.

    arguments: of `opening`, and of `open_run` after a death. Raises EngineStopped after two deaths
    without a checkpoint between them.
    """
    options = dict(zip(("extensions", "workers", "ray", "progress"), arguments, strict=True))
    last: int | None = -1
    while True:
        try:
            with opening(out, **options) as run:
                _train_steps(run)
            return
        except EngineStopped as error:
            newest = max(checkpoints.by_step(Path(out)), default=None)
            if newest == last:
                raise EngineStopped(f"{error}; twice since the last checkpoint") from error
            place = "its start" if newest is None else f"its checkpoint of step {newest}"
            click.echo(f"{error}; the run goes back to {place}", err=True)
        opening, last = partial(open_run, fewer=True), newest
        gc.collect()  # frees the run's memory before it is opened again


def _train_steps(run: Run) -> None:
    config = run.config
    with closing(Trackers(config, run.directory, run.step)) as trackers:
        if run.step == 0 and config.report_to:
            rows = list(read_rows(run.directory / files.EVALS, EvalRow))
            trackers.log(measured_metrics(rows), 0)
        while run.step < config.steps and not run.ended:
            row = train_step(run)
            trackers.log(step_metrics(row, config), row.step)


@contextmanager
def new_run(
    config: Config,
    out: str | PathLike[str],
    *,
    extensions: Extensions | None = None,
    workers: int | None = None,
    ray: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Run]:
    """Start a run in a new directory; within the block it is open, before its first step.

    extensions: rewards, operators, task kinds and callbacks of your own. workers: Ray processes
    that share the work, 0 for as many as possible. ray: address of a Ray cluster. Without both,
    all work is in this process. progress: terminal output; none by default. Raises ConfigError for
    settings or extensions that cannot be used, SandboxUnavailable where no program can be judged.
    """
    directory, extensions = Path(out), extensions or Extensions()
    config = with_names(config, extensions)
    if workers is not None or ray is not None:
        config = for_workers(config)
    extensions, template = _check(config, extensions)
    seeds.require_seeds(config)
    starting_adapter(config)  # refused here, not after minutes of opening the base
    members = _members(config, template, workers, ray)
    files.create(directory, config)
    with (
        closing(files.lock(directory)),
        files.removed_unless_begun(directory),
        _open(config, directory, extensions, progress, members) as run,
    ):
        _begin(run)
        yield run


@contextmanager
def open_run(
    out: str | PathLike[str],
    *,
    extensions: Extensions | None = None,
    workers: int | None = None,
    ray: str | None = None,
    progress: Progress | None = None,
    fewer: bool = False,
) -> Iterator[Run]:
    """Open a run at its newest checkpoint, or at its start if it has none.

    Pass a reward, an operator or a task kind again if no import finds it, such as a script's own
    function: `Extensions(teacher_reward=half_solved)`. Callbacks are not recorded. The number of
    workers may differ; with several, a run with `pieces` 0 is cut into pieces from here on. The
    settings that `config.FREE` marks may be changed. fewer: accept fewer than `workers` if not all
    are free, as after the loss of a machine. Other parameters as in `new_run`. Raises ConfigError
    for a missing extension, and RunDirectoryError for other changed settings.
    """
    directory = Path(out)
    config = files.open_config(directory)
    with closing(files.lock(directory)):
        checkpoint = checkpoints.newest_checkpoint(directory)
        if cut := not config.pieces and (ray is not None or workers not in (None, 1)):
            config = for_workers(config)
        changes = checkpoints.find_changes(directory, checkpoint, config) if checkpoint else []
        extensions, template = _check(config, extensions or Extensions())
        members = _members(config, template, workers, ray, fewer)
        if checkpoint is None:
            files.clear(directory)
        step = checkpoint.step if checkpoint else 0
        with _open(config, directory, extensions, progress, members, step) as run:
            if cut:
                write_text(directory / files.CONFIG, config_text(config))
            if checkpoint is None:
                _begin(run)
            else:
                checkpoints.restore(run, checkpoint)
                if config.pulls_to_start:
                    run.population.set_reference(load_adapter(directory / files.START_FOLDER))
                if changes:
                    append_rows(directory / files.CHANGES, changes)
                if config.roles:
                    run.league = League(directory / "league")
                run.population.sync(run.step)
                try_operators(run)
            yield run


def _check(config: Config, extensions: Extensions) -> tuple[Extensions, Template]:
    """Return all extensions and the template. Raises ConfigError for what cannot be used here."""
    if sys.platform != "linux":
        raise ConfigError(
            f"the sandbox needs Linux, and this is {sys.platform}; train in a Linux container or "
            "virtual machine"
        )
    resolve(config.base)
    require_trackers(config.report_to)
    return open_extensions(config, extensions), template_of(config, extensions.task_kinds)


def _begin(run: Run) -> None:
    """Prepare the run for its first step: members, league, seeds, evaluation, checkpoint."""
    config = run.config
    if adapter := starting_adapter(config):
        with _blaming_warm_start(config):
            for member in run.population.members:
                run.population.replace(member, adapter, member)
    checkpoints.write_founders(run)
    if adapter and config.pulls_to_start:
        save_adapter(adapter, run.directory / files.START_FOLDER)
        run.population.set_reference(adapter)
    if config.roles:
        teachers = config.proposers or [GIVEN]
        run.league = League(run.directory / "league", teachers, config.solvers, config.league)
    run.population.sync(0)
    try_operators(run)
    if config.rollout.self_seed and config.proposers:
        run.progress.phase("seeds")
        run.start_from(seeds.self_made_seeds(run))
    seeds.write_seeds(run.directory / files.SEEDS, run.seed_tasks)
    if config.measures(0):
        run.progress.phase("eval")
        rows = evaluate_members(run, 0)
        append_rows(run.directory / files.EVALS, rows)
        run.progress.measured(rows)
    run.progress.seconds()  # of no step
    checkpoints.save_checkpoint(run)


def starting_adapter(config: Config) -> Adapter | None:
    """Return the adapter that `warm_start` names; None without.

    Raises ConfigError where there is none, or one of another base or rank.
    """
    if config.warm_start is None:
        return None
    place = Path(config.warm_start)
    with _blaming_warm_start(config):
        adapter, lineage = load_adapter(place), read_lineage(place)
        base = adapter.config.base_model_name_or_path
        if base is None or not same_base(base, config.base):
            raise LoraEvoError(f"it is an adapter of {base}, and base is {config.base}")
        bits = BaseModel.quantization_of(config.base, config.load_in_4bit)
        if lineage is not None and lineage.quantization != bits:
            before, now = (name or "plain weights" for name in (lineage.quantization, bits))
            raise LoraEvoError(f"its base was in {before}, and load_in_4bit gives {now}")
        for path, slot in adapter.slots.items():
            if slot.rank != config.learner.r:
                raise LoraEvoError(f"{path} has another rank, {slot.rank}")
        return adapter


@contextmanager
def _blaming_warm_start(config: Config) -> Iterator[None]:
    try:
        yield
    except (LoraEvoError, OSError) as error:
        raise ConfigError(
            f"warm_start: {config.warm_start}: {error}; expected a PEFT adapter of this base with "
            f"learner.r={config.learner.r} and learner.target_modules, such as `selfplay sft "
            "--base` makes"
        ) from error


def _members(
    config: Config, template: Template, workers: int | None, ray: str | None, fewer: bool = False
) -> AbstractContextManager[Members]:
    """Return the members, which open on entry. Raises ConfigError as `refuse_spread_base`."""
    if ray is None and workers in (None, 1):
        return open_population(config, template)
    refuse_spread_base(config)
    return open_workers(config, template, workers or 0, ray, fewer=fewer)


@contextmanager
def _open(
    config: Config,
    directory: Path,
    extensions: Extensions,
    progress: Progress | None,
    members: AbstractContextManager[Members],
    step: int = 0,
) -> Iterator[Run]:
    """Open all that a step needs, with fresh members, in a locked directory; step: the last."""
    progress = progress or Progress(quiet=True)
    with ExitStack() as stack:
        rows = islice(read_rows(directory / files.METRICS, StepRow), step)
        evals = (row for row in read_rows(directory / files.EVALS, EvalRow) if row.step <= step)
        stack.enter_context(progress.showing(config, directory, step, rows, evals))
        sandbox = stack.enter_context(open_sandbox(config))
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # named below
            sandbox.self_test()  # before the base is loaded
            if missing := sandbox.missing_determinism():
                progress.lacking(missing)
        tasksets = stack.enter_context(open_tasksets(config))  # before the base, too
        population = stack.enter_context(members)
        if isinstance(population, RemotePopulation):
            progress.workers(population.pool.text)
        require_faithful(population.prompts.tokenizer, config.base)
        training, measured = seeds.taskset_tasks(config, tasksets)
        guard, prompts = guard_of(measured), population.prompts
        tasks = seeds.read_seeds(directory / files.SEEDS)
        tasks = tasks or seeds.given_seeds(config, sandbox, prompts, guard, training)
        held_out = held_out_tasks(measured, config.eval.tasks) if config.eval.eval_every else []
        for task in held_out:
            if reason := prompts.why_not_shown(task):
                raise ConfigError(
                    f"eval.held_out: {task.id}: {reason}; leave the task out, or raise "
                    "rollout.max_prompt_length"
                )
        run = Run(
            config=config,
            directory=directory,
            population=population,
            sandbox=sandbox,
            tasksets=tasksets,
            held_out=held_out,
            guard=guard,
            born={"teacher": config.teachers, "student": config.students},
            extensions=extensions,
            progress=progress,
        )
        run.start_from(tasks)
        stack.callback(lambda: run.league.close() if run.league else None)
        yield run
