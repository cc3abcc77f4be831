"""Runs: started in a new directory, resumed from the newest checkpoint, carried to their end."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from league import League
from selfplay.checkpoint import (
    newest_checkpoint,
    refuse_damage,
    restore,
    save_checkpoint,
    write_founders,
)
from selfplay.config import Config
from selfplay.directory import (
    EVALS,
    SEEDS,
    clear,
    create,
    lock,
    open_config,
    removed_unless_checkpointed,
)
from selfplay.evaluation import evaluate_members
from selfplay.population import Population, Run, founders, open_population, warm_start
from selfplay.progress import Progress
from selfplay.prompts.task_kind import TaskKind, named_kinds
from selfplay.prompts.template import Template, template_of
from selfplay.rollout import open_sandbox
from selfplay.rows import EvalRow, append_rows, read_rows
from selfplay.seeds import given_seeds, require_seeds, self_made_seeds, write_seeds, written_seeds
from selfplay.step import train_step
from selfplay.tasks import held_out_tasks, require_room
from selfplay.tracking import measured_metrics, require_trackers

if TYPE_CHECKING:  # Ray is optional
    from selfplay.workers.pool import RemotePopulation


def train(
    config: Config,
    directory: Path,
    progress: Progress | None = None,
    *,
    task_kinds: Sequence[TaskKind] = (),
    workers: int | None = None,
    ray: str | None = None,
) -> None:
    """Start a run in a new directory and carry it through; the rest as for `new_run`."""
    with new_run(config, directory, task_kinds=task_kinds, workers=workers, ray=ray) as run:
        _train_until_done(run, progress or Progress(quiet=True))


def resume(
    directory: Path,
    progress: Progress | None = None,
    *,
    task_kinds: Sequence[TaskKind] = (),
    workers: int | None = None,
    ray: str | None = None,
) -> None:
    """Continue a run from its newest checkpoint, on any number of workers."""
    with open_run(directory, task_kinds=task_kinds, workers=workers, ray=ray) as run:
        _train_until_done(run, progress or Progress(quiet=True))


def _train_until_done(run: Run, progress: Progress) -> None:
    run.population.end_step()  # what workers did before the first step belongs to none
    run.trackers.open(run.config, run.directory, run.step)
    with closing(run.trackers), progress.showing(run.config, run.step):
        if run.step == 0 and run.config.report_to:
            before = read_rows(run.directory / EVALS, EvalRow)
            run.trackers.log(measured_metrics(list(before)), 0)
        while run.step < run.config.steps:
            train_step(run, progress)


@contextmanager
def new_run(
    config: Config,
    directory: Path,
    *,
    task_kinds: Sequence[TaskKind] = (),
    workers: int | None = None,
    ray: str | None = None,
) -> Iterator[Run]:
    """Start a run in a new directory; within the block it is open, before its first step.

    task_kinds: kinds of one's own that are in play with those of `rollout.kinds`.
    workers: processes over which members are spread, 0 for as many as possible; ray: address of a
    Ray cluster to use. Without both everything is in this process.
    """
    require_trackers(config.report_to)
    require_seeds(config)
    kinds = named_kinds(config.rollout.kinds, task_kinds)
    config = replace(config, rollout=replace(config.rollout, kinds=kinds))
    template = template_of(config, task_kinds)
    create(directory, config)
    with closing(lock(directory)), _opened(config, template, directory, workers, ray) as run:
        _found(run)
        yield run


@contextmanager
def open_run(
    directory: Path,
    *,
    task_kinds: Sequence[TaskKind] = (),
    workers: int | None = None,
    ray: str | None = None,
) -> Iterator[Run]:
    """Open a run at its newest checkpoint; one that died before its first starts again.

    task_kinds: those that it was begun with and that no import finds.
    """
    config = open_config(directory)
    require_trackers(config.report_to)
    template = template_of(config, task_kinds)
    with closing(lock(directory)):
        checkpoint = newest_checkpoint(directory)
        if checkpoint is not None:
            refuse_damage(checkpoint)
        else:
            clear(directory)
        with _opened(config, template, directory, workers, ray) as run:
            if checkpoint is None:
                _found(run)
            else:
                restore(run, checkpoint)
                if config.mode == "populora":
                    run.league = League(directory / "league")
                run.population.sync(run.step)
            yield run


def _found(run: Run) -> None:
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
        run.start_from(self_made_seeds(run))
    write_seeds(run.directory / SEEDS, run.seeds)
    if config.measures(0):
        append_rows(run.directory / EVALS, evaluate_members(run, 0))
    save_checkpoint(run)


@contextmanager
def _opened(
    config: Config, template: Template, directory: Path, workers: int | None, ray: str | None
) -> Iterator[Run]:
    """Open everything a step works with, members as they are born; the directory is locked."""
    with ExitStack() as stack:
        stack.enter_context(removed_unless_checkpointed(directory))
        sandbox = stack.enter_context(open_sandbox(config))
        population: Population | RemotePopulation
        if ray is None and workers in (None, 1):
            population = stack.enter_context(open_population(config, template))
        else:
            from selfplay.workers.session import open_workers

            population = stack.enter_context(open_workers(config, template, workers or 0, ray))
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
        )
        run.start_from(seeds)
        try:
            yield run
        finally:
            if run.league is not None:
                run.league.close()
