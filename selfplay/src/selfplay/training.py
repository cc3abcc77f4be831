"""Runs: started in a new directory, resumed from the newest checkpoint, carried to their end."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from league import League
from lora_evo import Operator
from selfplay.checkpoint import (
    newest_checkpoint,
    refuse_damage,
    restore,
    save_checkpoint,
    write_founders,
)
from selfplay.config import Config, cut_by_member
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
from selfplay.extensions import Callback, Extensions, Given, Own
from selfplay.population import Population, Run, founders, open_population, warm_start
from selfplay.progress import Progress
from selfplay.prompts.task_kind import TaskKind
from selfplay.prompts.template import Template, template_of
from selfplay.rewards import StudentReward, TeacherReward
from selfplay.rollout import open_sandbox
from selfplay.rows import BASE, EvalRow, append_rows, read_rows
from selfplay.seeds import given_seeds, require_seeds, self_made_seeds, write_seeds, written_seeds
from selfplay.step import train_step
from selfplay.tasks import held_out_tasks, require_room
from selfplay.tracking import measured_metrics, require_trackers

if TYPE_CHECKING:  # Ray is optional
    from selfplay.workers.pool import RemotePopulation


def train(
    config: Config,
    out: str | PathLike[str],
    *,
    progress: Progress | None = None,
    teacher_reward: TeacherReward | None = None,
    student_reward: StudentReward | None = None,
    operators: Sequence[Operator] = (),
    task_kinds: Sequence[TaskKind] = (),
    callbacks: Sequence[Callback] = (),
    workers: int | None = None,
    ray: str | None = None,
) -> None:
    """Start a run in a new directory and carry it through.

    progress: what shows it; nothing by default. The rest is as in `new_run`.

    Example:

        >>> train(load_preset("nano", steps=2, seed=1), "runs/mine")
    """
    with new_run(
        config,
        out,
        teacher_reward=teacher_reward,
        student_reward=student_reward,
        operators=operators,
        task_kinds=task_kinds,
        callbacks=callbacks,
        workers=workers,
        ray=ray,
    ) as run:
        _train_until_done(run, progress or Progress(quiet=True))


def resume(
    out: str | PathLike[str], *, progress: Progress | None = None, **own: Unpack[Own]
) -> None:
    """Continue a run from its newest checkpoint, on any number of workers; the rest as in `train`.

    What the run was given has to be handed over again where config.yaml names nothing that can be
    imported.

    Example:

        >>> resume("runs/mine")
    """
    with open_run(out, **own) as run:
        _train_until_done(run, progress or Progress(quiet=True))


def _train_until_done(run: Run, progress: Progress) -> None:
    run.population.end_step()  # what workers did before the first step belongs to none
    run.trackers.open(run.config, run.directory, run.step)
    with closing(run.trackers), progress.showing(run.config, run.step, run.before.get(BASE, ())):
        if run.step == 0 and run.config.report_to:
            before = read_rows(run.directory / EVALS, EvalRow)
            run.trackers.log(measured_metrics(list(before)), 0)
        while run.step < run.config.steps:
            train_step(run, progress)


@contextmanager
def new_run(config: Config, out: str | PathLike[str], **own: Unpack[Own]) -> Iterator[Run]:
    """Start a run in a new directory; within the block it is open, before its first step.

    teacher_reward: reward of a `Proposed`; student_reward: of an `Attempt`; operators: mutations
    and crossovers to use instead of the configured ones of their kind; task_kinds: in play with
    those of `rollout.kinds`; callbacks: called after each step with the run and its `StepRow`.
    What is handed over wins over the configuration, and is named in config.yaml as
    `module:object`. workers: processes over which members are spread, 0 for as many as possible;
    ray: address of a Ray cluster to use; without both everything is in this process.
    """
    given, directory = Given(**own), Path(out)
    config = given.named_in(config)
    if given.workers is not None or given.ray is not None:
        config = cut_by_member(config)
    extensions = given.completed(config)
    require_trackers(config.report_to)
    require_seeds(config)
    template = template_of(config, given.task_kinds)
    create(directory, config)
    opened = _opened(config, template, directory, extensions, given)
    with closing(lock(directory)), opened as run:
        _found(run)
        yield run


@contextmanager
def open_run(out: str | PathLike[str], **own: Unpack[Own]) -> Iterator[Run]:
    """Open a run at its newest checkpoint; one that died before its first starts again."""
    given, directory = Given(**own), Path(out)
    config = open_config(directory)
    extensions = given.completed(config)
    require_trackers(config.report_to)
    template = template_of(config, given.task_kinds)
    with closing(lock(directory)):
        checkpoint = newest_checkpoint(directory)
        if checkpoint is not None:
            refuse_damage(checkpoint)
        else:
            clear(directory)
        with _opened(config, template, directory, extensions, given) as run:
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
    config: Config,
    template: Template,
    directory: Path,
    extensions: Extensions,
    given: Given,
) -> Iterator[Run]:
    """Open everything a step works with, members as they are born; the directory is locked."""
    with ExitStack() as stack:
        stack.enter_context(removed_unless_checkpointed(directory))
        sandbox = stack.enter_context(open_sandbox(config))
        population: Population | RemotePopulation
        if given.ray is None and given.workers in (None, 1):
            population = stack.enter_context(open_population(config, template))
        else:
            from selfplay.workers.session import open_workers

            opened = open_workers(config, template, given.workers or 0, given.ray)
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
