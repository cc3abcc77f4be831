"""Keep what the runs of a plan measured, and table it.

    python -m studies.recipe.study keep DIR
    python -m studies.recipe.study table [--minus ARM] NAME...
    python -m studies.recipe.study warnings NAME...

DIR is that of `selfplay experiment PLAN --out DIR`. A kept run is a line of `results/NAME.jsonl`,
NAME that of the plan.
"""

import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml
from studies.collapse.measures import families_of, tasks_in_bins, written
from studies.collapse.niches import FAMILIES, family_of
from studies.recipe import real_model
from studies.shares import share_interval

from selfplay import RunRecord, read_run
from selfplay.experiments.experiment import open_plan
from selfplay.files.intervals import estimate
from selfplay.reports.findings import signs_in

HERE = Path(__file__).parent
RESULTS = HERE / "results"
BIN = 25
"""Steps of a point of a curve, and between two evaluations."""
WINDOW = 3
"""Evaluations whose mean is a student's level."""
REAL = {"recipe-real", "recipe-real-2"}
"""Plans whose runs are of a real model, in another world."""
Row = Mapping[str, Any]
"""A kept run."""


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    keep_parser = commands.add_parser("keep", help="Keep the finished runs of an experiment.")
    keep_parser.add_argument("home", type=Path, metavar="DIR")
    table_parser = commands.add_parser("table", help="Print what was kept.")
    table_parser.add_argument("names", nargs="+", help="Of plans, such as recipe-steady.")
    table_parser.add_argument("--minus", metavar="ARM", help="Subtract this arm, not the first.")
    warnings_parser = commands.add_parser("warnings", help="Print how often a run was warned of.")
    warnings_parser.add_argument("names", nargs="+", help="Of plans, such as recipe-candidates.")
    options = parser.parse_args()
    if options.command == "keep":
        print(f"{keep(options.home)} runs kept")
        return
    rows = [row for name in options.names for row in kept(name)]
    if options.command == "warnings":
        if REAL & {*options.names}:
            sys.exit("runs of a real model are kept without their warnings; name other plans")
        print(warnings(rows), warnings_of_falls(rows), sep="\n\n")
    else:
        arms = [arm for name in options.names for arm in arms_of(name)]
        if options.minus not in {None, *arms}:
            sys.exit(f"no arm {options.minus}; there are {', '.join(arms)}")
        arms.sort(key=lambda arm: arm != options.minus)
        print(table(rows, arms, measures_of(options.names)))


def kept(name: str) -> list[Row]:
    """Return the kept runs of a plan, once each: two may have kept one at the same time."""
    path = RESULTS / f"{name}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return list({(row["arm"], row["seed"]): row for row in rows}.values())


def arms_of(name: str) -> list[str]:
    """Return the arms of a plan in their order, then those that only kept runs have."""
    plans = [yaml.safe_load(p.read_text()) for p in sorted(HERE.glob("plan_*.yaml"))]
    arms = next((list(plan["arms"]) for plan in plans if plan["name"] == name), [])
    return list(dict.fromkeys([*arms, *(row["arm"] for row in kept(name))]))


def measures_of(names: Iterable[str]) -> Mapping[str, Callable[[Row], float]]:
    """Return what a table of these plans has of a run."""
    return REAL_MEASURES if set(names) <= REAL else MEASURES


def keep(home: Path) -> int:
    """Add the finished runs of an experiment that are not kept yet; return how many."""
    plan = open_plan(str(home / "plan.yaml"))
    pairs = {(row["arm"], row["seed"]) for row in kept(plan.name)}
    new = [r for r in plan.runs(home) if (r.arm, r.seed) not in pairs and r.is_finished]
    if not new:
        return 0
    RESULTS.mkdir(exist_ok=True)
    of_run = real_model.measured if plan.name in REAL else measured
    with (RESULTS / f"{plan.name}.jsonl").open("a") as file:
        for run in new:
            row = {"arm": run.arm, "seed": run.seed, "steps": run.config.steps}
            file.write(json.dumps(row | of_run(run.directory), separators=(",", ":")) + "\n")
    return len(new)


def measured(directory: Path) -> dict[str, Any]:
    """Return what is kept of a run.

    base and rates: solve rates on held-out tasks by family, of the frozen base, and by step and
    solver. norms: the longest gradient of each solver in the `BIN` steps up to a step. wrote: what
    teachers wrote in them, see `what_teachers_wrote`. numbers: those of the study of collapse.
    warned: the steps after which `selfplay train` would have warned of a collapse.
    """
    run = read_run(directory)
    family = families_of(run)
    base, rates = run.held_out_rates()

    def by_family(of_tasks: Any) -> list[float]:
        return [round(float(np.nanmean(of_tasks[family == f])), 4) for f in FAMILIES]

    norms: dict[int, dict[str, float]] = defaultdict(dict)
    for step in run.steps:
        at = -(-step.step // BIN) * BIN
        for name, member in step.members.items():
            norm = member.grad_norm
            if isinstance(norm, float) and member.role != "teacher":
                norms[at][name] = round(max(norm, norms[at].get(name, 0.0)), 3)
    return {
        "base": by_family(base),
        "rates": {s: {m: by_family(r) for m, r in of.items()} for s, of in rates.items()},
        "norms": norms,
        "wrote": what_teachers_wrote(run),
        "numbers": {k: v if v is None else round(v, 4) for k, v in written(run).numbers.items()},
        "warned": [s.step for i, s in enumerate(run.steps, 1) if signs_in(run.steps[:i])],
    }


def what_teachers_wrote(run: RunRecord) -> dict[int, list[float]]:
    """Return by the last of every `BIN` steps five shares, of the proposals of these steps alone:
    valid ones; of these, traps, programs that were there before, and flat tasks, which all attempts
    or none solve; and how many of the eight families have a tenth of an even share or more."""
    wrote = {}
    for at, rows in tasks_in_bins(run, BIN).items():
        valid = [row for row in rows if row.accepted]
        count = max(1, len(valid))
        families = Counter(family_of(row.program or "") for row in valid)
        wrote[at] = [
            round(len(valid) / len(rows), 3),
            round(families["z"] / count, 3),
            round(1 - len({row.program for row in valid}) / count, 3),
            round(sum(row.solve_rate in (0.0, 1.0) for row in valid) / count, 3),
            sum(families[f] >= count / (10 * (len(FAMILIES) + 1)) for f in FAMILIES),
        ]
    return wrote


def tracks(row: Row) -> dict[str, list[float]]:
    """Return by student its solve rate at each evaluation, in points; a founder's first is the
    base's."""
    start = 100 * fmean(row["base"])
    curves: dict[str, list[float]] = {}
    for i, of in enumerate(row["rates"].values()):
        for member, rates in of.items():
            curves.setdefault(member, [] if i else [start]).append(100 * fmean(rates))
    return curves


def fall(track: Sequence[float]) -> float:
    """Return how far the mean of `WINDOW` evaluations was below the best such mean before it; nan
    for fewer evaluations, as of a student that was soon replaced."""
    levels = [fmean(track[i : i + WINDOW]) for i in range(len(track) - WINDOW + 1)]
    return max((max(levels[: i + 1]) - level for i, level in enumerate(levels)), default=math.nan)


def falls(row: Row) -> list[float]:
    """Return the fall of each student; all are nan where one has too few evaluations."""
    losses = [fall(track) for track in tracks(row).values()]
    return [math.nan] * len(losses) if any(map(math.isnan, losses)) else losses


def fell(row: Row, points: float) -> float:
    """Return the share of students that fell by more than so many points, in per cent."""
    return 100 * fmean(f if math.isnan(f) else f > points for f in falls(row))


def number(row: Row, name: str) -> float:
    """Return a number of the study of collapse; nan where it has none, as without a valid task."""
    value = row["numbers"].get(name)
    return math.nan if value is None else value


def drops(track: Sequence[float]) -> int:
    """Return how often a student lost five points or more from one evaluation to the next."""
    return sum(a - b >= 5.0 for a, b in pairwise(track))


def gains(row: Row) -> list[float]:
    """Return the students' mean gain over the base at each evaluation, in points."""
    base = fmean(row["base"])
    return [
        100 * (fmean([r for rates in of.values() for r in rates]) - base)
        for of in row["rates"].values()
    ]


def weakest_family(row: Row) -> float:
    """Return the gain at the end on the family on which it is lowest, in points."""
    last = np.mean([*[*row["rates"].values()][-1].values()], axis=0)
    return float(100 * np.min(last - np.array(row["base"])))


def last_third(values: Sequence[float]) -> float:
    """Return the mean of the last third of the values, but those that are nan."""
    late = values[len(values) - -(-len(values) // 3) :]
    return fmean([v for v in late if not math.isnan(v)] or [math.nan])


def flat(row: Row) -> list[float]:
    """Return the share of flat tasks by `BIN` steps, in per cent; nan without a valid task."""
    return [100 * w[3] if w[0] else math.nan for w in row["wrote"].values()]


MEASURES: Mapping[str, Callable[[Row], float]] = {
    "largest fall": lambda row: max(falls(row)),
    "fell > 2, %": lambda row: fell(row, 2),
    "fell > 5, %": lambda row: fell(row, 5),
    "drops": lambda row: sum(map(drops, tracks(row).values())),
    "gain, end": lambda row: gains(row)[-1],
    "last third": lambda row: last_third(gains(row)),
    "weakest family": weakest_family,
    "traps, %": lambda row: 100 * number(row, "traps"),
    "families extinct": lambda row: number(row, "families extinct"),
    "flat, %": lambda row: last_third(flat(row)),
}


FALLEN = {"fell > 2, %": 2.0, "fell > 5, %": 5.0}
"""Measures that count students, and by how many points these fell."""
MOST = {"traps, %": 100.0, "families extinct": float(len(FAMILIES))}
"""Measures that may be all or nothing in a run, and what is all."""
REAL_MEASURES: Mapping[str, Callable[[Row], float]] = {
    "gain, update 10": lambda row: gains(row)[-3],
    "gain, update 20": lambda row: gains(row)[-2],
    "gain, end": MEASURES["gain, end"],
    **real_model.MEASURES,
}


def table(
    rows: Sequence[Row],
    arms: Sequence[str],
    measures: Mapping[str, Callable[[Row], float]] = MEASURES,
) -> str:
    """Return the mean over seeds of each arm and measure, and of each arm minus the first one;
    over those that have the measure."""
    arms = [arm for arm in arms if any(row["arm"] == arm for row in rows)]
    numbers = {
        name: {arm: {r["seed"]: of(r) for r in rows if r["arm"] == arm} for arm in arms}
        for name, of in measures.items()
    }
    lines = [_line(["arm", "seeds", *measures]), _line(["---"] * (2 + len(measures)))]
    for arm in arms:
        of_arm = [row for row in rows if row["arm"] == arm]
        cells = [
            _fallen(of_arm, FALLEN[name]) if name in FALLEN else _cell(by[arm].values(), name)
            for name, by in numbers.items()
        ]
        lines.append(_line([arm, str(sum(r["arm"] == arm for r in rows)), *cells]))
    first = {row["seed"] for row in rows if arms and row["arm"] == arms[0]}
    for arm in arms[1:]:
        both = [row["seed"] for row in rows if row["arm"] == arm and row["seed"] in first]
        cells = [_cell(of[arm][s] - of[arms[0]][s] for s in both) for of in numbers.values()]
        lines.append(_line([f"{arm} − {arms[0]}", str(len(both)), *cells]))
    return "\n".join(lines)


def warnings(rows: Sequence[Row]) -> str:
    """Return how many runs were warned of, of those that ended in traps (half of the valid tasks
    of the last third or more) and of the others, and when; of the first, also when they began to.
    A run without a valid task in the last third is one of the others."""
    lines = [
        _line(["runs", "of them warned", "first warning", "half are traps"]),
        _line(["---"] * 4),
    ]
    for name, is_trapped in (("that ended in traps", True), ("others", False)):
        group = [row for row in rows if ((row["numbers"].get("traps") or 0.0) >= 0.5) is is_trapped]
        first = [str(row["warned"][0]) for row in group if row["warned"]]
        half = [
            next(step for step, shares in row["wrote"].items() if shares[1] >= 0.5)
            for row in group
            if is_trapped
        ]
        cells = [f"{len(group)} {name}", str(len(first)), ", ".join(first), ", ".join(half)]
        lines.append(_line(cells))
    return "\n".join(lines)


def warnings_of_falls(rows: Sequence[Row]) -> str:
    """Return how many students were warned of, which lost five points or more from one evaluation
    to the next, of those that fell by more than that and of the others."""
    lines = [_line(["students", "of them warned"]), _line(["---"] * 2)]
    students = [t for row in rows for t in tracks(row).values() if len(t) >= WINDOW]
    for name, has_fallen in (("that fell by more than 5 points", True), ("others", False)):
        group = [track for track in students if (fall(track) > 5.0) is has_fallen]
        lines.append(_line([f"{len(group)} {name}", str(sum(drops(t) > 0 for t in group))]))
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(values: Iterable[float], name: str = "") -> str:
    """Return a mean over seeds with its interval; a difference that is not shown also has the
    smallest that would have been, by the width of its interval. name: of the measure of an arm."""
    seeds = [np.array([value]) for value in values if not math.isnan(value)]
    mean = estimate(seeds)
    if mean is None:
        return "–"
    low, high = mean.low, mean.high
    if most := MOST.get(name):
        low, high = (most * end for end in share_interval([(float(v[0]) / most, 1) for v in seeds]))
    if low is None or high is None:
        return f"{mean.value:.1f}"
    if name.endswith("%"):
        low, high = max(low, 0.0), min(high, 100.0)
    ends = f"{mean.value:.1f} [{low:.1f}, {high:.1f}]"
    is_shown = bool(name) or not low <= 0.0 <= high
    return (
        ends if is_shown else f"{ends}, shown from {max(mean.value - low, high - mean.value):.1f}"
    )


def _fallen(rows: Sequence[Row], points: float) -> str:
    """Return how many students fell by more than so many points: `3 of 10 [7, 65]`, in per cent."""
    losses = [falls(row) for row in rows]
    counts = [
        (float(sum(f > points for f in of)), len(of)) for of in losses if not np.isnan(of).any()
    ]
    if not counts:
        return "–"
    low, high = share_interval(counts)
    fallen, students = (sum(part) for part in zip(*counts, strict=True))
    return f"{fallen:.0f} of {students} [{100 * low:.0f}, {100 * high:.0f}]"


if __name__ == "__main__":
    main()
