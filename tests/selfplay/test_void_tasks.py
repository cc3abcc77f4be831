"""What the sandbox itself broke counts against nobody."""

from types import SimpleNamespace

from code_verifier import Status
from league import League
from selfplay.run.stages import Match, Solved
from selfplay.step.loop import _record_outcomes


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
