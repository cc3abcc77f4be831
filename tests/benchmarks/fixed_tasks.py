"""Does the students' update learn? Solve one step's tasks again and again, and train on that.

    python tests/benchmarks/fixed_tasks.py [--steps 25] [--learning-rate 1.5e-3] [--seed 5]

Unlike in self-play the tasks stay the same, so a rising solve rate can only come from the update.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import fmean

from selfplay.config.preset import read_preset
from selfplay.config.run_config import read_config
from selfplay.run.run import Run
from selfplay.step.credit import assign_credit
from selfplay.step.loop import new_run
from selfplay.step.phases import match, propose, solve, verify


def rehearse(run: Run, steps: int) -> None:
    matches = match(run, 1)
    verified = verify(run, propose(run, matches, 1))
    print("| step | student reward | solve rate |\n|---|---|---|")
    for step in range(1, steps + 1):
        solved = solve(run, verified, step)
        credit = assign_credit(solved, run.config)
        run.learner.update([s for s in credit.samples if s.member.startswith("s")])
        if step == 1 or step % 4 == 0:
            reward = fmean(r.reward for r in credit.attempts)
            rate = fmean(s.rho for s in solved if s.verified.task is not None)
            print(f"| {step} | {reward:.2f} | {rate:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--learning-rate", type=float, default=1.5e-3)
    parser.add_argument("--seed", type=int, default=5)
    arguments = parser.parse_args()
    data = read_preset("nano") | {"seed": arguments.seed}
    data["learner"] = data["learner"] | {"learning_rate": arguments.learning_rate}
    config = read_config(data)
    with tempfile.TemporaryDirectory() as home, new_run(config, Path(home) / "run") as run:
        rehearse(run, arguments.steps)


if __name__ == "__main__":
    main()
