"""The first four phases of a step: match, propose, verify, solve."""

from collections.abc import Sequence

from code_verifier import CodeVerifierError, Metrics, Proposal, Task, measure, strip_comments
from selfplay.generation import Rollout, TokenRequest
from selfplay.run import Run, founders
from selfplay.stages import FORM, Attempt, Match, Proposed, Solved, Verified


def match(run: Run, step: int) -> list[Match]:
    """Pair teachers with students by prioritised fictitious self-play over their ratings."""
    if run.league is None:
        (teacher,), (student,) = founders(run.config)
        return [Match(teacher, student)]
    return [Match(p.teacher, p.student, p, p.predicted) for p in run.league.pair(step)]


def propose(run: Run, matches: Sequence[Match], step: int) -> list[Proposed]:
    """Let every teacher write its batch of tasks of each kind."""
    r = run.config.rollout
    drafts, requests = [], []
    for m in matches:
        for kind in r.kinds:
            for i in range(r.proposals):
                place = f"{step}-{m.teacher}-{m.student}-{kind}-{i}"
                references = run.buffer.draw(
                    1 if kind == "code_f" else r.num_references, run.seed(place, "references")
                )
                prompt = run.template.propose_prompt(kind, references)
                drafts.append((place, m, kind, references))
                requests.append(
                    _request(run, m.teacher, prompt, r.max_proposal_length, place, "propose")
                )
    proposed = []
    for draft, rollout in zip(drafts, run.engine.rollouts(requests), strict=True):
        place, m, kind, references = draft
        text = run.engine.completion(rollout).text
        proposal = None
        if rollout.finish_reason == "stop":
            proposal = run.template.parse_proposal(kind, references, text)
        names = tuple(t.id for t in references)
        proposed.append(Proposed(place, m, kind, names, rollout, text, proposal))
    return proposed


def verify(run: Run, proposed: Sequence[Proposed]) -> list[Verified]:
    """Let the sandbox judge the proposals; what it refuses, students never see."""
    readable = [_bare(p.proposal) for p in proposed if p.proposal is not None]
    verdicts = run.sandbox.validate_many(readable)
    verified = []
    for p in proposed:
        if p.proposal is None:
            verified.append(Verified(p, FORM, "the text is not a proposal", None, None))
            continue
        verdict = next(verdicts)
        task = verdict.task
        verified.append(Verified(p, verdict.status, verdict.reason, task, _metrics(task)))
    return verified


def solve(run: Run, verified: Sequence[Verified], step: int) -> list[Solved]:
    """Let the matched student attempt every accepted task several times, and grade it."""
    r = run.config.rollout
    requests = []
    for v in verified:
        if v.task is not None:
            prompt = run.template.solve_prompt(v.task)
            place, student = v.proposed.id, v.proposed.match.student
            requests += [
                _request(run, student, prompt, r.max_completion_length, place, f"solve-{i}")
                for i in range(r.num_generations)
            ]
    rollouts = run.engine.rollouts(requests)
    texts = [run.engine.completion(rollout).text for rollout in rollouts]
    answers = [
        run.template.parse_answer(text) if rollout.finish_reason == "stop" else None
        for text, rollout in zip(texts, rollouts, strict=True)
    ]
    tasks = [v.task for v in verified if v.task is not None for _ in range(r.num_generations)]
    grades = run.sandbox.grade_many(
        [(t, a) for t, a in zip(tasks, answers, strict=True) if a is not None]
    )
    attempts = []
    for rollout, text, answer in zip(rollouts, texts, answers, strict=True):
        if answer is None:
            attempts.append(Attempt(rollout, text, None, 0.0, "ill-formed"))
        else:
            grade = next(grades)
            attempts.append(Attempt(rollout, text, answer, grade.score, grade.reason))
    solved, at = [], 0
    for v in verified:
        count = 0 if v.task is None else r.num_generations
        solved.append(Solved(v, tuple(attempts[at : at + count])))
        at += count
    return solved


def sampled_tokens(proposed: Sequence[Proposed], solved: Sequence[Solved]) -> int:
    """Count the tokens that a step sampled."""
    rollouts: list[Rollout] = [p.rollout for p in proposed]
    rollouts += [a.rollout for s in solved for a in s.attempts]
    return sum(len(r.completion_ids) for r in rollouts)


def _request(
    run: Run, member: str, prompt: str, length: int, place: str, purpose: str
) -> TokenRequest:
    ids = run.engine.tokenizer.encode(prompt, add_special_tokens=False)
    return TokenRequest(
        member_index=run.learner.adapters.index(member),
        prompt_ids=tuple(ids),
        max_tokens=length,
        temperature=run.config.rollout.temperature,
        seed=run.seed(place, purpose),
    )


def _bare(proposal: Proposal) -> Proposal:
    """Return the proposal without comments and docstrings, so that none can hold the answer."""
    try:
        program = strip_comments(proposal.program)
    except CodeVerifierError:
        return proposal
    return Proposal(proposal.kind, program, proposal.input, proposal.inputs, proposal.message)


def _metrics(task: Task | None) -> Metrics | None:
    return None if task is None else measure(task.program)
