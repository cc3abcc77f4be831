"""Members write, the sandbox judges: proposals from prompts, and attempts at tasks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from code_verifier import (
    CodeVerifierError,
    Metrics,
    Proposal,
    Task,
    Validation,
    measure,
    strip_comments,
)
from evals.engine.rollout import Rollout, TokenRequest
from selfplay.run.run import Run
from selfplay.run.stages import FORM, Attempt


@dataclass(frozen=True)
class Draft:
    """A proposal that a member (None: the frozen base) is asked for."""

    member: str | None
    kind: str
    references: tuple[Task, ...]
    seed: int


@dataclass(frozen=True)
class Trial:
    """One try of a member (None: the frozen base) at a task."""

    member: str | None
    task: Task
    seed: int
    temperature: float


@dataclass(frozen=True)
class Written:
    """A proposal as it was written; None where the text is none."""

    rollout: Rollout
    text: str
    proposal: Proposal | None


def write_proposals(run: Run, drafts: Sequence[Draft]) -> Iterator[tuple[int, Written]]:
    """Sample every draft; yield (its number, what was read from the text) as they are written."""
    r = run.config.rollout
    encoded, propose = _encoder(run), run.template.propose_prompt
    requests = [
        TokenRequest(
            d.member,
            encoded(propose(d.kind, d.references)),
            r.max_proposal_length,
            r.temperature,
            d.seed,
        )
        for d in drafts
    ]
    for i, rollout in run.engine.stream(requests):
        text, draft = run.engine.completion(rollout).text, drafts[i]
        proposal = None
        if rollout.finish_reason == "stop":
            proposal = run.template.parse_proposal(draft.kind, draft.references, text)
        yield i, Written(rollout, text, proposal)


def validate(
    run: Run, proposals: Iterable[tuple[int, Proposal | None]]
) -> list[tuple[Validation, Metrics | None]]:
    """Let the sandbox judge proposals as they come, each with its number; verdicts by number.

    Comments and docstrings, which could tell answers, are left out. What became a task is measured.
    """
    unreadable = Validation(FORM, "the text is not a proposal", None)
    found: dict[int, tuple[Validation, Metrics | None]] = {}
    asked: list[tuple[int, Proposal]] = []

    def bare() -> Iterator[Proposal]:
        for i, proposal in proposals:
            if proposal is None:
                found[i] = (unreadable, None)
            else:
                asked.append((i, _bare(proposal)))
                yield asked[-1][1]

    for k, verdict in enumerate(run.sandbox.validate_many(bare())):
        i, judged = asked[k]
        found[i] = (verdict, None if verdict.task is None else measure(judged.parsed))
    return [found[i] for i in range(len(found))]


def attempt(run: Run, trials: Sequence[Trial]) -> list[Attempt]:
    """Sample every trial, and let the sandbox grade answers as they come."""
    length = run.config.rollout.max_completion_length
    encoded, solve = _encoder(run), run.template.solve_prompt
    requests = [
        TokenRequest(t.member, encoded(solve(t.task)), length, t.temperature, t.seed)
        for t in trials
    ]
    found: dict[int, Attempt] = {}
    asked: list[tuple[int, Rollout, str, str]] = []

    def answers() -> Iterator[tuple[Task, str]]:
        for i, rollout in run.engine.stream(requests):
            text, task = run.engine.completion(rollout).text, trials[i].task
            whole = rollout.finish_reason == "stop"
            answer = run.template.parse_answer(task, text) if whole else None
            if answer is None:
                found[i] = Attempt(rollout, text, None, 0.0, "ill-formed")
            else:
                asked.append((i, rollout, text, answer))
                yield task, answer

    for k, grade in enumerate(run.sandbox.grade_many(answers())):
        i, rollout, text, answer = asked[k]
        found[i] = Attempt(rollout, text, answer, grade.score, grade.reason, void=not grade.judged)
    return [found[i] for i in range(len(trials))]


def _encoder(run: Run) -> Callable[[str], tuple[int, ...]]:
    """Return what gives a prompt's token ids; equal prompts are read once, and are one object."""

    @cache
    def encoded(prompt: str) -> tuple[int, ...]:
        return tuple(run.engine.tokenizer.encode(prompt, add_special_tokens=False))

    return encoded


def _bare(proposal: Proposal) -> Proposal:
    try:
        program = strip_comments(proposal.parsed)
    except CodeVerifierError:
        return proposal
    return Proposal(proposal.kind, program, proposal.input, proposal.inputs, proposal.message)
