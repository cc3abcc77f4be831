"""One step of PopuLoRA, phase by phase: match, propose, verify, solve, update, evolve, save.

Read `train_step` first. Each phase is a function that your own training loop can call, too;
`record_step` then writes the same files as for `train`.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import click
import msgspec

from code_verifier import Status
from league import Outcome, Pair
from lora_evo.model import stream
from selfplay.checkpoint import save_checkpoint
from selfplay.evaluate import evaluate_members
from selfplay.evolution import evolve
from selfplay.files.layout import EVALS, METRICS, RESOURCES, TASKS
from selfplay.files.rows import BASE, GIVEN, BirthRow, MemberRow, ResourceRow, StepRow, append_rows
from selfplay.learning.batch import TrainingSample
from selfplay.learning.rewards import needed_by, training_samples
from selfplay.machine.devices import memory_mb
from selfplay.run import Run, code_version
from selfplay.sampling.judge import program_metrics
from selfplay.sampling.texts import Attempt, Proposed
from selfplay.step_rows import metrics_row, task_row


def train_step(run: Run) -> StepRow:
    """Do one step of the run, record it, and return its row."""
    step, config, progress = run.step + 1, run.config, run.progress
    progress.phase("match")
    matches = match(run, step)
    proposed = propose(run, matches, step)
    if config.proposers:
        progress.phase("propose")
        proposed = progress.after(proposed, "verify")
    verified = verify(run, proposed)
    progress.phase("solve")
    solved, replayed = solve(run, verified, step)
    progress.phase("update")
    rewards = run.extensions.teacher_reward, run.extensions.student_reward
    samples = training_samples(solved, config, replayed, *rewards)
    factor = config.learner.schedule(step, config.steps)
    stats = run.population.update(samples, factor, progress.advance, run.rates)
    for member, update in stats.items():
        if update.skipped:
            click.echo(f"step {step}: {member} learns nothing: {update.skipped}", err=True)
    record_outcomes(run, matches, solved)
    births = []
    if run.league is not None and config.evolves(step):
        progress.phase("evolve")
        births = evolve(run, run.league, step)
    if not run.population.shares_parameters:
        progress.phase("weight_sync")
    run.population.sync(step)
    return record_step(run, solved, samples, stats, births)


def match(run: Run, step: int) -> list[Pair]:
    """Pair teachers with students by prioritised fictitious self-play over their ratings.

    In mode azr the one agent is paired with itself, and nothing is predicted.
    """
    if run.league is None:
        (agent,) = run.population.members
        return [Pair("", step, agent if run.config.proposers else GIVEN, agent, math.nan)]
    return run.league.pair(step)


def propose(run: Run, matches: Sequence[Pair], step: int) -> Iterator[Proposed]:
    """Let every teacher write its proposals of each kind; yield them as they are sampled.

    With `rollout.tasks` as many are drawn from the file, with their tasks filled in.
    """
    r = run.config.rollout
    if not run.config.proposers:
        return iter(_from_file(run, matches, step))
    drafts: list[Proposed] = []
    for m in matches:
        for kind in run.template.in_play:
            for i in range(r.proposals):
                name = f"{step}-{m.teacher}-{m.student}-{kind.name}-{i}"
                count, seed = kind.references(r.num_references), run.seed(name, "references")
                references = tuple(run.buffer.draw(count, seed, r.seed_share, kind.shows))
                seed = run.seed(name, "propose")
                who = m.teacher, m.student
                drafts.append(Proposed(len(drafts), name, *who, kind.name, references, seed))
    return run.sample(drafts)


def _from_file(run: Run, matches: Sequence[Pair], step: int) -> list[Proposed]:
    """Draw tasks of `rollout.tasks`: for each match as many of each kind as a teacher writes."""
    r, proposals = run.config.rollout, list[Proposed]()
    for kind in run.template.in_play:
        tasks = [task for task in run.seed_tasks if task.kind == kind.name]
        size = len(matches) * r.proposals
        for place in range(size):
            m, number = matches[place // r.proposals], (step - 1) * size + place
            name = f"{step}-{GIVEN}-{m.student}-{kind.name}-{place % r.proposals}"
            if r.tasks_order == "solve_rate":
                index = min(number * len(tasks) // (run.config.steps * size), len(tasks) - 1)
            elif r.tasks_order == "recorded":
                index = number % len(tasks)
            elif r.tasks_order == "random":
                index = int(stream(run.seed(name, GIVEN)).integers(len(tasks)))
            else:
                epoch, index = divmod(number, len(tasks))
                order = stream(run.seed(kind.name, epoch, GIVEN)).permutation(len(tasks))
                index = int(order[index])
            p = Proposed(len(proposals), name, None, m.student, kind.name, (), run.seed(name))
            p.task, p.status, p.reason = tasks[index], Status.OK, ""
            p.metrics = program_metrics(p.task)
            proposals.append(p)
    run.leave_out(proposals)
    return proposals


def verify(run: Run, written: Iterable[Proposed]) -> list[Proposed]:
    """Validate proposals in the sandbox while others are sampled; leave out held-out tasks."""
    verified = run.validate(written)
    run.leave_out(verified)
    return verified


def solve(
    run: Run, verified: Sequence[Proposed], step: int
) -> tuple[Sequence[Proposed], list[Attempt]]:
    """Let the matched student attempt every accepted task several times, and grade the attempts.

    The frozen base attempts a sample of the same tasks with the same seeds. If the teacher's reward
    needs them, base or rival attempt all tasks. Also returns, in mode azr, one attempt at each of
    some earlier tasks, from which the agent learns.
    """
    r, config = run.config.rollout, run.config
    needs = needed_by(run.extensions.teacher_reward) if config.proposers else ()
    base_sample = _sample_for_base(run, verified, step)

    def attempts(p: Proposed, member: str | None) -> list[Attempt]:
        seeds = [run.seed(p.id, f"solve-{i}") for i in range(r.num_generations)]
        return [Attempt(member, p.task, s, r.temperature) for s in seeds] if p.task else []

    for p in verified:
        p.attempts = attempts(p, p.student)
        if p.id in base_sample or "base" in needs:
            p.base_attempts = attempts(p, None)
        if "rival" in needs:
            rivals = [m for m in run.solvers if m != p.student]
            drawn = int(stream(run.seed(p.id, "rival")).integers(len(rivals)))
            p.rival_attempts = attempts(p, rivals[drawn])
    replayed: list[Attempt] = []
    if config.proposers == config.solvers:
        for student in dict.fromkeys(p.student for p in verified):
            for kind in run.template.in_play:
                seed = run.seed(step, student or BASE, kind.name, "replay")
                earlier = run.buffer.draw_newest(kind.name, r.proposals, step, seed, run.guard)
                for task in earlier:
                    seed = run.seed(step, student or BASE, task.id, kind.name, "solve")
                    replayed.append(Attempt(student, task, seed, r.temperature))
    run.attempt([*(a for p in verified for a in p.all_attempts), *replayed])
    return verified, replayed


def _sample_for_base(run: Run, proposed: Sequence[Proposed], step: int) -> set[str]:
    """Draw ids of accepted tasks that the base attempts too, up to `same_tasks` in each match.

    A comparison on equal tasks shows learning even while tasks get harder.
    """
    of_match: dict[tuple[str, str], list[str]] = defaultdict(list)
    for p in proposed:
        if p.task is not None:
            of_match[p.teacher or BASE, p.student or BASE].append(p.id)
    sample: set[str] = set()
    for match, ids in of_match.items():
        rng = stream(run.seed(step, *match, "same-tasks"))
        count = min(run.config.eval.same_tasks, len(ids))
        sample |= {ids[int(i)] for i in rng.choice(len(ids), count, replace=False)}
    return sample


def record_outcomes(run: Run, matches: Sequence[Pair], solved: Sequence[Proposed]) -> None:
    """Record every match's outcome in the league.

    Held-out tasks do not count, and those at which the sandbox failed.
    """
    if run.league is None:
        return
    for m in matches:
        of_match = [p for p in solved if p.match == (m.teacher, m.student) and not p.held_out]
        valid = [p for p in of_match if p.task is not None and not p.infra_error]
        attempts = [a for p in valid for a in p.judged]
        infra_errors = sum(p.infra_error for p in of_match)
        outcome = Outcome(
            tasks=len(of_match) - infra_errors,
            valid=len(valid),
            attempts=len(attempts),
            solved=sum(a.solved for a in attempts),
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
    solved: Sequence[Proposed],
    samples: Sequence[TrainingSample],
    stats: Mapping[str, MemberRow],
    births: Sequence[BirthRow] = (),
) -> StepRow:
    """Record the step after `run.step`, which it increments, and return the step's row.

    Adds tasks to the buffer, evaluates and saves a checkpoint if due, shows progress, and calls
    callbacks; `run.ended` says whether one returned True. Call `population.sync` before. The row
    has the seconds of the phases that `run.progress` showed.
    """
    step, config = run.step + 1, run.config
    run.progress.phase("save")
    new_structures = remember(run, solved, step)
    for sample in samples:
        if sample.text is not None:
            sample.text.reward, sample.text.advantage = sample.reward, sample.advantage
    tasks = [task_row(p, step) for p in solved]
    append_rows(run.directory / TASKS, tasks)
    measured = []
    if config.measures(step):
        run.progress.phase("eval")
        measured = evaluate_members(run, step, {birth.child for birth in births})
        append_rows(run.directory / EVALS, measured)
    seconds = run.progress.seconds()
    row = metrics_row(run, solved, samples, stats, births, new_structures, seconds)
    append_rows(run.directory / METRICS, [row])
    resources = ResourceRow(step, memory_mb(), code_version(), run.held_out_hash[:12])
    append_rows(run.directory / RESOURCES, [resources])
    run.step = step
    if is_saved := step % config.save_every == 0 or step == config.steps:
        save_checkpoint(run)
    run.progress.step(row, measured)
    row = msgspec.structs.replace(row, measured=tuple(measured), tasks=tuple(tasks))
    answers = [callback(run, row) for callback in run.extensions.callbacks]
    run.ended = any(answer is True for answer in answers)
    if run.ended and not is_saved:
        save_checkpoint(run)
    return row
