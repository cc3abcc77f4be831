"""What the sandbox failed at counts nowhere."""

from random import Random
from types import SimpleNamespace

from code_verifier import Grade, Status, Task, Verdict
from league import League
from selfplay.files.write import metrics_row
from selfplay.learning.rewards import training_samples
from selfplay.sampling.texts import Attempt, Proposed
from selfplay.step import match, propose, record_outcomes, solve, verify
from selfplay.training import new_run

TASK = Task("code_o", "def f(a):\n    return a", "1", "1")


def solved(status, scores=()):
    attempts = [Attempt("s0", TASK, 0, 1.0, score=s) for s in scores]
    task = TASK if status == "ok" else None
    return Proposed(
        0, "p", "t0", "s0", "code_o", (), 0, status=status, task=task, attempts=attempts
    )


def test_an_infra_error_is_not_an_invalid_task(tmp_path):
    with League(tmp_path / "league", ["t0"], ["s0"]) as league:
        (pair,) = league.pair(1)
        done = [
            solved(Status.OK, (1.0, 0.0)),
            solved(Status.EXCEPTION),
            solved(Status.SANDBOX_ERROR),
            solved(Status.SANDBOX_ERROR),
        ]
        record_outcomes(SimpleNamespace(league=league), [pair], done)
        outcome = league.state.outcomes[pair.id]
        assert (outcome.tasks, outcome.valid, outcome.invalid, outcome.infra_errors) == (2, 1, 1, 2)
        assert (outcome.attempts, outcome.solved) == (2, 1)


class FaultySandbox:
    """The run's own sandbox, which fails on some programs: while validating, or while grading."""

    def __init__(self, sandbox, share):
        self.sandbox, self.share, self.workers = sandbox, share, sandbox.workers
        self.failed = set()

    def fails(self, program, when):
        drawn = Random(f"{when} {program}").random()
        if drawn < self.share:
            self.failed.add(program)
        return drawn < self.share

    def validate(self, proposal):
        if self.fails(proposal.program, "validate"):
            return Verdict(Status.SANDBOX_ERROR, reason="planted")
        return self.sandbox.validate(proposal)

    def grade(self, task, answer, fail_fast=False):
        if self.fails(task.program, "grade"):
            return Grade(0.0, "planted", status=Status.SANDBOX_ERROR)
        return self.sandbox.grade(task, answer, fail_fast)


def essence(p):
    """What a proposal and the attempts at it were, but for the last bits of probabilities, in
    which the company in a batch shows."""
    attempts = [(a.rollout.completion_ids, a.answer, a.score, a.infra_error) for a in p.attempts]
    return p.id, p.text, p.status, p.task, attempts


def test_a_step_with_faults_teaches_what_the_step_without_those_tasks_teaches(runs, tmp_path):
    config = runs.config(
        *("rollout.kinds=[code_o, code_i, code_f]", "rollout.proposals=6"),
        *("rollout.max_proposal_length=40", "rollout.max_completion_length=16"),
        *("eval.eval_every=0", "eval.same_tasks=2"),
    )
    stepped = []
    for share in (0.0, 0.3):
        with new_run(config, tmp_path / str(share)) as run:
            run.sandbox = FaultySandbox(run.sandbox, share)
            matches = match(run, 1)
            solved, _ = solve(run, verify(run, propose(run, matches, 1)), 1)
            samples = training_samples(solved, config)
            row = metrics_row(run, 1, matches, solved, samples, {}, (), 0, {})
            stepped.append((solved, row, run.sandbox.failed))
    (clean, _, none), (faulty, row, failed) = stepped
    assert not none

    def touched(p):
        return p.proposal is not None and p.proposal.program in failed

    kept = [p for p in clean if not touched(p)]
    assert 0 < len(kept) < len(clean) - 3
    assert [essence(p) for p in faulty if not touched(p)] == [essence(p) for p in kept]
    # A task of whose answers one could not be read, and the others not be judged, is in between.
    mine = training_samples([p for p in faulty if p.infra_error or not touched(p)], config)
    alone = training_samples(kept, config)
    learned = [
        [
            (s.member, s.phase, s.task_id, s.reward, s.rollout.completion_ids, s.advantage)
            for s in samples
        ]
        for samples in (mine, alone)
    ]
    assert learned[0] == learned[1]
    broken = [p for p in faulty if p.infra_error]
    at_validation = [p for p in broken if p.status == Status.SANDBOX_ERROR]
    assert row.infra_errors["proposals"] == len(at_validation) > 0
    assert row.infra_errors["attempts"] >= sum(len(p.attempts) for p in broken) > 0
