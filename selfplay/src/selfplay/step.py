"""One step of PopuLoRA, phase by phase: match, propose, verify, solve, update, evolve, save.

Read `train_step` first. Each phase is a function of its own that a loop of yours may call, too;
`record_step` writes of yours what it writes of ours.
"""

import math
import shutil
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click
import msgspec
from msgspec import UNSET

from league import League, Outcome, Pair
from lora_evo import cross_directory, load_adapter, mutate_directory, read_lineage, save_adapter
from lora_evo.model import stream
from selfplay.evaluate import evaluate_members
from selfplay.files.checkpoint import save_checkpoint, write_member
from selfplay.files.layout import EVALS, METRICS, RESOURCES, TASKS
from selfplay.files.read import IDLE, cut_roles, idle_roles
from selfplay.files.rows import BASE, BirthRow, MemberRow, ResourceRow, StepRow, append_rows
from selfplay.files.write import metrics_row, task_rows
from selfplay.learning.batch import TrainingSample
from selfplay.learning.rewards import needed_by, training_samples
from selfplay.machine.devices import memory_mb
from selfplay.members.population import Advance, counted, role_of
from selfplay.reports.progress import Progress
from selfplay.run import Run
from selfplay.sampling.judge import graded, validated
from selfplay.sampling.texts import Attempt, Proposed

T = TypeVar("T")


def train_step(run: Run, progress: Progress) -> StepRow:
    """Do one step of the run, write down what happened, and return its row."""
    step, config = run.step + 1, run.config
    clock, advance = Clock(progress), progress.advance

    clock.phase("match")
    matches = match(run, step)
    clock.phase("propose")
    written = propose(run, matches, step, advance)
    verified = verify(run, clock.then("verify", written))
    clock.phase("solve")
    solved, replayed = solve(run, verified, step, advance)
    clock.phase("update")
    rewards = run.extensions.teacher_reward, run.extensions.student_reward
    samples = training_samples(solved, config, replayed, *rewards)
    factor = config.learner.schedule(step, config.steps)
    stats = run.population.update(samples, factor, advance)
    for member, update in stats.items():
        if update.skipped:
            line = f"step {step}: {member} learns nothing: {update.skipped}"
            click.echo(line, err=True)
    record_outcomes(run, matches, solved)
    births = []
    if run.league is not None and config.evolves(step):
        clock.phase("evolve")
        births = evolve(run, run.league, step, advance)
    if not run.population.shares_parameters:
        clock.phase("weight_sync")
    run.population.sync(step)
    return record_step(run, matches, solved, samples, stats, births, clock)


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
    clock = clock or Clock(Progress(quiet=True))
    clock.phase("save")
    new_structures = remember(run, solved, step)
    row = metrics_row(run, step, matches, solved, samples, stats, births, new_structures)
    proposals = task_rows(solved, samples, step)
    append_rows(run.directory / TASKS, proposals)
    measured = []
    if config.measures(step):
        clock.phase("eval")
        born = {birth.child for birth in births}
        measured = evaluate_members(run, step, clock.progress.advance, born)
        append_rows(run.directory / EVALS, measured)
    with _interrupt_deferred():  # a step that is done and nearly kept is not thrown away
        row = msgspec.structs.replace(row, seconds=clock.stop())
        append_rows(run.directory / METRICS, [row])
        resources = ResourceRow(step, memory_mb(), run.population.end_step())
        append_rows(run.directory / RESOURCES, [resources])
        run.step = step
        if step % config.save_every == 0 or step == config.steps:
            save_checkpoint(run)
    _say_what_cannot_learn(run, row)
    clock.progress.step(row, measured, run.baseline_rates.get(BASE, ()))
    row = msgspec.structs.replace(row, measured=tuple(measured), tasks=tuple(proposals))
    for callback in run.extensions.callbacks:
        callback(run, row)
    return row


def _say_what_cannot_learn(run: Run, row: StepRow) -> None:
    """Say once of a role that all its texts are cut, and that it has not learned for a while."""
    config, before = asdict(run.config), run.recent
    run.recent = [*before, row][-IDLE:]
    lines = []
    for role in sorted(cut_roles(row) - (cut_roles(before[-1]) if before else set())):
        key = f"max_{'proposal' if role == 'teacher' else 'completion'}_length"
        line = f"every text of the {role}s ended at the limit of {config['rollout'][key]} tokens"
        lines.append(f"{line}; raise rollout.{key}, for a model that thinks to thousands")
    for role, why in idle_roles(run.recent, config).items():
        if role not in idle_roles(before, config):
            lines.append(f"no {role} learned in {IDLE} steps: {why}")
    for line in lines:
        click.echo(f"step {row.step}: {line}", err=True)


def match(run: Run, step: int) -> list[Pair]:
    """Pair teachers with students by prioritised fictitious self-play over their ratings.

    In mode azr the one agent is paired with itself, and nothing is predicted.
    """
    if run.league is None:
        (agent,) = run.population.members
        return [Pair("", step, agent, agent, math.nan)]
    return run.league.pair(step)


def propose(
    run: Run, matches: Sequence[Pair], step: int, advance: Advance | None = None
) -> Iterator[Proposed]:
    """Let every teacher write its batch of tasks of each kind; yield them as they are written."""
    r = run.config.rollout
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
    return counted(run.population.propose(drafts), len(drafts), advance)


def verify(run: Run, written: Iterable[Proposed]) -> list[Proposed]:
    """Let the sandbox validate proposals while others are written; students see what it accepts."""
    return validated(written, run.sandbox, run.population.prompts)


def solve(
    run: Run, verified: Sequence[Proposed], step: int, advance: Advance | None = None
) -> tuple[list[Proposed], list[Attempt]]:
    """Let the matched student attempt every accepted task several times, and grade it.

    The frozen base attempts a sample of the same tasks with the same seeds; base and rival attempt
    all of them where the teacher's reward needs it. Also returned are the attempts at earlier
    tasks, one each, where students learn from those.
    """
    r = run.config.rollout
    solvers = _solvers(run, verified, step)
    attempts: list[Attempt] = []
    for p in verified:
        if p.task is not None:
            for member in solvers[p.id].values():
                for i in range(r.num_generations):
                    seed = run.seed(p.id, f"solve-{i}")
                    attempts.append(Attempt(len(attempts), member, p.task, seed, r.temperature))
    if run.config.mode == "azr":
        for student in dict.fromkeys(p.student for p in verified):
            for kind in run.template.in_play:
                drawn = run.seed(step, student or BASE, kind.name, "replay")
                for task in run.buffer.draw_newest(kind.name, r.proposals, step, drawn):
                    seed = run.seed(step, student or BASE, task.id, kind.name, "solve")
                    attempts.append(Attempt(len(attempts), student, task, seed, r.temperature))
    answers = counted(run.population.solve(attempts), len(attempts), advance)
    done = iter(graded(answers, run.sandbox, run.population.prompts))
    solved = []
    for p in verified:
        tries: dict[str, Any] = {
            part: tuple(islice(done, r.num_generations)) for part in solvers.get(p.id, ())
        }
        solved.append(replace(p, **tries))
    return solved, list(done)


def _solvers(run: Run, verified: Sequence[Proposed], step: int) -> dict[str, dict[str, str | None]]:
    """Return who attempts each accepted task, by its id and the part of `Proposed` they fill."""
    also_base = _chosen_for_base(run, verified, step)
    needed = needed_by(run.extensions.teacher_reward)
    solvers: dict[str, dict[str, str | None]] = {}
    for p in verified:
        if p.task is None:
            continue
        solvers[p.id] = {"attempts": p.student}
        if p.id in also_base or "base" in needed:
            solvers[p.id]["base_attempts"] = None
        if "rival" in needed:
            others = [m for m in run.population.members if role_of(m) == "student"]
            others.remove(p.student or "")
            picked = stream(run.seed(p.id, "rival")).integers(len(others))
            solvers[p.id]["rival_attempts"] = others[int(picked)]
    return solvers


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
        of_match = [p for p in solved if (p.teacher, p.student) == (m.teacher, m.student)]
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


def evolve(run: Run, league: League, step: int, advance: Advance | None = None) -> list[BirthRow]:
    """Replace the weakest of both roles; parents are drawn from the members that stay.

    Each parent is kept as it was, under `ancestors/<id>@<step>` with its lineage, so that `lora-evo
    verify` can make the child again and `lora-evo lineage` knows who it was.
    """
    births: list[BirthRow] = []
    counts, grace = run.config.replaced, run.config.league.grace_matches
    frozen, unmoved = run.config.learner.frozen, []
    for role, count in counts.items():
        ranking = [row for row in league.leaderboard(role) if row.member not in frozen]
        spared = [row.member for row in ranking if row.parents and row.matches < grace]
        # In place of a weak one that is spared no better one is replaced.
        kept = len({row.member for row in ranking[::-1][:count]}.intersection(spared))
        weakest = league.select(role, len(league.members(role)) - 1)
        removed = [member for member in weakest if member not in frozen][: count - kept]
        if not removed:
            why = f"spared until they played {grace} matches: {', '.join(spared)}"
            why = why if kept else "all but the best are frozen" if count else "it is the only one"
            unmoved.append(f"no {role} is replaced ({why})")
        parents = [row.member for row in league.leaderboard(role) if row.member not in removed]
        for member in removed:
            births.append(_replace(run, league, role, member, parents, step, spared))
            if advance is not None:
                advance(len(births), sum(counts.values()))
    if said := [line for line in unmoved if not births or "spared" in line]:
        click.echo(f"step {step}: {'; '.join(said)}", err=True)
    return births


def _replace(
    run: Run,
    league: League,
    role: str,
    member: str,
    staying: list[str],
    step: int,
    spared: Sequence[str],
) -> BirthRow:
    e = run.config.evolution
    rng = stream(run.seed(step, member, "evolve"))
    cross = len(staying) > 1 and rng.random() < e.crossover_share
    picked = rng.choice(len(staying), 2 if cross else 1, replace=False)
    parents = [staying[int(i)] for i in picked]
    kind = "crossover" if cross else "mutation"
    pool = [operator for operator in run.extensions.operators if operator.kind == kind]
    operator = pool[int(rng.integers(len(pool)))] if len(pool) > 1 else pool[0]
    child = f"{role[0]}{run.born[role]}"
    run.born[role] += 1
    ancestors = [_ancestor(run, parent, step) for parent in parents]
    run.parents[child] = [ancestor.name for ancestor in ancestors]
    write_member(run, member)
    home = run.directory / "members" / child
    seed = run.seed(step, child, operator.name)
    if home.exists():
        shutil.rmtree(home)
    if cross:
        lineage = cross_directory(operator, ancestors, home, seed=seed)
    else:
        strength = None if operator.default_strength is None else e.strength
        lineage = mutate_directory(operator, ancestors[0], home, seed=seed, strength=strength)
    run.population.replace(member, load_adapter(home), child)
    league.replace(member, child, parents, operator.name)
    change, protected = lineage.relative_change, tuple(spared) or UNSET
    return BirthRow(member, child, tuple(parents), operator.name, change, protected)


def _ancestor(run: Run, parent: str, step: int) -> Path:
    directory = run.directory / "ancestors" / f"{parent}@{step}"
    if not directory.exists():
        directory.parent.mkdir(exist_ok=True)
        record = read_lineage(run.directory / "members" / parent)
        save_adapter(run.population.export(parent), directory, lineage=record)
    return directory


def remember(run: Run, solved: Sequence[Proposed], step: int) -> int:
    """Add the accepted tasks to the buffer; return how many program structures are new."""
    before = len(run.structures)
    for p in solved:
        if p.task is not None:
            run.buffer.add(p.task, step)
            if p.metrics is not None:
                run.structures[p.metrics.structure] += 1
    return len(run.structures) - before


class Clock:
    """Times the phases of a step and shows which one it is in."""

    def __init__(self, progress: Progress) -> None:
        self._seconds: dict[str, float] = {}
        self.progress = progress
        self._now, self._since = "", 0.0

    def phase(self, name: str) -> None:
        """End the phase before and begin this one."""
        self.stop()
        self._now, self._since = name, time.perf_counter()
        self.progress.phase(name)

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


@contextmanager
def _interrupt_deferred() -> Iterator[None]:
    """Let a Ctrl-C that comes within the block take effect at its end."""
    listener = signal.getsignal(signal.SIGINT)
    if not callable(listener) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, listener)
        if came:
            listener(signal.SIGINT, came[0])
