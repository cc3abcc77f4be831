"""One step of PopuLoRA, phase by phase: match, propose, verify, solve, update, evolve, save.

Read `train_step` first. Each phase is a function of its own that a loop of yours may call, too;
`record_step` writes of yours what it writes of ours.
"""

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import click
import msgspec

from code_verifier import Status
from league import Outcome, Pair
from lora_evo.model import stream
from selfplay.evaluate import evaluate_members
from selfplay.evolution import evolve
from selfplay.files.checkpoint import save_checkpoint
from selfplay.files.layout import EVALS, METRICS, RESOURCES, TASKS
from selfplay.files.rows import (
    BASE,
    GIVEN,
    BirthRow,
    MemberRow,
    ResourceRow,
    StepRow,
    append_rows,
    role_of,
)
from selfplay.files.write import metrics_row, task_rows
from selfplay.learning.batch import TrainingSample
from selfplay.learning.rewards import needed_by, training_samples
from selfplay.machine.devices import memory_mb
from selfplay.reports.progress import Progress
from selfplay.run import Run
from selfplay.sampling.judge import program_metrics
from selfplay.sampling.texts import Attempt, Proposed

T = TypeVar("T")


def train_step(run: Run) -> StepRow:
    """Do one step of the run, write down what happened, and return its row."""
    step, config, clock = run.step + 1, run.config, Clock(run.progress)
    clock.phase("match")
    matches = match(run, step)
    proposed = propose(run, matches, step)
    if config.rollout.tasks is None:
        clock.phase("propose")
        proposed = clock.then("verify", proposed)
    verified = verify(run, proposed)
    clock.phase("solve")
    solved, replayed = solve(run, verified, step)
    clock.phase("update")
    rewards = run.extensions.teacher_reward, run.extensions.student_reward
    samples = training_samples(solved, config, replayed, *rewards)
    factor = config.learner.schedule(step, config.steps)
    stats = run.population.update(samples, factor, run.progress.advance, run.rates)
    for member, update in stats.items():
        if update.skipped:
            line = f"step {step}: {member} learns nothing: {update.skipped}"
            click.echo(line, err=True)
    record_outcomes(run, matches, solved)
    births = []
    if run.league is not None and config.evolves(step):
        clock.phase("evolve")
        births = evolve(run, run.league, step)
    if not run.population.shares_parameters:
        clock.phase("weight_sync")
    run.population.sync(step)
    return record_step(run, matches, solved, samples, stats, births, clock)


def match(run: Run, step: int) -> list[Pair]:
    """Pair teachers with students by prioritised fictitious self-play over their ratings.

    In mode azr the one agent is paired with itself, and nothing is predicted.
    """
    if run.league is None:
        (agent,) = run.population.members
        return [Pair("", step, GIVEN if run.config.rollout.tasks else agent, agent, math.nan)]
    return run.league.pair(step)


def propose(run: Run, matches: Sequence[Pair], step: int) -> Iterator[Proposed]:
    """Let every teacher write its batch of tasks of each kind; yield them as they are written.

    With `rollout.tasks` as many are drawn of the file, and have their task already.
    """
    r = run.config.rollout
    if r.tasks is not None:
        return iter(_given(run, matches, step))
    drafts: list[Proposed] = []
    for m in matches:
        for kind in run.template.in_play:
            for i in range(r.proposals):
                name = f"{step}-{m.teacher}-{m.student}-{kind.name}-{i}"
                count, seed = kind.references(r.num_references), run.seed(name, "references")
                shown = tuple(run.buffer.draw(count, seed, r.seed_share, kind.shows))
                seed = run.seed(name, "propose")
                drafts.append(
                    Proposed(len(drafts), name, m.teacher, m.student, kind.name, shown, seed)
                )
    return run.sampled(drafts)


def _given(run: Run, matches: Sequence[Pair], step: int) -> list[Proposed]:
    """Draw tasks of the file: for each match as many of each kind as a teacher writes."""
    r, given = run.config.rollout, list[Proposed]()
    for kind in run.template.in_play:
        tasks = [task for task in run.seed_tasks if task.kind == kind.name]
        size = len(matches) * r.proposals
        for place in range(size):
            m, number = matches[place // r.proposals], (step - 1) * size + place
            name = f"{step}-{GIVEN}-{m.student}-{kind.name}-{place % r.proposals}"
            if r.tasks_order == "solve_rate":
                chosen = min(number * len(tasks) // (run.config.steps * size), len(tasks) - 1)
            elif r.tasks_order == "random":
                chosen = int(stream(run.seed(name, GIVEN)).integers(len(tasks)))
            else:
                passes, chosen = divmod(number, len(tasks))
                order = stream(run.seed(kind.name, passes, GIVEN)).permutation(len(tasks))
                chosen = int(order[chosen])
            p = Proposed(len(given), name, None, m.student, kind.name, (), run.seed(name))
            p.task, p.status, p.reason = tasks[chosen], Status.OK, ""
            p.metrics = program_metrics(p.task)
            given.append(p)
    return given


def verify(run: Run, written: Iterable[Proposed]) -> list[Proposed]:
    """Let the sandbox validate proposals while others are written; students see what it accepts."""
    return run.validated(written)


def solve(
    run: Run, verified: Sequence[Proposed], step: int
) -> tuple[Sequence[Proposed], list[Attempt]]:
    """Let the matched student attempt every accepted task several times, and grade it.

    The frozen base attempts a sample of the same tasks with the same seeds; base and rival attempt
    all of them where the teacher's reward needs it. Also returned are the attempts at earlier
    tasks, one each, where students learn from those.
    """
    r, needed = run.config.rollout, needed_by(run.extensions.teacher_reward)
    needed = needed if r.tasks is None else ()
    also_base = _chosen_for_base(run, verified, step)

    def tries(p: Proposed, member: str | None) -> list[Attempt]:
        seeds = [run.seed(p.id, f"solve-{i}") for i in range(r.num_generations)]
        return [Attempt(member, p.task, s, r.temperature) for s in seeds] if p.task else []

    for p in verified:
        p.attempts = tries(p, p.student)
        if p.id in also_base or "base" in needed:
            p.base_attempts = tries(p, None)
        if "rival" in needed:
            p.rival_attempts = tries(p, _rival(run, p))
    replayed: list[Attempt] = []
    if run.config.mode == "azr" and r.tasks is None:
        for student in dict.fromkeys(p.student for p in verified):
            for kind in run.template.in_play:
                drawn = run.seed(step, student or BASE, kind.name, "replay")
                for task in run.buffer.draw_newest(kind.name, r.proposals, step, drawn):
                    seed = run.seed(step, student or BASE, task.id, kind.name, "solve")
                    replayed.append(Attempt(student, task, seed, r.temperature))
    run.attempt([*(a for p in verified for a in p.all_attempts), *replayed])
    return verified, replayed


def _rival(run: Run, p: Proposed) -> str:
    """Draw another student than the matched one."""
    students = [m for m in run.population.members if role_of(m) == "student" and m != p.student]
    return students[int(stream(run.seed(p.id, "rival")).integers(len(students)))]


def _chosen_for_base(run: Run, proposed: Sequence[Proposed], step: int) -> set[str]:
    """Draw the ids of the accepted tasks, up to `same_tasks` a match, that the base attempts too.

    On equal tasks harder ones cannot hide learning. The base's attempts train no member.
    """
    of_match: dict[tuple[str, str], list[str]] = defaultdict(list)
    for p in proposed:
        if p.task is not None:
            of_match[p.teacher or BASE, p.student or BASE].append(p.id)
    chosen: set[str] = set()
    for match, ids in of_match.items():
        rng = stream(run.seed(step, *match, "same-tasks"))
        count = min(run.config.eval.same_tasks, len(ids))
        chosen |= {ids[int(i)] for i in rng.choice(len(ids), count, replace=False)}
    return chosen


def record_outcomes(run: Run, matches: Sequence[Pair], solved: Sequence[Proposed]) -> None:
    """Tell the league what came of every match; what the sandbox failed at is left out."""
    if run.league is None:
        return
    for m in matches:
        of_match = [p for p in solved if p.match == (m.teacher, m.student)]
        valid = [p for p in of_match if p.task is not None and not p.infra_error]
        attempts = [a for p in valid for a in p.judged]
        infra_errors = sum(p.infra_error for p in of_match)
        outcome = Outcome(
            tasks=len(of_match) - infra_errors,
            valid=len(valid),
            attempts=len(attempts),
            solved=sum(a.score >= 1.0 for a in attempts),
            unsolved=sum(p.solve_rate == 0.0 for p in valid),
            infra_errors=infra_errors,
        )
        run.league.record(m, outcome)


def remember(run: Run, solved: Sequence[Proposed], step: int) -> int:
    """Add the accepted tasks to the buffer; return how many program structures are new."""
    before = len(run.structures)
    for p in solved:
        if p.task is not None:
            run.buffer.add(p.task, step)
            if p.metrics is not None:
                run.structures[p.metrics.structure] += 1
    return len(run.structures) - before


def record_step(
    run: Run,
    matches: Sequence[Pair],
    solved: Sequence[Proposed],
    samples: Sequence[TrainingSample],
    stats: Mapping[str, MemberRow],
    births: Sequence[BirthRow] = (),
    clock: "Clock | None" = None,
) -> StepRow:
    """Write down the step after `run.step`, which is done then, and return its row.

    Remembers its tasks, measures the members and saves a checkpoint where these are due, shows
    progress, and calls callbacks. Weights are in sync. clock: what timed its phases.
    """
    step, config = run.step + 1, run.config
    clock = clock or Clock(run.progress)
    clock.phase("save")
    new_structures = remember(run, solved, step)
    tasks = task_rows(solved, samples, step)
    append_rows(run.directory / TASKS, tasks)
    measured = []
    if config.measures(step):
        clock.phase("eval")
        measured = evaluate_members(run, step, {birth.child for birth in births})
        append_rows(run.directory / EVALS, measured)
    row = metrics_row(
        run, step, matches, solved, samples, stats, births, new_structures, clock.seconds()
    )
    append_rows(run.directory / METRICS, [row])
    resources = ResourceRow(step, memory_mb(), run.population.end_step())
    append_rows(run.directory / RESOURCES, [resources])
    run.step = step
    if step % config.save_every == 0 or step == config.steps:
        save_checkpoint(run)

    run.progress.step(row, measured, run.baseline_rates.get(BASE, ()))
    row = msgspec.structs.replace(row, measured=tuple(measured), tasks=tuple(tasks))
    for callback in run.extensions.callbacks:
        callback(run, row)
    return row


class Clock:
    """Times the phases of a step, and shows which one it is in."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._begun: dict[str, float] = {}

    def phase(self, name: str) -> None:
        """End the phase before and begin this one."""
        self._begun[name] = time.perf_counter()
        self._progress.phase(name)

    def then(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Yield the items; when there are no more, begin this phase."""
        yield from items
        self.phase(name)

    def seconds(self) -> dict[str, float]:
        """Return what each phase took, the last one until now."""
        ends = [*self._begun.values(), time.perf_counter()][1:]
        phases = zip(self._begun.items(), ends, strict=True)
        return {name: round(end - start, 4) for (name, start), end in phases}
