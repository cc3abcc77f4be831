"""What a base model offers to learn, before any learning: noise scales and detectability.

One teacher and one student, both equal to the base, write and solve one large batch. For each role
the gradient of the loss is cut into groups: whole tasks, dealt in turn. Printed are the noise scale
(McCandlish et al. 2018), and how far the squared length of the true gradient is above 0, in
standard errors (the mean of the products of different groups' gradients, jackknifed over groups).

    python tests/benchmarks/nano_headroom.py [--base DIR] [--proposals 2000]
"""

import argparse
import tempfile
from pathlib import Path

import torch

from selfplay.config.preset import read_preset
from selfplay.config.run_config import override, read_config
from selfplay.learning.batch import batch_rows
from selfplay.learning.update_stats import StatsSum
from selfplay.step.credit import assign_credit
from selfplay.step.loop import new_run
from selfplay.step.phases import match, propose, solve, verify

GROUPS = 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="nano")
    parser.add_argument("--proposals", type=int, default=2000)
    parser.add_argument("--loss-type", default="grpo")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    data = read_preset("nano")
    for assignment in (
        f"base={arguments.base}",
        f"seed={arguments.seed}",
        f"threads={arguments.threads}",
        *("teachers=1", "students=1", "yardstick.eval_every=0", "yardstick.same_tasks=0"),
        f"rollout.proposals={-(-arguments.proposals // 3)}",
        *("rollout.seed_tasks=256", "rollout.max_rows=512"),
        f"learner.noise_groups={GROUPS}",
        f"learner.loss_type={arguments.loss_type}",
    ):
        override(data, assignment)
    with (
        tempfile.TemporaryDirectory() as folder,
        new_run(read_config(data), Path(folder) / "run") as run,
    ):
        solved = solve(run, verify(run, propose(run, match(run, 1), 1)), 1)
        credit = assign_credit(solved, run.config)
        rows = batch_rows(credit.samples, run.learner.adapters, run.config.learner)
        sums = {row.member: StatsSum() for row in rows}
        found = run.learner.backward([row for row in rows if row.has_signal], sums)
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
