"""The first four phases of a step: match, propose, verify, solve."""

from collections.abc import Iterable, Iterator, Sequence

from code_verifier import Proposal
from selfplay.population.founders import founders
from selfplay.population.writing import Draft, Trial
from selfplay.run.attempts import attempt, validate
from selfplay.run.run import Run
from selfplay.run.stages import Match, Proposed, Solved, Verified
from selfplay.yardstick.same_tasks import chosen_for_base


def match(run: Run, step: int) -> list[Match]:
    """Pair teachers with students by prioritised fictitious self-play over their ratings."""
    if run.league is None:
        (teacher,), (student,) = founders(run.config)
        return [Match(teacher, student)]
    return [Match(p.teacher, p.student, p, p.predicted) for p in run.league.pair(step)]


def propose(run: Run, matches: Sequence[Match], step: int) -> Iterator[Proposed]:
    """Let every teacher write its batch of tasks of each kind; yield them as they are written."""
    r = run.config.rollout
    places, drafts = [], []
    for m in matches:
        for kind in r.kinds:
            for i in range(r.proposals):
                place = f"{step}-{m.teacher}-{m.student}-{kind}-{i}"
                count = 1 if kind == "code_f" else r.num_references
                references = run.buffer.draw(count, run.seed(place, "references"), r.seed_share)
                places.append((place, m))
                drafts.append(Draft(m.teacher, kind, tuple(references), run.seed(place, "propose")))
    for i, w in run.writers.proposals(drafts):
        (place, m), draft = places[i], drafts[i]
        shown = tuple(task.id for task in draft.references)
        yield Proposed(place, i, m, draft.kind, shown, w)


def verify(run: Run, proposed: Iterable[Proposed]) -> list[Verified]:
    """Let the sandbox judge proposals while others are written; students see what it accepts."""
    written: dict[int, Proposed] = {}

    def numbered() -> Iterator[tuple[int, Proposal | None]]:
        for p in proposed:
            written[p.number] = p
            yield p.number, p.written.bare

    return [
        Verified(written[i], v.status, v.reason, v.task, metrics)
        for i, (v, metrics) in enumerate(validate(run, numbered()))
    ]


def solve(run: Run, verified: Sequence[Verified], step: int) -> list[Solved]:
    """Let the matched student attempt every accepted task several times, and grade it.

    The frozen base attempts a sample of the same tasks with the same seeds.
    """
    r = run.config.rollout
    also_base = chosen_for_base(run, verified, step)
    trials = []
    for v in verified:
        if v.task is not None:
            student = v.proposed.match.student
            for member in (student, None) if v.proposed.id in also_base else (student,):
                trials += [
                    Trial(member, v.task, run.seed(v.proposed.id, f"solve-{i}"), r.temperature)
                    for i in range(r.num_generations)
                ]
    done = iter(attempt(run, trials))
    solved = []
    for v in verified:
        count = 0 if v.task is None else r.num_generations
        tries = tuple(next(done) for _ in range(count))
        base = tuple(next(done) for _ in range(count)) if v.proposed.id in also_base else ()
        solved.append(Solved(v, tries, base))
    return solved


def sampled_tokens(solved: Sequence[Solved]) -> int:
    """Count the tokens that a step sampled."""
    rollouts = [s.verified.proposed.written.rollout for s in solved]
    rollouts += [a.rollout for s in solved for a in (*s.attempts, *s.base_attempts)]
    return sum(len(r.completion_ids) for r in rollouts)
