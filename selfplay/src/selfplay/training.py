"""Runs: started in a new directory, resumed from the newest checkpoint, carried to their end."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import wraps
from inspect import Parameter, signature
from itertools import islice
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, get_args, get_type_hints

from league import League
from selfplay.config import Config, cut_by_member
from selfplay.evaluation import evaluate_members
from selfplay.extensions import Extensions, RunOptions, open_extensions, with_names
from selfplay.members import founders
from selfplay.opening import Population, open_population, warm_start
from selfplay.prompts.task_kind import recorded_kinds
from selfplay.prompts.template import Template, template_of
from selfplay.records.checkpoint import (
    kept_rewards,
    newest_checkpoint,
    restore,
    save_checkpoint,
    write_founders,
)
from selfplay.records.directory import (
    EVALS,
    METRICS,
    SEEDS,
    clear,
    create,
    lock,
    open_config,
    removed_unless_checkpointed,
)
from selfplay.records.progress import Progress
from selfplay.records.rows import EvalRow, StepRow, append_rows, read_rows
from selfplay.records.tracking import measured_metrics, require_trackers
from selfplay.rollout import open_sandbox
from selfplay.run import Run
from selfplay.seeds import given_seeds, require_seeds, self_made_seeds, write_seeds, written_seeds
from selfplay.step import train_step
from selfplay.tasks import held_out_tasks, require_room

if TYPE_CHECKING:  # Ray is optional
    from selfplay.workers.pool import RemotePopulation

F = TypeVar("F", bound=Callable[..., Any])


def _with_options(function: F) -> F:
    """Give a function what `RunOptions` holds as parameters that `help` shows and calls check."""
    plain = signature(function)
    parameters = [p for p in plain.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    for name, kind in get_type_hints(RunOptions, localns={"Run": Run}).items():
        default = None if NoneType in get_args(kind) else ()
        option = Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        parameters.append(option)
    full = plain.replace(parameters=parameters)

    @wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        full.bind(*arguments, **options)
        return function(*arguments, **options)

    checked.__signature__ = full  # type: ignore[attr-defined]
    return cast(F, checked)


@_with_options
def train(
    config: Config,
    out: str | PathLike[str],
    *,
    progress: Progress | None = None,
    **options: Unpack[RunOptions],
) -> None:
    """Start a run in a new directory and carry it through.

    progress: what shows it; nothing by default. The rest is as in `new_run`.

    Example:

        >>> train(load_preset("nano", steps=2, seed=1), "runs/mine")
    """
    progress = progress or Progress(quiet=True)
    with new_run(config, out, progress=progress, **options) as run:
        _train_until_done(run, progress)


@_with_options
def resume(
    out: str | PathLike[str],
    *,
    progress: Progress | None = None,
    **options: Unpack[RunOptions],
) -> None:
    """Continue a run from its newest checkpoint, on any number of workers.

    progress: what shows it; nothing by default. The rest is as in `open_run`.

    Example:

        >>> resume("runs/mine")
    """
    progress = progress or Progress(quiet=True)
    with open_run(out, progress=progress, **options) as run:
        _train_until_done(run, progress)


def _train_until_done(run: Run, progress: Progress) -> None:
    run.population.end_step()  # what workers did before the first step belongs to none
    run.trackers.open(run.config, run.directory, run.step)
    with closing(run.trackers):
        if run.step == 0 and run.config.report_to:
            before = read_rows(run.directory / EVALS, EvalRow)
            run.trackers.log(measured_metrics(list(before)), 0)
        while run.step < run.config.steps:
            train_step(run, progress)


@_with_options
@contextmanager
def new_run(
    config: Config,
    out: str | PathLike[str],
    *,
    progress: Progress | None = None,
    **options: Unpack[RunOptions],
) -> Iterator[Run]:
    """Start a run in a new directory; within the block it is open, before its first step.

    What is handed over wins over the configuration, and config.yaml says what it was: `module:name`
    or `:name`, and hashes of what it is made of. Raises ConfigError for what cannot be used.

    teacher_reward: reward of a `Proposed`; student_reward: of an `Attempt`: finite numbers. An
    object with `state_dict` and `load_state_dict` has its state kept in checkpoints.
    operators: mutations and crossovers to use instead of the configured ones of their kind.
    task_kinds: in play with those of `rollout.kinds`.
    callbacks: called after each step with the run and its `StepRow`.
    workers: processes over which members are spread, 0 for as many as possible; ray: address of a
    Ray cluster to use; without both everything is in this process.
    progress: shows the run as long as it is open; nothing by default.
    """
    directory, progress = Path(out), progress or Progress(quiet=True)
    config = with_names(config, options)
    if _has_workers(options):
        config = cut_by_member(config)
    extensions, config = open_extensions(config, options)
    require_trackers(config.report_to)
    require_seeds(config)
    template = template_of(config, options.get("task_kinds", ()))
    kinds = recorded_kinds(config.rollout.kinds, template.in_play)
    config = replace(config, rollout=replace(config.rollout, kinds=kinds))
    create(directory, config)
    opened = _opened(config, template, directory, extensions, options)
    with closing(lock(directory)), progress.showing(config, directory), opened as run:
        run.advance = progress.advance
        _found(run, progress)
        yield run


@_with_options
@contextmanager
def open_run(
    out: str | PathLike[str],
    *,
    progress: Progress | None = None,
    **options: Unpack[RunOptions],
) -> Iterator[Run]:
    """Open a run at its newest checkpoint; one that died before its first starts again.

    A reward, an operator or a task kind that no import finds again, such as a script's own
    function, is handed over again, as it was: `teacher_reward=half_solved`. Callbacks are not
    recorded, and workers may be other ones. The parameters are those of `new_run`. Raises
    ConfigError for what is missing, and for what is not what the run began with.
    """
    directory, progress = Path(out), progress or Progress(quiet=True)
    config = open_config(directory)
    require_trackers(config.report_to)
    template = template_of(config, options.get("task_kinds", ()))
    with closing(lock(directory)):
        checkpoint = newest_checkpoint(directory)
        if checkpoint is None:
            extensions, _ = open_extensions(config, options)
            clear(directory)
        else:
            extensions, _ = open_extensions(config, options, kept_rewards(checkpoint))
        done = 0 if checkpoint is None else int(checkpoint.name.removeprefix("step-"))
        rows = islice(read_rows(directory / METRICS, StepRow), done)
        with (
            progress.showing(config, directory, done, rows),
            _opened(config, template, directory, extensions, options) as run,
        ):
            run.advance = progress.advance
            if checkpoint is None:
                _found(run, progress)
            else:
                restore(run, checkpoint)
                if config.mode == "populora":
                    run.league = League(directory / "league")
                run.population.sync(run.step)
            yield run


def _has_workers(options: RunOptions) -> bool:
    return options.get("workers") is not None or options.get("ray") is not None


def _found(run: Run, progress: Progress) -> None:
    """Bring the run to the moment before its first step: members, league, evaluation."""
    config = run.config
    warm_start(run.population, config)
    write_founders(run)
    if config.mode == "populora":
        teachers, students = founders(config)
        home = run.directory / "league"
        run.league = League(home, teachers=teachers, students=students, config=config.league)
    run.population.sync(0)
    if config.rollout.self_seed:
        progress.phase("seeds")
        run.start_from(self_made_seeds(run))
    write_seeds(run.directory / SEEDS, run.seeds)
    if config.measures(0):
        progress.phase("eval")
        append_rows(run.directory / EVALS, evaluate_members(run, 0))
    save_checkpoint(run)


@contextmanager
def _opened(
    config: Config,
    template: Template,
    directory: Path,
    extensions: Extensions,
    options: RunOptions,
) -> Iterator[Run]:
    """Open everything a step works with, members as they are born; the directory is locked."""
    with ExitStack() as stack:
        stack.enter_context(removed_unless_checkpointed(directory))
        sandbox = stack.enter_context(open_sandbox(config))
        population: Population | RemotePopulation
        workers, ray = options.get("workers"), options.get("ray")
        if ray is None and workers in (None, 1):
            population = stack.enter_context(open_population(config, template))
        else:
            from selfplay.workers.session import open_workers

            opened = open_workers(config, template, workers or 0, ray)
            population = stack.enter_context(opened)
        e = config.eval
        seeds = written_seeds(directory / SEEDS)
        seeds = seeds or given_seeds(config, sandbox, population.prompts)
        held_out = held_out_tasks(e.held_out, e.tasks) if e.eval_every else []
        require_room(held_out, population.prompts.excess)
        run = Run(
            config=config,
            directory=directory,
            population=population,
            sandbox=sandbox,
            held_out=held_out,
            born={"teacher": config.teachers, "student": config.students},
            extensions=extensions,
        )
        run.start_from(seeds)
        try:
            yield run
        finally:
            if run.league is not None:
                run.league.close()
