"""PopuLoRA, top to bottom: match, propose, verify, solve, update, and now and then evolve.

Read `train_step` first; each phase is one function of `phases`, `credit` or `evolution`.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from league import League, Outcome
from selfplay.config.run_config import RunConfig
from selfplay.population.founders import founders
from selfplay.population.memory import memory_mb
from selfplay.population.parts import OpenParts, local_parts
from selfplay.population.warm_start import start_from
from selfplay.records.row_file import append_rows, read_rows
from selfplay.records.step_row import ResourceRow
from selfplay.records.yardstick_row import YardstickRow
from selfplay.run.buffer import TaskBuffer
from selfplay.run.directory import (
    METRICS,
    RESOURCES,
    TASKS,
    YARDSTICK,
    clear,
    create,
    lock,
    open_config,
    removed_unless_checkpointed,
)
from selfplay.run.held_out import held_out_tasks, require_room
from selfplay.run.run import Run
from selfplay.run.seeds import seed_tasks
from selfplay.run.stages import Match, Solved, by_match
from selfplay.run.yardstick_state import Yardstick
from selfplay.step.checkpoint import (
    newest_checkpoint,
    open_league,
    restore_files,
    restore_run,
    save_checkpoint,
)
from selfplay.step.credit import assign_credit
from selfplay.step.evolution import evolve
from selfplay.step.interruption import interrupt_deferred
from selfplay.step.phases import match, propose, sampled_tokens, solve, verify
from selfplay.step.progress import Progress
from selfplay.step.step_record import metrics_row, task_rows
from selfplay.tracking.metrics import measured_metrics, step_metrics
from selfplay.tracking.session import opened_trackers, require_trackers
from selfplay.yardstick.measurement import is_due, measure_members

T = TypeVar("T")


def train_step(run: Run, progress: Progress) -> None:
    """Do one step of the run and write down what happened."""
    step = run.step + 1
    clock = _Clock(progress, step)

    clock.phase("match")
    matches = match(run, step)
    clock.phase("propose")
    proposed = propose(run, matches, step)
    verified = verify(run, clock.then("verify", proposed))
    clock.phase("solve")
    solved = solve(run, verified, step)
    clock.phase("update")
    run.writers.release()
    credit = assign_credit(solved, run.config)
    factor = run.config.learner.schedule(step, run.config.steps)
    stats = run.learner.update(credit.samples, factor)
    if run.league is not None:
        _record_outcomes(run.league, matches, solved)
    births = []
    if run.league is not None and _evolves(run, step):
        clock.phase("evolve")
        births = evolve(run, run.league, step)
    if not run.writers.shares_parameters:
        clock.phase("publish")
    run.writers.restore()
    run.parts.publish(step)

    clock.phase("save")
    new = _remember(run, solved)
    row = metrics_row(
        run, step, matches, solved, credit, stats, births, new, sampled_tokens(solved)
    )
    append_rows(run.directory / TASKS, task_rows(solved, credit, step))
    measured = []
    if is_due(run, step):
        clock.phase("measure")
        measured = measure_members(run, step)
        append_rows(run.directory / YARDSTICK, measured)
    with interrupt_deferred():  # a step that is done and nearly kept is not thrown away
        row = msgspec.structs.replace(row, seconds=clock.stop())
        append_rows(run.directory / METRICS, [row])
        resources = ResourceRow(step, memory_mb(), run.parts.end_step())
        append_rows(run.directory / RESOURCES, [resources])
        run.step = step
        if step % run.config.save_every == 0 or step == run.config.steps:
            save_checkpoint(run)
    progress.step(row, measured, resources.workers)
    run.trackers.log(step_metrics(row, measured, factor * run.config.learner.learning_rate), step)


def train(
    config: RunConfig, directory: Path, progress: Progress, parts: OpenParts = local_parts
) -> None:
    """Start a run in a new directory and carry it through; parts opens where the work is done."""
    with new_run(config, directory, parts) as run:
        _train_until_done(run, progress)


@contextmanager
def new_run(config: RunConfig, directory: Path, parts: OpenParts = local_parts) -> Iterator[Run]:
    """Start a run in a new directory; it is open, before its first step, within the block."""
    require_trackers(config.report_to)
    create(directory, config)
    with _founded(config, directory, parts) as run:
        yield run


def resume(directory: Path, progress: Progress, parts: OpenParts = local_parts) -> None:
    """Go on with a run from its newest checkpoint; one that died before its first starts again."""
    config = open_config(directory)
    require_trackers(config.report_to)
    checkpoint = newest_checkpoint(directory)
    if checkpoint is None:
        with _founded(config, directory, parts) as run:
            _train_until_done(run, progress)
        return
    with open_run(config, directory, parts) as run:
        state = restore_files(directory, checkpoint)
        restore_run(run, checkpoint, state)
        if config.mode == "populora":
            run.league = open_league(directory)
        run.parts.publish(run.step)
        _train_until_done(run, progress)


@contextmanager
def _founded(config: RunConfig, directory: Path, parts: OpenParts) -> Iterator[Run]:
    with open_run(config, directory, parts) as run:
        clear(directory)
        start_from(run.learner, config)
        if config.mode == "populora":
            teachers, students = founders(config)
            run.league = League(
                directory / "league", teachers=teachers, students=students, config=config.league
            )
        run.parts.publish(0)
        if is_due(run, 0):
            append_rows(directory / YARDSTICK, measure_members(run, 0))
        save_checkpoint(run)
        yield run


def _train_until_done(run: Run, progress: Progress) -> None:
    run.parts.end_step()  # what workers did before the first step is none of it
    opened = opened_trackers(run.config, run.directory, run.step)
    with opened as run.trackers, progress.showing(run.config, run.step):
        if run.step == 0 and run.config.report_to:
            before = read_rows(run.directory / YARDSTICK, YardstickRow)
            run.trackers.log(measured_metrics(list(before)), 0)
        while run.step < run.config.steps:
            train_step(run, progress)


@contextmanager
def open_run(config: RunConfig, directory: Path, parts: OpenParts = local_parts) -> Iterator[Run]:
    """Lock the directory and open everything a step works with, members as they are born."""
    with (
        closing(lock(directory)),
        removed_unless_checkpointed(directory),
        parts(config) as opened,
    ):
        seeds = seed_tasks(config.template, config.rollout.seed_tasks, config.seed)
        y = config.yardstick
        held_out = held_out_tasks(y.held_out, y.tasks) if y.eval_every else []
        require_room(held_out, opened.excess)
        run = Run(
            config=config,
            directory=directory,
            parts=opened,
            league=None,
            yardstick=Yardstick(held_out, seeds),
            buffer=TaskBuffer(config.rollout.buffer_tasks, seeds),
            structures=set(),
            born={"teacher": config.teachers, "student": config.students},
        )
        try:
            yield run
        finally:
            if run.league is not None:
                run.league.close()


def _record_outcomes(league: League, matches: Sequence[Match], solved: Sequence[Solved]) -> None:
    for m, mine in by_match(matches, solved):
        valid = [s for s in mine if s.verified.task is not None and not s.void]
        attempts = [a for s in valid for a in s.judged]
        if m.pair is not None:
            void = sum(s.void for s in mine)
            outcome = Outcome(
                tasks=len(mine) - void,
                valid=len(valid),
                attempts=len(attempts),
                solved=sum(a.score >= 1.0 for a in attempts),
                unsolved=sum(s.rho == 0.0 for s in valid),
                void=void,
            )
            league.record(m.pair, outcome)


def _evolves(run: Run, step: int) -> bool:
    every = run.config.evolution.evolve_every
    return every > 0 and step % every == 0 and step < run.config.steps


def _remember(run: Run, solved: Sequence[Solved]) -> int:
    """Add the accepted tasks to the buffer and their structures to the coverage."""
    before = len(run.structures)
    for s in solved:
        v = s.verified
        if v.task is not None and v.metrics is not None:
            run.structures.add(v.metrics.structure)
            if v.task.kind != "code_f":
                run.buffer.add(replace(v.task, id=v.proposed.id))
    return len(run.structures) - before


class _Clock:
    """Times the phases of a step and tells the display where the step is."""

    def __init__(self, progress: Progress, step: int) -> None:
        self._seconds: dict[str, float] = {}
        self._progress, self._step = progress, step
        self._now, self._since = "", 0.0

    def phase(self, name: str) -> None:
        """End the phase before and begin this one."""
        self.stop()
        self._now, self._since = name, time.perf_counter()
        self._progress.phase(self._step, name)

    def then(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Yield the items; when there are no more, begin this phase."""
        yield from items
        self.phase(name)

    def stop(self) -> dict[str, float]:
        """End the phase; return the seconds of all."""
        if self._now:
            self._seconds[self._now] = round(time.perf_counter() - self._since, 4)
        self._now = ""
        return self._seconds
