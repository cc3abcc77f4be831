"""The sandbox judges proposals, and what it accepts is measured."""

from collections.abc import Iterable, Iterator

from code_verifier import Grade, Metrics, Proposal, Sandbox, Task, Validation, measure


class LocalJudge:
    """`population.parts.Judge` over a sandbox of this machine."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def validate_many(
        self, proposals: Iterable[Proposal], /
    ) -> Iterator[tuple[Validation, Metrics | None]]:
        """Judge proposals; metrics of those that became tasks."""
        asked: list[Proposal] = []

        def noted() -> Iterator[Proposal]:
            for proposal in proposals:
                asked.append(proposal)
                yield proposal

        for i, verdict in enumerate(self._sandbox.validate_many(noted())):
            yield verdict, None if verdict.task is None else measure(asked[i].parsed)

    def grade_many(self, answers: Iterable[tuple[Task, str]], /) -> Iterator[Grade]:
        """Grade answers to tasks."""
        return self._sandbox.grade_many(answers)
