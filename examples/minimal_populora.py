"""PopuLoRA with a loop of your own: two teachers and two students on the built-in nano model.

    python examples/minimal_populora.py [--steps 3] [--seed 0]

All imports are public. `main` is the whole loop: remove, replace or add a phase. The reward and the
replacement of students are defined in this file. `selfplay.train` does the same with checkpoints,
evaluation and reports.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from league import League, Pair
from lora_evo import distance, mutate
from selfplay import (
    Proposed,
    Run,
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

SETTINGS = (
    *("rollout.kinds=[code_o, code_i]", "rollout.proposals=4", "rollout.num_generations=4"),
    *("eval.eval_every=0", "eval.same_tasks=0"),
)


def half_solved(proposed: Proposed) -> float:
    """Pay a teacher most for tasks that half of the attempts solve; fine it for refused ones."""
    if proposed.task is None:
        return -1.0
    return 1.0 - abs(2.0 * proposed.solve_rate - 1.0)


def evolve(run: Run, league: League, step: int) -> str:
    """Replace the weakest student by a mutated copy of the strongest; return who by whom."""
    best = league.leaderboard("student")[0].member
    weakest = next(iter(league.select("student", 1)), best)  # it spares the newborn, perhaps all
    if best == weakest:
        return "no one replaced"
    child, parent = f"s{run.born['student']}", run.population.export(best)
    run.born["student"] += 1
    adapter = mutate(parent, "svd_structured", seed=run.seed(step, child), strength=0.15)
    run.population.replace(weakest, adapter, child)
    league.replace(weakest, child, [best], "svd_structured")
    return f"{weakest} by {child}, {distance(parent, adapter):.2f} away from {best}"


def summary(pair: Pair, solved: Sequence[Proposed]) -> str:
    """Return what came of a match, in words."""
    tasks = [p for p in solved if p.task and (p.teacher, p.student) == (pair.teacher, pair.student)]
    rate = sum(p.solve_rate for p in tasks) / max(1, len(tasks))
    return f"{len(tasks)} tasks by {pair.teacher}, {pair.student} solves {rate:.0%}"


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    config = load_preset("nano", *SETTINGS, steps=arguments.steps, seed=arguments.seed)
    with tempfile.TemporaryDirectory() as folder, new_run(config, Path(folder, "run")) as run:
        assert run.league is not None
        for step in range(1, config.steps + 1):
            matches = match(run, step)
            verified = verify(run, propose(run, matches, step))
            solved, _ = solve(run, verified, step)
            samples = training_samples(solved, config, teacher_reward=half_solved)
            run.population.update(samples, config.learner.schedule(step, config.steps))
            record_outcomes(run, matches, solved)
            for pair in matches:
                print(f"step {step}: {summary(pair, solved)}")
            if step % 2 == 0:
                print(f"step {step}: {evolve(run, run.league, step)}")
            run.population.sync(step)
            remember(run, solved, step)
        for role in ("teacher", "student"):
            for row in run.league.leaderboard(role):
                print(f"{row.member}: rating {row.mu:.1f} ± {row.sigma:.1f}")


if __name__ == "__main__":
    main()
