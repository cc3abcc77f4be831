"""Where the nano model stands: share of valid proposals, and solve rates by kind and level."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from code_verifier import Proposal, Sandbox, Task
from evals.engine import Engine, Request
from selfplay.nano.held_out import KINDS
from selfplay.nano.programs import LEVELS
from selfplay.prompts.nano import parse_answer, parse_proposal, propose_prompt, solve_prompt

MAX_TOKENS = 192


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
        greedy, _ = _scores(engine, chosen, sandbox, 0.0, 1, seed)
        sampled, ill = _scores(engine, chosen, sandbox, 1.0, samples, seed)
        rates.append(SolveRate(chosen[0].kind, level, len(chosen), greedy, sampled, ill))
    return rates


def _scores(
    engine: Engine,
    tasks: Sequence[Task],
    sandbox: Sandbox,
    temperature: float,
    samples: int,
    seed: int,
) -> tuple[float, float]:
    attempts = [task for task in tasks for _ in range(samples)]
    completions = engine.generate(
        [
            Request(solve_prompt(t), None, MAX_TOKENS, temperature, seed * 1_000_003 + i)
            for i, t in enumerate(attempts)
        ]
    )
    answers = [parse_answer(c.text) if c.finish_reason == "stop" else None for c in completions]
    judged = [(t, a) for t, a in zip(attempts, answers, strict=True) if a is not None]
    solved = sum(grade.score for grade in sandbox.grade_many(judged))
    return solved / len(attempts), 1 - len(judged) / len(attempts)
