"""Does the students' update learn? Solve one step's tasks again and again, and train on that.

    python tests/benchmarks/fixed_tasks.py [--steps 25] [--learning-rate 1.5e-3] [--seed 5]

Unlike in self-play the tasks stay the same, so a rising solve rate can only come from the update.
"""

import tempfile
from pathlib import Path
from statistics import fmean

from benchmarking import parser

from selfplay.config import read_config
from selfplay.rewards import training_samples
from selfplay.run import Run
from selfplay.settings import read_preset
from selfplay.step import match, propose, solve, verify
from selfplay.training import new_run


def rehearse(run: Run, steps: int) -> None:
    matches = match(run, 1)
    verified = verify(run, propose(run, matches, 1))
    print("| step | student reward | solve rate |\n|---|---|---|")
    for step in range(1, steps + 1):
        solved = solve(run, verified, step)
        samples = [s for s in training_samples(solved, run.config) if s.role == "solve"]
        run.population.update(samples)
        if step == 1 or step % 4 == 0:
            reward = fmean(s.reward for s in samples)
            rate = fmean(p.solve_rate for p in solved if p.task is not None)
            print(f"| {step} | {reward:.2f} | {rate:.2f} |", flush=True)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=25)
    options.add_argument("--learning-rate", type=float, default=1.5e-3)
    options.add_argument("--seed", type=int, default=5)
    arguments = options.parse_args()
    data = read_preset("nano") | {"seed": arguments.seed}
    data["learner"] = data["learner"] | {"learning_rate": arguments.learning_rate}
    config = read_config(data)
    with tempfile.TemporaryDirectory() as home, new_run(config, Path(home) / "run") as run:
        rehearse(run, arguments.steps)


if __name__ == "__main__":
    main()
