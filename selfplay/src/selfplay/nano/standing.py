"""The measured standing of a nano model: everything that its card reports, in one result."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from code_verifier import Sandbox
from evals.engine.generation import StackedEngine
from evals.engine.stacked_lora import stack_adapters
from selfplay.nano.architecture import WEIGHTS, load_nano
from selfplay.nano.benchmark import BENCHMARK_SEED
from selfplay.nano.held_out import KINDS, held_out_tasks
from selfplay.nano.labels import labelling_sandbox
from selfplay.nano.measure import measure_proposals, measure_solving


def measure_model(
    directory: Path | None, per_level: int, samples: int, proposals: int, seed: int
) -> dict[str, Any]:
    """Measure the model in a directory on the benchmark's tasks and on fresh proposals."""
    model, tokenizer = load_nano(directory or WEIGHTS)
    model.requires_grad_(False)
    adapters = stack_adapters(
        model, ["base"], r=1, lora_alpha=1.0, target_modules=("q_proj",), seed=0
    )
    engine = StackedEngine(adapters, tokenizer, max_rows=512, merge_rows=1)
    with labelling_sandbox() as sandbox:
        tasks = held_out_tasks(BENCHMARK_SEED, per_level, sandbox)
    with Sandbox() as sandbox:
        references = [task for _, task in tasks["code_o"]]
        rates = measure_proposals(engine, references, sandbox, samples=proposals, seed=seed)
        solving = [
            rate
            for kind in KINDS
            for rate in measure_solving(engine, tasks[kind], sandbox, samples=samples, seed=seed)
        ]
    return {
        "parameters": sum(p.numel() for n, p in model.named_parameters() if "lora_" not in n),
        "vocabulary": len(tokenizer),
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
