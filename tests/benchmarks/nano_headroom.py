"""What a base model offers to learn, before any learning: noise scales and detectability.

One teacher and one student, both equal to the base, write and solve one large batch. For each role
the gradient of the loss is cut into groups: whole tasks, dealt in turn. Printed are the noise scale
(McCandlish et al. 2018), and how far the squared length of the true gradient is above 0, in
standard errors (the mean of the products of different groups' gradients, jackknifed over groups).

    python tests/benchmarks/nano_headroom.py [--base DIR] [--proposals 2000]
"""

import tempfile
from pathlib import Path

import torch
from benchmarking import parser

from selfplay.config import read_config
from selfplay.learning.batch import batch_rows
from selfplay.learning.statistics import StatsSum
from selfplay.rewards import training_samples
from selfplay.settings import override, read_preset
from selfplay.step import match, propose, solve, verify
from selfplay.training import new_run

GROUPS = 20


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--base", default="nano")
    options.add_argument("--proposals", type=int, default=2000)
    arguments = options.parse_args()
    data = read_preset("nano")
    for assignment in (
        f"base={arguments.base}",
        "seed=1",
        "threads=2",
        *("teachers=1", "students=1", "eval.eval_every=0", "eval.same_tasks=0"),
        f"rollout.proposals={-(-arguments.proposals // 3)}",
        *("rollout.seed_tasks=256", "rollout.max_rows=512"),
        f"learner.noise_groups={GROUPS}",
    ):
        override(data, assignment)
    with (
        tempfile.TemporaryDirectory() as folder,
        new_run(read_config(data), Path(folder) / "run") as run,
    ):
        solved = solve(run, verify(run, propose(run, match(run, 1), 1)), 1)
        learner = run.population.learner
        samples = training_samples(solved, run.config)
        rows = batch_rows(samples, learner.adapters, run.config.learner)
        sums = {row.member: StatsSum() for row in rows}
        found = learner.backward([row for row in rows if row.has_signal], sums)
        for (member, role), gradients in sorted(found.items()):
            mine = [r for r in rows if r.member == member and r.sample.role == role]
            noise = gradients.noise(mine)
            signal, error = products(gradients.gradients)
            scale = noise.variance / noise.signal if noise.signal > 0 else float("inf")
            print(
                f"{role}: {len(mine)} samples, noise scale {scale:,.0f}, "
                f"signal {signal / error:.1f} standard errors above 0"
            )


def products(groups: list[list[torch.Tensor]]) -> tuple[float, float]:
    """Return the mean product of different groups' gradients, and its jackknife error."""
    flat = torch.stack([torch.cat([p.flatten() for p in g]) for g in groups]).double()
    gram = flat @ flat.T
    n = len(groups)

    def mean(kept: list[int]) -> float:
        part = gram[kept][:, kept]
        count = len(kept)
        return float((part.sum() - part.trace()) / (count * (count - 1)))

    left_out = torch.tensor([mean([j for j in range(n) if j != i]) for i in range(n)])
    error = ((n - 1) / n * (left_out - left_out.mean()).square().sum()).sqrt()
    return mean(list(range(n))), float(error)


if __name__ == "__main__":
    main()
