"""Members that start from a given adapter instead of fresh ones."""

from pathlib import Path

from evals.engine.base_model import same_base
from evals.errors import EvalsError
from lora_evo import LoraEvoError, load_adapter
from selfplay.config.run_config import RunConfig
from selfplay.errors import ConfigError
from selfplay.population.parts import PopulationLearner


def start_from(learner: PopulationLearner, config: RunConfig) -> None:
    """Give every member the factors of `warm_start`, if the configuration names one.

    Raises ConfigError, one line, for an adapter of another base, other modules or another rank.
    """
    if config.warm_start is None:
        return
    place = Path(config.warm_start)
    try:
        adapter = load_adapter(place)
    except (LoraEvoError, OSError) as error:
        raise ConfigError(
            f"warm_start: cannot read {place}: {error}; expected a PEFT adapter, such as "
            "`selfplay warmup` makes"
        ) from error
    named = adapter.config.base_model_name_or_path
    if named is None or not same_base(named, config.base):
        raise ConfigError(
            f"warm_start: {place} is an adapter of {named}, and base is {config.base}; give one "
            "made with `selfplay warmup --base` for this base"
        )
    try:
        for member in learner.members:
            learner.replace(member, adapter, member)
    except EvalsError as error:
        raise ConfigError(
            f"warm_start: {place} does not fit learner.r={config.learner.r} and "
            f"learner.target_modules: {error}"
        ) from error
