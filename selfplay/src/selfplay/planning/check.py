"""Plans of one base on one device, and the refusal of a run that cannot fit."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec

from evals.errors import EvalsError
from selfplay.errors import ConfigError
from selfplay.planning.architecture import read_architecture
from selfplay.planning.machine import Machine, found_machine
from selfplay.planning.plan import make_plan
from selfplay.planning.plan_text import verdict
from selfplay.planning.remedies import Reckon, remedies
from selfplay.run.config import RunConfig, override, read_config


def reckoner(
    base: str, machine: Machine, *, prompt_tokens: int | None = None, fill: float = 0.5
) -> Reckon:
    """Return what makes the plan of a configuration of this base on this device."""
    model = read_architecture(base)
    return partial(make_plan, model=model, machine=machine, prompt_tokens=prompt_tokens, fill=fill)


def adjusted(config: RunConfig, changes: Sequence[str]) -> RunConfig:
    """Return the configuration after these assignments."""
    data: dict[str, Any] = msgspec.to_builtins(asdict(config))
    for change in changes:
        override(data, change)
    return read_config(data)


def refuse_what_cannot_fit(config: RunConfig) -> None:
    """Raise ConfigError, in the words of the plan, for a run that surely does not fit.

    A base whose shape is not known, or a device that is not there, is left to who loads it.
    """
    try:
        machine = found_machine(config.device, config.threads)
        reckon = reckoner(config.base, machine)
    except (ConfigError, EvalsError):
        return
    if reckon(config).surely_too_large:
        line = verdict(reckon(config), remedies(config, reckon))
        raise ConfigError(f"{line}; or try anyway with --force")
