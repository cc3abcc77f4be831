"""Members write, the sandbox judges: proposals from prompts, and attempts at tasks."""

from collections.abc import Sequence
from dataclasses import dataclass

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


def write_proposals(
    run: Run, drafts: Sequence[Draft]
) -> list[tuple[Rollout, str, Proposal | None]]:
    """Sample every draft; what was read from the text is None where it is no proposal."""
    r = run.config.rollout
    requests = [
        _request(
            run,
            d.member,
            run.template.propose_prompt(d.kind, d.references),
            r.max_proposal_length,
            r.temperature,
            d.seed,
        )
        for d in drafts
    ]
    written = []
    for draft, rollout in zip(drafts, run.engine.rollouts(requests), strict=True):
        text = run.engine.completion(rollout).text
        proposal = None
        if rollout.finish_reason == "stop":
            proposal = run.template.parse_proposal(draft.kind, draft.references, text)
        written.append((rollout, text, proposal))
    return written


def validate(
    run: Run, proposals: Sequence[Proposal | None]
) -> list[tuple[Validation, Metrics | None]]:
    """Let the sandbox judge proposals, without comments and docstrings that could tell answers.

    What became a task is measured, too.
    """
    bare = [None if p is None else _bare(p) for p in proposals]
    verdicts = run.sandbox.validate_many([p for p in bare if p is not None])
    unreadable = Validation(FORM, "the text is not a proposal", None)
    found: list[tuple[Validation, Metrics | None]] = []
    for p in bare:
        verdict = unreadable if p is None else next(verdicts)
        metrics = None if p is None or verdict.task is None else measure(p.parsed)
        found.append((verdict, metrics))
    return found


def attempt(run: Run, trials: Sequence[Trial]) -> list[Attempt]:
    """Sample and grade every trial."""
    length = run.config.rollout.max_completion_length
    requests = [
        _request(run, t.member, run.template.solve_prompt(t.task), length, t.temperature, t.seed)
        for t in trials
    ]
    rollouts = run.engine.rollouts(requests)
    texts = [run.engine.completion(rollout).text for rollout in rollouts]
    answers = [
        run.template.parse_answer(t.task, text) if rollout.finish_reason == "stop" else None
        for t, text, rollout in zip(trials, texts, rollouts, strict=True)
    ]
    grades = run.sandbox.grade_many(
        [(t.task, a) for t, a in zip(trials, answers, strict=True) if a is not None]
    )
    attempts = []
    for rollout, text, answer in zip(rollouts, texts, answers, strict=True):
        if answer is None:
            attempts.append(Attempt(rollout, text, None, 0.0, "ill-formed"))
        else:
            grade = next(grades)
            attempts.append(
                Attempt(rollout, text, answer, grade.score, grade.reason, void=not grade.judged)
            )
    return attempts


def _request(
    run: Run, member: str | None, prompt: str, length: int, temperature: float, seed: int
) -> TokenRequest:
    ids = run.engine.tokenizer.encode(prompt, add_special_tokens=False)
    return TokenRequest(
        adapter=member,
        prompt_ids=tuple(ids),
        max_tokens=length,
        temperature=temperature,
        seed=seed,
    )


def _bare(proposal: Proposal) -> Proposal:
    try:
        program = strip_comments(proposal.parsed)
    except CodeVerifierError:
        return proposal
    return Proposal(proposal.kind, program, proposal.input, proposal.inputs, proposal.message)
