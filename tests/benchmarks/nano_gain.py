"""What students of finished nano runs gained over the frozen base, paired task by task.

    python tests/benchmarks/nano_gain.py RUN... [--tasks 600] [--samples 8]

For T = 1 and T = 0.6: the solve rate on held-out tasks, the difference to the base with its
standard error over tasks, pass@k at all samples, and the share of answers that think first.
"""

from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import torch
from benchmarking import parser

from code_verifier import Sandbox, Task
from lora_evo import load_adapter
from lora_evo.model import HFEngine, Request, import_adapter, load_base_model, stack_adapters
from selfplay.config import NANO
from selfplay.nano import WEIGHTS
from selfplay.prompts.nano import parse_answer, solve_prompt
from selfplay.rows import BASE
from selfplay.run_record import read_run
from selfplay.tasks import held_out_tasks

MAX_TOKENS = 192


def main() -> None:
    """Measure and print one line for each member and temperature."""
    options = parser(__doc__)
    options.add_argument("runs", nargs="+", type=Path)
    options.add_argument("--base", type=Path, default=WEIGHTS)
    options.add_argument("--tasks", type=int, default=600)
    options.add_argument("--samples", type=int, default=8)
    arguments = options.parse_args()
    torch.set_num_threads(1)
    tasks = [h.task for h in held_out_tasks(NANO, arguments.tasks)]
    with Sandbox(workers=2) as sandbox:
        for temperature in (1.0, 0.6):
            base = None
            for home in arguments.runs:
                rows = read_run(home).latest_evals()
                members = [row.member for row in rows if row.rate and row.role != BASE]
                engine = engine_of(arguments.base, home, members)
                if base is None:
                    base = measured(engine, None, tasks, arguments.samples, temperature, sandbox)
                    print(f"T = {temperature}: base {line(base, base)}", flush=True)
                for member in members:
                    mine = measured(engine, member, tasks, arguments.samples, temperature, sandbox)
                    print(f"T = {temperature}: {home.name} {member} {line(mine, base)}", flush=True)


def engine_of(base: Path, home: Path, members: list[str]) -> HFEngine:
    """Return an engine that holds these members of a run."""
    loaded = load_base_model(str(base), torch.device("cpu"))
    model, tokenizer = loaded.model, loaded.tokenizer
    adapters = [load_adapter(home / "members" / name) for name in members]
    config = adapters[0].config
    stack = stack_adapters(model, members, r=config.r, lora_alpha=config.lora_alpha, seed=0)
    for place, adapter in enumerate(adapters):
        import_adapter(stack, place, adapter)
    return HFEngine(stack, tokenizer, max_rows=512, merge_rows=1)


def measured(
    engine: HFEngine,
    member: str | None,
    tasks: list[Task],
    samples: int,
    temperature: float,
    sandbox: Sandbox,
) -> list[tuple[float, float]]:
    """Return for each task its solve rate and the share of answers that think first."""
    asked = [task for task in tasks for _ in range(samples)]
    completions = engine.generate(
        [
            Request(solve_prompt(t), member, MAX_TOKENS, temperature, 7_000_003 + i)
            for i, t in enumerate(asked)
        ]
    )
    answers = [
        parse_answer(t, c.text) if c.finish_reason == "stop" else None
        for t, c in zip(asked, completions, strict=True)
    ]
    grades = sandbox.grade_many([(t, a) for t, a in zip(asked, answers, strict=True) if a])
    scores = [float(next(grades).score >= 1.0) if a else 0.0 for a in answers]
    thinks = [float(not c.text.startswith("<|answer|>")) for c in completions]
    return [
        (fmean(scores[i : i + samples]), fmean(thinks[i : i + samples]))
        for i in range(0, len(asked), samples)
    ]


def line(mine: list[tuple[float, float]], base: list[tuple[float, float]]) -> str:
    """Return rate, paired difference, pass@k and the share that thinks."""
    gains = [a - b for (a, _), (b, _) in zip(mine, base, strict=True)]
    error = stdev(gains) / sqrt(len(gains))
    passed = fmean(rate > 0 for rate, _ in mine)
    return (
        f"{fmean(rate for rate, _ in mine):.3f} ({fmean(gains):+.3f} ± {error:.3f}), "
        f"pass@k {passed:.3f}, thinks {fmean(think for _, think in mine):.2f}"
    )


if __name__ == "__main__":
    main()
