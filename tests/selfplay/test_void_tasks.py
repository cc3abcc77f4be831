"""What the sandbox itself broke counts against nobody."""

from dataclasses import replace
from random import Random
from types import SimpleNamespace

from code_verifier import Grade, Status, Validation
from league import League
from selfplay.run.stages import Match, Solved
from selfplay.step.credit import assign_credit
from selfplay.step.loop import _record_outcomes, new_run
from selfplay.step.phases import match, propose, solve, verify
from selfplay.step.step_record import metrics_row


def solved(match, status, task, scores):
    verified = SimpleNamespace(proposed=SimpleNamespace(match=match), status=status, task=task)
    return Solved(verified, tuple(SimpleNamespace(score=score, void=False) for score in scores))


def test_a_sandbox_error_is_void_and_not_an_invalid_task(tmp_path):
    with League(tmp_path / "league", ["t0"], ["s0"]) as league:
        (pair,) = league.pair(1)
        match = Match("t0", "s0", pair)
        rows = [
            solved(match, Status.OK, "task", (1.0, 0.0)),
            solved(match, Status.EXCEPTION, None, ()),
            solved(match, Status.SANDBOX_ERROR, None, ()),
            solved(match, Status.SANDBOX_ERROR, None, ()),
        ]
        _record_outcomes(league, [match], rows)
        outcome = league.state.outcomes[pair.id]
        assert (outcome.tasks, outcome.valid, outcome.invalid, outcome.void) == (2, 1, 1, 2)
        assert (outcome.attempts, outcome.solved) == (2, 1)


class FaultySandbox:
    """The run's own sandbox, which fails on some programs: while validating, or while grading."""

    def __init__(self, sandbox, share):
        self.sandbox, self.share = sandbox, share
        self.failed = set()

    def fails(self, program, when):
        lot = Random(f"{when} {program}").random()
        if lot < self.share:
            self.failed.add(program)
        return lot < self.share

    def validate_many(self, proposals):
        proposals = list(proposals)
        for proposal, verdict in zip(proposals, self.sandbox.validate_many(proposals), strict=True):
            broken = self.fails(proposal.program, "validate")
            yield (Validation(Status.SANDBOX_ERROR, "planted", None), None) if broken else verdict

    def grade_many(self, pairs):
        pairs = list(pairs)
        for (task, _), grade in zip(pairs, self.sandbox.grade_many(pairs), strict=True):
            broken = self.fails(task.program, "grade")
            yield Grade(0.0, "planted", status=Status.SANDBOX_ERROR) if broken else grade


def told(s):
    """What a proposal and the attempts at it were, but for the last bits of probabilities, in
    which the company in a batch shows."""
    p = s.verified.proposed
    attempts = [(a.rollout.completion_ids, a.answer, a.score, a.void) for a in s.attempts]
    return p.id, p.written.text, s.verified.status, s.verified.task, attempts


def test_a_step_with_faults_teaches_what_the_step_without_those_tasks_teaches(runs, tmp_path):
    config = runs.config("rollout.proposals=6", "yardstick.eval_every=0", "yardstick.same_tasks=2")
    stepped = []
    for share in (0.0, 0.3):
        with new_run(config, tmp_path / str(share)) as run:
            sandbox = FaultySandbox(run.judge, share)
            run.parts = replace(run.parts, judge=sandbox)
            matches = match(run, 1)
            solved = solve(run, verify(run, propose(run, matches, 1)), 1)
            row = metrics_row(run, 1, matches, solved, assign_credit(solved, config), {}, (), 0, 0)
            stepped.append((solved, row, sandbox.failed))
    (clean, _, none), (faulty, row, failed) = stepped
    assert not none

    def touched(s):
        bare = s.verified.proposed.written.bare
        return bare is not None and bare.program in failed

    kept = [s for s in clean if not touched(s)]
    assert 0 < len(kept) < len(clean) - 3
    assert [told(s) for s in faulty if not touched(s)] == [told(s) for s in kept]
    # A task of whose answers one could not be read, and the others not be judged, is in between.
    credit = assign_credit([s for s in faulty if s.void or not touched(s)], config)
    alone = assign_credit(kept, config)
    assert (credit.proposals, credit.attempts) == (alone.proposals, alone.attempts)
    learned = [
        [(s.member, s.task, s.completion_ids, s.advantage) for s in c.samples]
        for c in (credit, alone)
    ]
    assert learned[0] == learned[1]
    void = [s for s in faulty if s.void]
    at_validation = [s for s in void if s.verified.status == Status.SANDBOX_ERROR]
    assert row.void.proposals == len(at_validation) > 0
    assert row.void.attempts >= sum(len(s.attempts) for s in void) > 0
