"""What to change when a run does not fit, what costs least first."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from selfplay.config.run_config import RunConfig
from selfplay.planning.plan import Plan

Reckon = Callable[[RunConfig], Plan]
_ENOUGH = 0.99
"""A change counts when it takes at least a hundredth off."""


def remedies(config: RunConfig, reckon: Reckon) -> list[str]:
    """Return settings, as `--set` takes them, that together make the run fit, or all that help.

    reckon: the plan of a configuration, on the same device.
    """
    found: dict[str, Any] = {}
    plan = reckon(config)
    for settings in _candidates(config):
        if plan.fits:
            break
        changed = config
        for path, value in settings.items():
            changed = _with(changed, path, value)
        smaller = reckon(changed)
        if smaller.peak < _ENOUGH * plan.peak:
            config, plan = changed, smaller
            found |= settings
    return [f"{path}={_text(value)}" for path, value in found.items()]


def _candidates(config: RunConfig) -> list[dict[str, Any]]:
    """Changes in the order of what they cost: nothing, time, precision, what the run is."""
    learner, r = config.learner, config.rollout
    longest = max(r.max_proposal_length, r.max_completion_length)
    known: list[dict[str, Any]] = [
        {"learner.noise_groups": 0},
        {"learner.gradient_checkpointing": True},
        {"vllm.sleep": True},
        *({"learner.micro_batch_tokens": learner.micro_batch_tokens // n} for n in (2, 4, 8, 16)),
        {"rollout.merge_rows": 0},
        *({"rollout.max_rows": max(1, r.max_rows // n)} for n in (2, 4, 8)),
        *({"vllm.gpu_memory_utilization": share} for share in (0.4, 0.3, 0.25)),
        {"learner.optimizer_offload": True},
        {"dtype": "bfloat16"},
        *(
            {
                "rollout.max_proposal_length": min(r.max_proposal_length, longest // n),
                "rollout.max_completion_length": min(r.max_completion_length, longest // n),
                "learner.micro_batch_tokens": min(learner.micro_batch_tokens, longest // n),
            }
            for n in (2, 4)
        ),
        {"learner.r": max(1, learner.r // 2)},
        {"learner.r": max(1, learner.r // 4)},
        *({"teachers": n, "students": n} for n in (4, 2, 1) if n < config.teachers),
    ]
    return [
        settings
        for settings in known
        if all(_get(config, path) not in (None, value) for path, value in settings.items())
        and not ("micro_batch_tokens" in str(settings) and min(settings.values()) < 256)
    ]


def _get(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = getattr(config, name, None)
    return config


def _with(config: Any, path: str, value: Any) -> Any:
    name, _, rest = path.partition(".")
    below = _with(getattr(config, name), rest, value) if rest else value
    if name not in {field.name for field in fields(config)}:
        raise AttributeError(path)
    return replace(config, **{name: below})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
