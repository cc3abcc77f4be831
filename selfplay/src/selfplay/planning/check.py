"""Plans of one base on one device, and the refusal of a run that cannot fit."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec

from evals.errors import EvalsError
from selfplay.config.run_config import RunConfig, override, read_config
from selfplay.errors import ConfigError
from selfplay.planning.architecture import read_architecture
from selfplay.planning.machine import Machine, found_machine
from selfplay.planning.plan import make_plan
from selfplay.planning.plan_text import verdict
from selfplay.planning.remedies import Reckon, remedies
from selfplay.planning.share import largest_share, share_of_machine


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


def refuse_what_cannot_fit(config: RunConfig, workers: int = 1) -> None:
    """Raise ConfigError, in the words of the plan, for a run that surely does not fit.

    workers: of this machine, over which members are dealt. A base whose shape is not known, or a
    device that is not there, is left to who loads it.
    """
    try:
        machine = share_of_machine(found_machine(config.device, config.threads), workers)
        reckon = reckoner(config.base, machine)
    except (ConfigError, EvalsError):
        return
    config = largest_share(config, workers)
    if reckon(config).surely_too_large:
        line = verdict(reckon(config), remedies(config, reckon))
        raise ConfigError(f"{line}; or try anyway with --force")
