"""Settings that suit a base model: a preset for its size, a template for its tokenizer, limits."""

from collections.abc import Mapping
from typing import Any

from lora_evo.model import TARGET_MODULES
from selfplay.config import Config, load_preset
from selfplay.errors import ConfigError
from selfplay.machine.architecture import Architecture, read_architecture
from selfplay.machine.devices import this_machine
from selfplay.machine.plan import make_plan
from selfplay.tasks.template import template_named
from selfplay.terminal import say

LARGE = 1_000_000_000
"""Number of parameters from which on a base on a GPU gets a 7B preset."""
_LENGTHS = ("max_prompt_length", "max_proposal_length", "max_completion_length")


def config_for(
    base: str, *assignments: str, preset: str | None = None, **values: Any
) -> tuple[Config, str]:
    """Return a configuration that suits a base model, and lines that describe the choice.

    base: `nano`, a folder, or a model's name on the hub. preset: None for one that suits the
    model's size. assignments and values: override settings as in `load_preset`. Raises ConfigError
    or LoraEvoError for a base that cannot be read.
    """
    if base == "nano":
        preset = preset or base
        config = load_preset(preset, *assignments, base=base, **values)
        return config, f"base: {base}; preset {preset}"
    template, why = _template(base)
    model = read_architecture(base)
    preset = preset or preset_for(model)
    defaults = {"base": base, "template": template, **_limits(load_preset(preset), model)}
    options = {key: value for key, value in values.items() if value is not None}
    config = load_preset(preset, *assignments, **defaults | options)
    return config, _description(config, model, preset, why)


def configure(
    base: str | None, preset: str | None, assignments: tuple[str, ...], quiet: bool, **values: Any
) -> Config:
    """Return the configuration of a command's options; with a base, print what was chosen."""
    if base is None:
        return load_preset(preset or "nano", *assignments, **values)
    config, description = config_for(base, *assignments, preset=preset, **values)
    if not quiet:
        say(description, err=True)
    return config


def preset_for(model: Architecture) -> str:
    """Return the preset whose sizes suit a model and fit this machine."""
    machine = this_machine("auto", 0)
    if not machine.is_gpu or model.parameters < LARGE:
        return "smol"
    fits = not model.four_bit and make_plan(load_preset("7b-4t4s"), model, machine).fits
    return "7b-4t4s" if fits else "7b-24gb"


def _template(base: str) -> tuple[str, str]:
    """Return the template for a base's tokenizer, and the reason."""
    from lora_evo.model import load_tokenizer

    if not getattr(load_tokenizer(base), "chat_template", None):
        return "azr", "its tokenizer has no chat template"
    try:
        template_named("azr-chat", base)
    except ConfigError as error:
        return "azr", str(error).partition(";")[0]
    return "azr-chat", "its tokenizer has a chat template"


def _limits(config: Config, model: Architecture) -> Mapping[str, Any]:
    """Return lengths that fit the context, in the preset's proportions, and existing modules."""
    limits: dict[str, Any] = {}
    longest, rollout = config.longest_sample, config.rollout
    if longest is not None and model.context is not None and longest > model.context:
        room = model.context - rollout.prompt_overhead
        whole = longest - rollout.prompt_overhead
        limits["rollout"] = {name: getattr(rollout, name) * room // whole for name in _LENGTHS}
    linear = dict.fromkeys(name for name, _, _ in model.linears)
    if not linear.keys() >= set(config.learner.target_modules):
        limits["learner"] = {"target_modules": tuple(linear)}
    return limits


def _description(config: Config, model: Architecture, preset: str, why: str) -> str:
    r, context = config.rollout, model.context or 0
    targets = config.learner.target_modules
    bits = ", base in 4 bits" if config.load_in_4bit or model.four_bit else ""
    modules = "all linear layers" if targets == TARGET_MODULES else ", ".join(targets)
    return (
        f"base: {model.name}, {model.parameters:,} parameters, context {context:,} tokens\n"
        f"preset {preset}: teachers {config.teachers}, students {config.students}, rank "
        f"{config.learner.r}, engine {config.engine}, {config.dtype}{bits}; another: --preset "
        "NAME\n"
        f"template {config.template}: {why}; another: --set template=azr\n"
        f"tokens: prompts to {r.max_prompt_length or context:,}, proposals to "
        f"{r.max_proposal_length:,}, attempts to {r.max_completion_length:,}; others: "
        "--set rollout.max_completion_length=N and the like\n"
        f"adapters on {modules}; others: --set 'learner.target_modules=[...]'"
    )
