"""The runs of a comparison and the arms that they belong to, by a plan or by what users name."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from os import PathLike
from pathlib import Path

from selfplay.config import Config, set_by_mode
from selfplay.errors import RunDirectoryError
from selfplay.experiments.experiment import PLAN, Plan, open_plan, planned_runs
from selfplay.experiments.measures import Group, Trial, read_trial
from selfplay.files.read import flat

_SEED = re.compile(r"[-_./]*seed[-_=]?\d+$")


def open_trials(places: Sequence[str | PathLike[str]]) -> tuple[Plan, list[Trial]]:
    """Return the plan and the runs of an experiment's directory, or of any runs as in `compare`."""
    named = [_name_and_folder(os.fspath(place)) for place in places]
    homes = [folder for _, folder in named if (folder / PLAN).is_file()]
    if homes and (len(places) > 1 or named[0][0]):
        raise RunDirectoryError(
            f"{homes[0]} is a whole experiment; compare it alone, or name run directories only"
        )
    if not homes:
        return _read_apart(named)
    plan = open_plan(str(homes[0] / PLAN))
    trials = [
        read_trial(directory, Group(run.arm, run.control), run.seed)
        for run in planned_runs(plan)
        if ((directory := homes[0] / run.folder) / "metrics.jsonl").is_file()
    ]
    if not trials:
        raise RunDirectoryError(f"{homes[0]} has no run with a finished step yet")
    return plan, trials


def _name_and_folder(place: str) -> tuple[str, Path]:
    """Return the name, or nothing, and the folder of `[NAME=]FOLDER`; a path may have a `=`."""
    if Path(place).is_dir():
        return "", Path(place)
    name, _, folder = place.partition("=")
    is_named = bool(name.strip() and folder)
    if is_named and Path(folder).is_dir():
        return name.strip(), Path(folder)
    here = f"{folder!r} for the name {name!r}" if is_named else f"{place!r}"
    raise RunDirectoryError(f"there is no folder {here}; expected RUN or NAME=RUN")


def _read_apart(named: Sequence[tuple[str, Path]]) -> tuple[Plan, list[Trial]]:
    """Read runs that no plan names, arm by arm."""
    trials = [read_trial(folder, Group(name), 0) for name, folder in named]
    settings = [{k: str(v) for k, v in flat(trial.run.config).items()} for trial in trials]
    seeds = [int(of_run.pop("seed", 0)) for of_run in settings]
    arms: dict[str, list[int]] = {}
    """By name, or by folder up to its seed and by settings where there is none: indices of runs."""
    for i, (name, folder) in enumerate(named):
        place = _SEED.sub("", str(folder.resolve()))
        arms.setdefault(name or json.dumps([place, settings[i]]), []).append(i)
    names: list[str] = []
    for runs in arms.values():
        _check_seeds([(named[i], seeds[i], settings[i]) for i in runs])
        names.append(named[runs[0]][0])
    names = _arm_names(names, [[named[i][1] for i in runs] for runs in arms.values()])
    runs_of = dict(zip(names, arms.values(), strict=True))
    plan = Plan(
        "comparison",
        _what_differs({name: settings[runs[0]] for name, runs in runs_of.items()}),
        tuple(sorted(set(seeds))),
        arm_seeds={name: tuple(sorted(seeds[i] for i in runs)) for name, runs in runs_of.items()},
        contrasts=tuple((name, names[0]) for name in names[1:]),
    )
    group = {i: Group(name) for name, runs in runs_of.items() for i in runs}
    return plan, [replace(t, group=group[i], seed=seeds[i]) for i, t in enumerate(trials)]


def _what_differs(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return by arm the settings that are not the same in all arms; `-` where one is not set."""
    keys = dict.fromkeys(key for of_arm in settings.values() for key in of_arm)
    differ = [key for key in keys if len({s.get(key) for s in settings.values()}) > 1]
    modes = {s.get("mode") for s in settings.values()}
    if len(modes) > 1:  # what a mode sets is named only where arms of one mode differ in it
        by_mode = {
            key
            for key in set_by_mode(Config())
            if len({(s.get("mode"), s.get(key)) for s in settings.values()}) == len(modes)
        }
        differ = [key for key in differ if key not in by_mode]
    return {name: {key: s.get(key, "-") for key in differ} for name, s in settings.items()}


def _check_seeds(runs: Sequence[tuple[tuple[str, Path], int, Mapping[str, str]]]) -> None:
    """Refuse an arm whose runs differ in more than the seed, or have a seed in common."""
    (name, first), _, expected = runs[0]
    seen: dict[int, Path] = {}
    for (_, folder), seed, settings in runs:
        differ = [k for k in (*expected, *settings) if expected.get(k) != settings.get(k)]
        if differ:
            one, two = expected.get(differ[0], "-"), settings.get(differ[0], "-")
            raise RunDirectoryError(
                f"{first} and {folder} are both called {name!r} and differ in {differ[0]} ({one} "
                f"and {two}); runs of one name differ in the seed only: give them two names"
            )
        if seen.get(seed) == folder:
            raise RunDirectoryError(f"{folder} is named twice; name each run once")
        if seed in seen:
            raise RunDirectoryError(
                f"{seen[seed]} and {folder} have the same settings and seed {seed}; give them two "
                f"names, such as A={seen[seed]} B={folder}"
            )
        seen[seed] = folder


def _arm_names(names: Sequence[str], folders: Sequence[Sequence[Path]]) -> list[str]:
    """Return the names of arms; one without is called after its folders, as long as needed.

    `runs/big-seed1` and `runs/big-seed2` are `big`, and so are `big/seed-1` and `big/seed-2`.
    """
    parts = [[path.resolve().parts for path in paths] for paths in folders]
    longest = max(len(path) for paths in parts for path in paths)
    for seeds, depth in product(("", "kept"), range(1, longest + 1)):
        arms = []
        for name, paths in zip(names, parts, strict=True):
            short = ["/".join(path[-depth:]) for path in paths]
            if len(short) > 1 and not seeds:
                short = [_SEED.sub("", text) for text in short]
            arms.append(name or ", ".join(dict.fromkeys(filter(None, short))))
        if all(arms) and len(set(arms)) == len(arms):
            break
    return arms
