"""What students of finished nano runs gained over the frozen base, paired task by task.

    python tests/benchmarks/nano_gain.py RUN... [--tasks 600] [--samples 8]

For T = 1 and T = 0.6: the solve rate on held-out tasks, the difference to the base with its
standard error over tasks, pass@k at all samples, and the share of answers that think first.
"""

from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import torch
from benchmarking import Row, parser, show

from code_verifier import Sandbox, Task
from lora_evo import load_adapter
from lora_evo.model import HFEngine, Request, import_adapter, load_base_model, stack_adapters
from selfplay import read_run
from selfplay.config import NANO
from selfplay.prompts.template import NANO as TEMPLATE
from selfplay.rows import BASE
from selfplay.tasks import held_out_tasks

MAX_TOKENS = 192
Measured = list[tuple[float, float]]
"""For each task its solve rate and the share of answers that think first."""


def engine_of(base: str, folders: dict[str, Path]) -> HFEngine:
    """Return an engine that holds these members, also those that never learned."""
    loaded = load_base_model(base, torch.device("cpu"))
    adapters = [load_adapter(folder) for folder in folders.values()]
    config = adapters[0].config
    stack = stack_adapters(
        loaded.model, [*folders], r=config.r, lora_alpha=config.lora_alpha, seed=0
    )
    for place, adapter in enumerate(adapters):
        import_adapter(stack, place, adapter)
    return HFEngine(stack, loaded.tokenizer, max_rows=512, merge_rows=1)


def measured(
    engine: HFEngine,
    member: str | None,
    tasks: list[Task],
    samples: int,
    temperature: float,
    sandbox: Sandbox,
) -> Measured:
    asked = [task for task in tasks for _ in range(samples)]
    completions = engine.generate(
        [
            Request(TEMPLATE.solve_prompt(t), member, MAX_TOKENS, temperature, 7_000_003 + i)
            for i, t in enumerate(asked)
        ]
    )
    answers = [
        TEMPLATE.parse_answer(t, c.text) if c.finish_reason == "stop" else None
        for t, c in zip(asked, completions, strict=True)
    ]
    grades = sandbox.grade_many([(t, a) for t, a in zip(asked, answers, strict=True) if a])
    scores = [float(next(grades).score >= 1.0) if a else 0.0 for a in answers]
    thinks = [float(not c.text.startswith("<|answer|>")) for c in completions]
    starts = range(0, len(asked), samples)
    return [(fmean(scores[i : i + samples]), fmean(thinks[i : i + samples])) for i in starts]


def line(temperature: float, name: str, mine: Measured, base: Measured) -> Row:
    """Return rate, paired difference, pass@k and the share that thinks."""
    gains = [a - b for (a, _), (b, _) in zip(mine, base, strict=True)]
    return {
        "T": temperature,
        "member": name,
        "solved": fmean(rate for rate, _ in mine),
        "gain": fmean(gains),
        "standard error": stdev(gains) / sqrt(len(gains)),
        "pass@k": fmean(rate > 0 for rate, _ in mine),
        "thinks": fmean(think for _, think in mine),
    }


def main() -> None:
    options = parser(__doc__, base="nano", tasks=600, samples=8)
    options.add_argument("runs", nargs="+", type=Path)
    given = options.parse_args()
    torch.set_num_threads(1)
    tasks = [h.task for h in held_out_tasks(NANO, given.tasks)]
    folders = {
        f"{home.name} {row.member}": home / "members" / row.member
        for home in given.runs
        for row in read_run(home).latest_evals()
        if row.rate and row.role != BASE
    }
    engine = engine_of(given.base, folders)
    rows = []
    with Sandbox(workers=2) as sandbox:
        for temperature in (1.0, 0.6):
            base: Measured = []
            for member in (None, *folders):
                mine = measured(engine, member, tasks, given.samples, temperature, sandbox)
                base = base or mine
                rows.append(line(temperature, member or "base", mine, base))
    show(rows)


if __name__ == "__main__":
    main()
