"""Plans as files: strictly read, so that a slip of the pen does not cost a day of runs."""

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from selfplay.config.run_config import override
from selfplay.config.settings import one_of, read_settings
from selfplay.errors import ConfigError
from selfplay.experiment.design.plan import Plan, flat

_PLANS = files("selfplay.experiment") / "plans"
_NAME = re.compile(r"\w[\w+. -]*")


def plan_names() -> list[str]:
    """Return the names of the plans that come with the package."""
    return sorted(f.name.removesuffix(".yaml") for f in _PLANS.iterdir() if ".yaml" in f.name)


def open_plan(place: str, assignments: Sequence[str] = ()) -> Plan:
    """Read a plan from a file or by the name of a shipped one; `a.b=c` go on top for all arms."""
    path = Path(place)
    if place in plan_names():
        data = yaml.safe_load((_PLANS / f"{place}.yaml").read_text())
    else:
        if not path.is_file():
            close = get_close_matches(place, plan_names(), n=1)
            hint = f"did you mean {close[0]}?" if close else f"shipped: {', '.join(plan_names())}"
            raise ConfigError(f"{place} is neither a file nor a shipped plan; {hint}")
        try:
            data = yaml.safe_load(path.read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ConfigError(f"cannot read {place} as YAML: {error}") from error
    if assignments and isinstance(data, dict):
        for assignment in assignments:
            more: dict[str, Any] = {}
            override(more, assignment)
            data["set"] = {**(data.get("set") or {}), **flat(more)}
    return read_plan(data, place)


def read_plan(data: object, place: str) -> Plan:
    """Build a plan from plain values and check the settings of every run in it.

    Raises ConfigError that names the place, what was found and what was expected.
    """
    try:
        return _read(data)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _read(data: object) -> Plan:
    plan = read_settings(data, Plan)
    for name in ("name", "arms", "seeds"):
        if not getattr(plan, name):
            raise ConfigError(f"{name} is empty; expected name, arms and seeds")
    arms = list(plan.arms)
    for key, names in (("arms", arms), ("controls", list(plan.controls))):
        for name in names:
            if not _NAME.fullmatch(name) or name.startswith("seed-"):
                raise ConfigError(
                    f"{key}: {name!r} is no name; expected letters, digits, and + . _ - or blanks"
                )
        if len({name.replace(" ", "-") for name in names}) < len(names):
            raise ConfigError(f"{key}: two names differ in blanks and hyphens only")
    for key, seeds in (("seeds", plan.seeds), ("control_seeds", plan.control_seeds)):
        if len(set(seeds)) < len(seeds):
            raise ConfigError(f"{key} is {list(seeds)}; expected different whole numbers")
    for arm in (arm for pair in plan.contrasts for arm in pair):
        if arm not in arms:
            raise ConfigError(f"contrasts: {arm!r} is no arm; {one_of(arm, arms)}")
    for arm in arms:
        for control in (None, *plan.controls):
            plan.run_config(arm, control, plan.seeds[0])
    return replace(
        plan,
        question=plan.question.strip(),
        control_seeds=plan.control_seeds or plan.seeds,
        contrasts=plan.contrasts or tuple((arm, arms[0]) for arm in arms[1:]),
    )
