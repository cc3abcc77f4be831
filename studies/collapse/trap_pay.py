"""What traps paid over the steps of an experiment's runs, and how students came to answer them.

    python -m studies.collapse.trap_pay DIR [--bin 50]

A trap has one of four outputs, all as likely. A student that answers it with digit d with
probability q_d solves a trap of output d at rate q_d, so that traps pay, on average over outputs,
the mean over d of 1 - q_d - (1 - q_d)^G. Even answers make the most of it. Nothing about a trap can
be learned, but an answer that was right by luck is reinforced all the same, so q drifts until one
answer has it all, as a gene without effect does in a small population. Then every attempt at a trap
is right or every one is wrong, and no trap pays: 1 - 1 = 0, and 0 for a task that nobody solves. So
the share of traps that are solved always or never tells how far the drift is.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean


def traps(run: Path) -> Iterator[tuple[int, float, float]]:
    """Yield (step, solve rate, teacher's reward) of every trap that students attempted."""
    with (run / "tasks.jsonl").open() as file:
        for row in map(json.loads, file):
            if row["status"] == "ok" and " z(" in row["program"] and row["solve_rate"] is not None:
                yield row["step"], row["solve_rate"], row["reward"]


def main() -> None:
    """Print a table for every arm: all its seeds together."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("home", type=Path, metavar="DIR")
    parser.add_argument("--bin", type=int, default=50, help="Steps of a line.")
    options = parser.parse_args()
    paid: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for run in sorted(options.home.glob("*/seed-*/")):
        for step, rate, reward in traps(run):
            paid[run.parent.name][(step - 1) // options.bin].append((rate, reward))
    for arm, bins in paid.items():
        print(f"{arm}\n   steps   traps  always or never solved   pay")
        for at, some in sorted(bins.items()):
            settled = fmean(rate in (0, 1) for rate, _ in some)
            steps = f"{at * options.bin + 1}-{(at + 1) * options.bin}"
            print(f"{steps:>8}{len(some):8}{settled:25.2f}{fmean(pay for _, pay in some):6.2f}")


if __name__ == "__main__":
    main()
