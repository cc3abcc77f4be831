"""The sandbox's verdicts on what members write: proposals, and attempts at tasks."""

from collections.abc import Iterable, Iterator, Sequence

from code_verifier import Metrics, Proposal, Status, Task, Validation
from selfplay.population.writing import Answered, Trial
from selfplay.run.run import Run
from selfplay.run.stages import FORM, Attempt


def validate(
    run: Run, proposals: Iterable[tuple[int, Proposal | None]]
) -> list[tuple[Validation, Metrics | None]]:
    """Let the sandbox judge proposals as they come, each with its number; verdicts by number.

    What it accepts must also fit into the prompts of this run.
    """
    unreadable = Validation(FORM, "the text is not a proposal", None)
    found: dict[int, tuple[Validation, Metrics | None]] = {}
    asked: list[int] = []

    def readable() -> Iterator[Proposal]:
        for i, proposal in proposals:
            if proposal is None:
                found[i] = (unreadable, None)
            else:
                asked.append(i)
                yield proposal

    for k, (verdict, metrics) in enumerate(run.judge.validate_many(readable())):
        excess = "" if verdict.task is None else run.parts.excess(verdict.task)
        if excess:
            verdict, metrics = Validation(Status.TOO_LONG, excess), None
        found[asked[k]] = verdict, metrics
    return [found[i] for i in range(len(found))]


def attempt(run: Run, trials: Sequence[Trial]) -> list[Attempt]:
    """Let members try, and the sandbox grade answers as they come."""
    found: dict[int, Attempt] = {}
    asked: list[tuple[int, Answered]] = []

    def answers() -> Iterator[tuple[Task, str]]:
        for i, a in run.writers.answers(trials):
            if a.answer is None:
                found[i] = Attempt(a.rollout, a.text, None, 0.0, "ill-formed")
            else:
                asked.append((i, a))
                yield trials[i].task, a.answer

    for k, grade in enumerate(run.judge.grade_many(answers())):
        i, a = asked[k]
        void = not grade.judged
        found[i] = Attempt(a.rollout, a.text, a.answer, grade.score, grade.reason, void)
    return [found[i] for i in range(len(trials))]
