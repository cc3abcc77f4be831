"""What an experiment is: arms, controls and seeds, and the settings of every run in it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import yaml

from selfplay.config.preset import read_preset
from selfplay.config.run_config import RunConfig, config_text, override, read_config
from selfplay.errors import ConfigError
from selfplay.records.ranges import Count

Settings = Mapping[str, Any]
"""Values by dotted key, such as `learner.learning_rate`."""
Seeds = tuple[Count, ...]


@dataclass(frozen=True)
class Plan:
    """An experiment: every arm, and every control of every arm, with every seed."""

    name: str
    arms: Mapping[str, Settings]
    """What sets each arm apart."""
    seeds: Seeds
    question: str = ""
    preset: str | None = "nano"
    """Settings to start from."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Nested settings on top of the preset's."""
    set: Settings = field(default_factory=dict)
    """Settings of all arms and controls."""
    controls: Mapping[str, Settings] = field(default_factory=dict)
    """What is changed in every arm to see it without an effect."""
    control_seeds: Seeds = ()
    """Seeds of the controls; empty: those of the arms."""
    contrasts: tuple[tuple[str, str], ...] = ()
    """Pairs of arms, first minus second; empty: every arm minus the first one."""
    findings: Literal["paper"] | None = None
    """Questions answered with a verdict: `paper`, or none."""

    def run_config(self, arm: str, control: str | None, seed: int) -> RunConfig:
        """Return the settings of one run; raises ConfigError that names arm and control."""
        data: dict[str, Any] = {} if self.preset is None else read_preset(self.preset)
        _merge(data, self.config)
        changes = [self.set, self.arms[arm], self.controls[control] if control else {}]
        try:
            for settings in changes:
                for key, value in settings.items():
                    override(data, f"{key}={json.dumps(value)}")
            return read_config(data | {"seed": seed})
        except ConfigError as error:
            where = f"arm {arm!r}" + (f" with control {control!r}" if control else "")
            raise ConfigError(f"{where}: {str(error).removeprefix('--set ')}") from error


def resolved(plan: Plan) -> Plan:
    """Return the plan with all settings spelt out: presets may change between versions."""
    first = next(iter(plan.arms))
    shared = Plan(plan.name, {first: {}}, plan.seeds, "", plan.preset, plan.config, plan.set)
    config = yaml.safe_load(config_text(shared.run_config(first, None, 0)))
    del config["seed"]
    values = {f.name: getattr(plan, f.name) for f in fields(plan)}
    return Plan(**values | {"preset": None, "config": config, "set": {}})


def plan_text(plan: Plan) -> str:
    """Return the plan as YAML that `read_plan` takes back."""
    return yaml.safe_dump(json.loads(json.dumps(asdict(plan))), sort_keys=False, allow_unicode=True)


def differences(one: Plan, other: Plan) -> list[str]:
    """Return what sets two plans apart, as `key: value against value`."""
    left, right = (flat(json.loads(json.dumps(asdict(p)))) for p in (one, other))
    return [
        f"{key}: {left.get(key, 'nothing')!r} against {right.get(key, 'nothing')!r}"
        for key in dict.fromkeys([*left, *right])
        if left.get(key) != right.get(key)
    ]


def _merge(data: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping):
            _merge(data.setdefault(key, {}), value)
        else:
            data[key] = value


def flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        inner = isinstance(value, Mapping) and value
        found |= flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return found
