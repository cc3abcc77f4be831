"""A loop of your own with SPIRAL's baselines (arXiv 2506.24119), which survive a resume.

python examples/role_baselines.py RUN [STEPS]    # type it again to resume
"""

import sys
from dataclasses import replace
from pathlib import Path

import selfplay as sp

DECAY = 0.95


def over_baseline(s: sp.TrainingSample, baselines: dict[str, float]) -> sp.TrainingSample:
    """Subtract the running mean of its role and kind of task from a reward, and update the mean."""
    key = f"{s.phase} {s.kind}"
    baselines[key] = DECAY * baselines.get(key, 0.0) + (1 - DECAY) * s.reward
    return replace(s, advantage=s.reward - baselines[key])


def main(home: Path, steps: int = 3) -> dict[str, float]:
    config = sp.load_preset("nano", "rollout.proposals=2", "eval.eval_every=0", steps=steps)
    with sp.open_run(home) if home.exists() else sp.new_run(config, home) as run:
        while run.step < run.config.steps:
            step = run.step + 1
            factor = run.config.learner.schedule(step, run.config.steps)
            matches = sp.match(run, step)
            solved, _ = sp.solve(run, sp.verify(run, sp.propose(run, matches, step)), step)
            samples = [over_baseline(s, run.state) for s in sp.training_samples(solved, run.config)]
            stats = run.population.update(samples, factor)
            sp.record_outcomes(run, matches, solved)
            run.population.sync(step)
            sp.record_step(run, solved, samples, stats)
        return dict(run.state)


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
