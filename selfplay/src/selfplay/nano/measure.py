"""Where the nano model stands: share of valid proposals, and solve rates by kind and level."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import NamedTuple

from code_verifier import Proposal, Sandbox, Task
from evals.engine.request import Engine, Request
from selfplay.nano.held_out import KINDS
from selfplay.nano.programs import LEVELS
from selfplay.prompts.nano import parse_answer, parse_proposal, propose_prompt, solve_prompt

MAX_TOKENS = 192
ANSWER = "<|answer|>"


@dataclass(frozen=True)
class ProposalRate:
    """Outcome of proposals of one kind at temperature 1."""

    kind: str
    samples: int
    valid: float
    """Share that the sandbox accepted."""
    distinct: float
    """Share of distinct texts among the valid ones."""
    reasons: dict[str, int]
    """Rejections by status; `form` when the text could not be read as a proposal."""


@dataclass(frozen=True)
class SolveRate:
    """Share of tasks of one kind and level that were solved."""

    kind: str
    level: int
    tasks: int
    greedy: float
    sampled: float
    """Mean over samples at temperature 1."""
    ill_formed: float
    """Share of the samples at temperature 1 without a readable answer."""
    careful: float
    """Share of the samples at temperature 1 that think before they answer."""
    solved_carefully: float | None
    """Share solved among those that think."""
    solved_shortly: float | None
    """Share solved among those that answer at once."""
    pass_at_k: float
    """Share of tasks that at least one of the samples solved."""
    tokens: float
    """Mean length of a sample."""


def measure_proposals(
    engine: Engine, tasks: Sequence[Task], sandbox: Sandbox, *, samples: int, seed: int
) -> list[ProposalRate]:
    """Sample proposals after held-out references and judge them."""
    rates = []
    for kind in KINDS:
        rng = Random(f"{seed}/references/{kind}")
        references = [[rng.choice(tasks)] for _ in range(samples)]
        completions = engine.generate(
            [
                Request(propose_prompt(kind, r), None, MAX_TOKENS, 1.0, seed * 1_000_003 + i)
                for i, r in enumerate(references)
            ]
        )
        proposals: list[Proposal] = []
        reasons: dict[str, int] = {}
        for reference, completion in zip(references, completions, strict=True):
            proposal = parse_proposal(kind, reference, completion.text)
            if proposal is None or completion.finish_reason != "stop":
                reasons["form"] = reasons.get("form", 0) + 1
            else:
                proposals.append(proposal)
        valid: list[Proposal] = []
        for proposal, verdict in zip(proposals, sandbox.validate_many(proposals), strict=True):
            if verdict.task is None:
                reasons[verdict.status] = reasons.get(verdict.status, 0) + 1
            else:
                valid.append(proposal)
        distinct = len({(p.program, p.input, p.inputs) for p in valid})
        rates.append(
            ProposalRate(
                kind, samples, len(valid) / samples, distinct / max(1, len(valid)), reasons
            )
        )
    return rates


def measure_solving(
    engine: Engine,
    tasks: Sequence[tuple[int, Task]],
    sandbox: Sandbox,
    *,
    samples: int,
    seed: int,
) -> list[SolveRate]:
    """Solve every task greedily once and `samples` times at temperature 1."""
    rates = []
    for level in LEVELS:
        chosen = [task for lv, task in tasks if lv == level]
        greedy = _attempts(engine, chosen, sandbox, 0.0, 1, seed)
        sampled = _attempts(engine, chosen, sandbox, 1.0, samples, seed)
        careful = [a for a in sampled if not a.text.startswith(ANSWER)]
        short = [a for a in sampled if a.text.startswith(ANSWER)]
        by_task = [sampled[i : i + samples] for i in range(0, len(sampled), samples)]
        rates.append(
            SolveRate(
                kind=chosen[0].kind,
                level=level,
                tasks=len(chosen),
                greedy=fmean(a.score for a in greedy),
                sampled=fmean(a.score for a in sampled),
                ill_formed=fmean(a.answer is None for a in sampled),
                careful=len(careful) / len(sampled),
                solved_carefully=fmean(a.score for a in careful) if careful else None,
                solved_shortly=fmean(a.score for a in short) if short else None,
                pass_at_k=fmean(any(a.score for a in tries) for tries in by_task),
                tokens=fmean(a.tokens for a in sampled),
            )
        )
    return rates


class _Attempt(NamedTuple):
    text: str
    answer: str | None
    score: float
    tokens: int


def _attempts(
    engine: Engine,
    tasks: Sequence[Task],
    sandbox: Sandbox,
    temperature: float,
    samples: int,
    seed: int,
) -> list[_Attempt]:
    tried = [task for task in tasks for _ in range(samples)]
    completions = engine.generate(
        [
            Request(solve_prompt(t), None, MAX_TOKENS, temperature, seed * 1_000_003 + i)
            for i, t in enumerate(tried)
        ]
    )
    answers = [
        parse_answer(t, c.text) if c.finish_reason == "stop" else None
        for t, c in zip(tried, completions, strict=True)
    ]
    grades = sandbox.grade_many(
        [(t, a) for t, a in zip(tried, answers, strict=True) if a is not None]
    )
    return [
        _Attempt(c.text, a, 0.0 if a is None else float(next(grades).score), len(c.token_ids))
        for c, a in zip(completions, answers, strict=True)
    ]
