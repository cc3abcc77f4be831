"""What a base model offers to learn, before any learning: noise scales and detectability.

    python tests/benchmarks/nano_headroom.py [--base DIR] [--proposals 2000]

One teacher and one student, both equal to the base, write and solve one large batch. For each role
the gradient of the loss is cut into groups of whole tasks, in turn. Printed are the noise scale
(McCandlish et al. 2018), and how far the squared length of the true gradient is above 0, in
standard errors (the mean of the products of different groups' gradients, jackknifed over groups).
"""

import tempfile
from pathlib import Path

import torch
from benchmarking import parser, show

from selfplay import load_preset, match, new_run, propose, solve, training_samples, verify
from selfplay.learning.batch import batch_rows
from selfplay.learning.statistics import StatsSum, gradient_noise

GROUPS = 20
SETTINGS = ("seed=1", "teachers=1", "students=1", "eval.eval_every=0", "eval.same_tasks=0")
SETTINGS += ("rollout.seed_tasks=256", "rollout.max_rows=512", f"learner.noise_groups={GROUPS}")


def signal(groups: list[list[torch.Tensor]]) -> float:
    """Return the mean product of different groups' gradients by its jackknife error."""
    flat = torch.stack([torch.cat([p.flatten() for p in g]) for g in groups]).double()
    gram = flat @ flat.T

    def mean(kept: list[int]) -> float:
        part = gram[kept][:, kept]
        return float((part.sum() - part.trace()) / (len(kept) * (len(kept) - 1)))

    n = len(groups)
    left_out = torch.tensor([mean([j for j in range(n) if j != i]) for i in range(n)])
    error = ((n - 1) / n * (left_out - left_out.mean()).square().sum()).sqrt()
    return mean(list(range(n))) / float(error)


def main() -> None:
    given = parser(__doc__, base="nano", proposals=2000).parse_args()
    own = (f"base={given.base}", f"rollout.proposals={-(-given.proposals // 3)}")
    config = load_preset("nano", *SETTINGS, *own)
    table = []
    with tempfile.TemporaryDirectory() as folder, new_run(config, Path(folder) / "run") as run:
        solved, _ = solve(run, verify(run, propose(run, match(run, 1), 1)), 1)
        learner = run.population.learner
        rows = batch_rows(training_samples(solved, config), learner.adapters, config.learner)
        sums = {row.member: StatsSum() for row in rows}
        found = learner.backward([row for row in rows if row.has_signal], sums)
        for (member, role), gradients in sorted(found.items()):
            mine = [r for r in rows if r.member == member and r.sample.role == role]
            noise = gradient_noise(gradients, mine)
            scale = noise.variance / noise.signal if noise.signal > 0 else float("inf")
            row = {"role": role, "samples": len(mine), "noise scale": scale}
            table.append(
                row
                | {
                    "standard errors above 0": signal(
                        [gradients[group] for group in sorted(gradients)]
                    )
                }
            )
    show(table)


if __name__ == "__main__":
    main()
