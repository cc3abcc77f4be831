"""CPU seconds of a training step by phase, for several populations, and their ratio to a floor.

    python benchmarks/training_step.py [--steps 6]

Every population takes the steps in a fresh process with one thread; the first step is left out as
warm-up. The single agent does the work of one teacher and one student. The floor is what the matrix
products alone would take at the rate that this machine reaches in between: 2 FLOP a parameter and
token read or sampled, 4 more for each token that is learned from. Equal prompts of a member are
read once to sample; samples without advantage are not learned from.
"""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from benchmarking import Row, alone, parser, show

from selfplay import (
    Config,
    Run,
    TrainingSample,
    load_preset,
    match,
    new_run,
    propose,
    record_outcomes,
    remember,
    solve,
    training_samples,
    verify,
)

POPULATIONS = {
    "azr (1 agent)": ["mode=azr"],
    "1T+1S": ["teachers=1", "students=1"],
    "2T+2S": ["teachers=2", "students=2"],
    "4T+4S": ["teachers=4", "students=4"],
}
PHASES = ("propose", "verify", "solve", "update")
SIZE = 1024


def take_step(run: Run, step: int, spent: Counter[str]) -> None:
    """Take a step of a run; count its CPU seconds by phase, its FLOP and its tokens."""
    start = time.process_time()

    def phase(name: str) -> None:
        nonlocal start
        now = time.process_time()
        spent[name] += now - start
        start = now

    matches = match(run, step)
    written = list(propose(run, matches, step))
    phase("propose")
    verified = verify(run, written)
    phase("verify")
    solved, replayed = solve(run, verified, step)
    phase("solve")
    samples = training_samples(solved, run.config, replayed)
    run.population.update(samples)
    phase("update")
    record_outcomes(run, matches, solved)
    remember(run, solved, step)
    attempts = [a for p in solved for a in p.all_attempts]
    prompts = {(p.teacher, p.rollout.prompt_ids) for p in solved}
    prompts |= {(a.member, a.rollout.prompt_ids) for a in attempts}
    sampled = sum(len(one.rollout.completion_ids) for one in [*solved, *attempts])
    learned = tokens_of([s for s in samples if abs(s.advantage) > 1e-9])
    spent["read"] += sum(len(ids) for _, ids in prompts)
    spent["sampled"] += sampled
    spent["learned"] += learned
    parameters = sum(
        p.numel() for n, p in run.population.learner.model.named_parameters() if ".lora_" not in n
    )
    tokens = sum(len(ids) for _, ids in prompts) + sampled
    spent["FLOP"] += 2 * parameters * (tokens + 2 * learned)


def tokens_of(samples: Sequence[TrainingSample]) -> int:
    """Return the different tokens of samples: a prompt counts once for each member."""
    prompts = {(s.member, s.rollout.prompt_ids) for s in samples}
    return sum(len(ids) for _, ids in prompts) + sum(len(s.rollout.completion_ids) for s in samples)


def matmul_rate() -> float:
    """Return the FLOP a CPU second of a square product in float32."""
    x = torch.randn(SIZE, SIZE)
    start = time.process_time()
    for _ in range(4):
        x @ x
    return 4 * 2 * SIZE**3 / (time.process_time() - start)


def measure(config: Config, steps: int) -> Row:
    """Take so many steps; return the means per step."""
    spent: Counter[str] = Counter()
    rates = []
    with tempfile.TemporaryDirectory() as home, new_run(config, Path(home) / "run") as run:
        for step in range(1, steps + 1):
            if step == 2:
                spent.clear()
            rates.append(matmul_rate())
            take_step(run, step, spent)
    row = {phase: spent[phase] / (steps - 1) for phase in PHASES}
    row["step"] = sum(row.values())
    row["floor"] = spent["FLOP"] / (steps - 1) / max(rates)
    row["times floor"] = row["step"] / row["floor"]
    return row | {n: round(spent[n] / (steps - 1)) for n in ("read", "sampled", "learned")}


def main() -> None:
    options = parser(__doc__, steps=6)
    options.add_argument("--only", choices=POPULATIONS, help="print this one's figures as JSON")
    args = options.parse_args()
    if args.only:
        config = load_preset("nano", "seed=1", "eval.eval_every=0", *POPULATIONS[args.only])
        print(json.dumps(measure(config, args.steps)))
        return
    show(
        [
            {"population": name, **alone(__file__, "--steps", args.steps, "--only", name)}
            for name in POPULATIONS
        ]
    )


if __name__ == "__main__":
    main()
