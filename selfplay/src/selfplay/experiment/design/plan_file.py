"""Plans as files: strictly read, so that a slip of the pen does not cost a day of runs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from selfplay.errors import ConfigError
from selfplay.experiment.design.plan import Plan, flat
from selfplay.run.config import override

FINDINGS = ("paper",)
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
    _known(_mapping(data, "a plan"), [f.name for f in fields(Plan)], "")
    assert isinstance(data, Mapping)
    for name in ("name", "arms", "seeds"):
        if not data.get(name):
            raise ConfigError(f"{name} is missing; expected name, arms and seeds")
    arms = {name: _mapping(value, f"arms.{name}") for name, value in _named(data, "arms")}
    controls = {name: _mapping(v, f"controls.{name}") for name, v in _named(data, "controls")}
    seeds = _seeds(data["seeds"], "seeds")
    plan = Plan(
        name=_text(data["name"], "name"),
        question=_text(data.get("question") or "", "question").strip(),
        preset=data.get("preset", "nano"),
        config=_mapping(data.get("config"), "config"),
        set=_mapping(data.get("set"), "set"),
        seeds=seeds,
        arms=arms,
        controls=controls,
        control_seeds=_seeds(data.get("control_seeds") or seeds, "control_seeds"),
        contrasts=tuple(_pair(pair, list(arms)) for pair in data.get("contrasts") or ())
        or tuple((arm, next(iter(arms))) for arm in list(arms)[1:]),
        findings=data.get("findings"),
    )
    if plan.findings not in (None, *FINDINGS):
        raise ConfigError(f"findings is {plan.findings!r}; expected {', '.join(FINDINGS)} or none")
    for arm in arms:
        for control in (None, *controls):
            plan.run_config(arm, control, seeds[0])
    return plan


def _named(data: Mapping[str, Any], key: str) -> Iterable[tuple[str, object]]:
    section = _mapping(data.get(key), key)
    folders = {str(name).replace(" ", "-") for name in section}
    for name in section:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("seed-"):
            raise ConfigError(
                f"{key}: {name!r} is no name; expected letters, digits, and + . _ - or blanks"
            )
    if len(folders) < len(section):
        raise ConfigError(f"{key}: two names differ in blanks and hyphens only")
    return section.items()


def _pair(pair: object, arms: list[str]) -> tuple[str, str]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ConfigError(f"contrasts: {pair!r} is no pair; expected [ARM, ARM]")
    for arm in pair:
        _known([arm], arms, "contrasts: ")
    return (pair[0], pair[1])


def _seeds(value: object, key: str) -> tuple[int, ...]:
    good = isinstance(value, list | tuple) and all(type(s) is int and s >= 0 for s in value)
    if not good or not isinstance(value, list | tuple) or len(set(value)) < len(value):
        raise ConfigError(f"{key} is {value!r}; expected a list of different whole numbers")
    return tuple(value)


def _mapping(value: object, key: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(f"{key} is {value!r}; expected a mapping")
    return value or {}


def _text(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{key} is {value!r}; expected a text")
    return value


def _known(names: Iterable[object], known: list[str], where: str) -> None:
    for name in names:
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {close[0]}?" if close else "known: " + ", ".join(known)
            raise ConfigError(f"{where}unknown key {name!r}; {hint}")
