"""Measure a nano model: share of valid proposals, and solve rates by kind and level.

    python tools/nano/measure.py [MODEL] [--json]

Held-out tasks are those that selfplay ships; the result is what the model's card reports.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import click
import torch

from code_verifier import Proposal, Sandbox, Task
from lora_evo.model import Engine, HFEngine, Request, load_base_model, stack_adapters
from nano_language import LEVELS
from selfplay.tasks.held_out import tasks_of
from selfplay.tasks.template import NANO

MAX_TOKENS = 192
ANSWER = "<|answer|>"
KINDS = ("code_o", "code_i", "code_f")


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
                Request(NANO.propose_prompt(kind, r), None, MAX_TOKENS, 1.0, seed * 1_000_003 + i)
                for i, r in enumerate(references)
            ]
        )
        proposals: list[Proposal] = []
        reasons: dict[str, int] = {}
        for reference, completion in zip(references, completions, strict=True):
            proposal = NANO.kind(kind).parse_proposal(reference, completion.text)
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
            Request(NANO.solve_prompt(t), None, MAX_TOKENS, temperature, seed * 1_000_003 + i)
            for i, t in enumerate(tried)
        ]
    )
    answers = [
        NANO.kind(t.kind).parse_answer(t, c.text) if c.finish_reason == "stop" else None
        for t, c in zip(tried, completions, strict=True)
    ]
    grades = sandbox.grade_many(
        [(t, a) for t, a in zip(tried, answers, strict=True) if a is not None]
    )
    return [
        _Attempt(c.text, a, 0.0 if a is None else float(next(grades).score), len(c.completion_ids))
        for c, a in zip(completions, answers, strict=True)
    ]


def measure_model(name: str, samples: int, proposals: int, seed: int) -> dict[str, Any]:
    """Measure a model on the shipped held-out tasks and on fresh proposals."""
    base = load_base_model(name, torch.device("cpu"))
    adapters = stack_adapters(
        base.model, ["base"], r=1, lora_alpha=1.0, target_modules=("q_proj",), seed=0
    )
    engine = HFEngine(adapters, base.tokenizer, max_rows=512)
    tasks = {kind: [(level, task) for task, level in tasks_of(f"nano_{kind}")] for kind in KINDS}
    with Sandbox() as sandbox:
        references = [task for _, task in tasks["code_o"]]
        rates = measure_proposals(engine, references, sandbox, samples=proposals, seed=seed)
        solving = [
            rate
            for kind in KINDS
            for rate in measure_solving(engine, tasks[kind], sandbox, samples=samples, seed=seed)
        ]
    parameters = (p for n, p in base.model.named_parameters() if "lora_" not in n)
    return {
        "parameters": sum(p.numel() for p in parameters),
        "vocabulary": len(base.tokenizer),
        "proposals": [asdict(rate) for rate in rates],
        "solving": [asdict(rate) for rate in solving],
    }


def table(result: dict[str, Any]) -> str:
    """Return the result as two Markdown tables."""
    lines = [
        f"{result['parameters']:,} parameters, vocabulary {result['vocabulary']}",
        "",
        "| proposals at T = 1 | samples | valid | distinct among valid | refused because |",
        "|---|---|---|---|---|",
    ]
    for p in result["proposals"]:
        why = ", ".join(f"{k} {v}" for k, v in sorted(p["reasons"].items()))
        lines.append(
            f"| {p['kind']} | {p['samples']} | {p['valid']:.2f} | {p['distinct']:.2f} | {why} |"
        )
    lines += [
        "",
        "| solving | level | greedy | T = 1 | any of k | thinks first | then | at once "
        "| ill-formed | tokens |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for s in result["solving"]:
        lines.append(
            f"| {s['kind']} | {s['level']} | {s['greedy']:.2f} | {s['sampled']:.2f} "
            f"| {s['pass_at_k']:.2f} | {s['careful']:.2f} | {_rate(s['solved_carefully'])} "
            f"| {_rate(s['solved_shortly'])} | {s['ill_formed']:.2f} | {s['tokens']:.0f} |"
        )
    return "\n".join(lines)


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


@click.command()
@click.argument("model", default="nano")
@click.option("--samples", type=click.IntRange(1), default=8, show_default=True)
@click.option("--proposals", type=click.IntRange(1), default=300, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(model: str, samples: int, proposals: int, seed: int, as_json: bool) -> None:
    """Measure MODEL, a directory or `nano`, on held-out tasks."""
    result = measure_model(model, samples, proposals, seed)
    click.echo(json.dumps(result, indent=1) if as_json else table(result))


if __name__ == "__main__":
    main()
