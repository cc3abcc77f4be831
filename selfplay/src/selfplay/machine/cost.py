"""The hours of a run, estimated from its tokens and the GPU's data sheet without loading anything.

A phase is bound by arithmetic, at the GPU's peak, or by memory bandwidth. No program reaches
either, so hours are a range: at the data sheet's speed, and at `USUAL` of it. Assumed: all
proposals are valid, and texts have half of the length limit. The sandbox runs while texts are
sampled, and is not counted.
"""

from collections.abc import Mapping
from dataclasses import replace

from selfplay.config import Config
from selfplay.machine.architecture import Architecture, read_architecture
from selfplay.machine.devices import CARDS
from selfplay.machine.plan import BYTES, MemoryPlan, Rows, decoded_together, four_bits, micro_batch

USUAL = 0.25
"""Share of the data sheet's speed that a slow run reaches."""
HOW = (
    f" (at its data sheet's speed, and at {USUAL:.0%} of it; valid tasks, texts of half the limit)"
)


def planned_hours(config: Config, plan: MemoryPlan) -> dict[str, float]:
    """Return the hours of each phase of a whole run at the data sheet's speed, divided among the
    plan's workers; empty for a device that is not in `CARDS`."""
    if plan.machine.name not in CARDS:
        return {}
    _, bandwidth, flops = CARDS[plan.machine.name]
    model, e, step = read_architecture(config.base), config.eval, plan.step

    def sampling(rows: Rows) -> float:
        """Return the seconds for these rows: prompts are read once, then tokens decoded in turn."""
        length, together = rows.limit / 2, decoded_together(config, step, rows)
        keys = together * (rows.prompt + length / 2) * model.cache * BYTES[config.dtype]
        token = (_moved(config, model) + keys) / bandwidth
        token = max(token, 2 * model.parameters * together / flops)
        prompts = 2 * model.parameters * rows.prompt / rows.samples / flops
        return rows.count * (prompts + token * length / together)

    def learning(rows: Rows) -> float:
        """Return the seconds of an update: 2 FLOP a weight and token, forward and backward."""
        passes, completed = 2 + config.learner.gradient_checkpointing, rows.count * rows.limit / 2
        tokens = rows.count * rows.prompt / rows.samples + completed  # a shared prompt is read once
        body = passes * sum(i * o for _, i, o in model.linears) * tokens
        head = 2 * model.hidden * model.vocabulary * completed
        batches = tokens / micro_batch(rows, config.learner.micro_batch_tokens)[0]
        moved = batches * passes * _moved(config, model) / bandwidth
        return config.learner.num_iterations * (2 * (body + head) / flops + moved)

    held_out = replace(step.attempts, count=len(config.solvers) * e.tasks * e.samples, samples=1)
    count = len(config.proposers) * len(config.rollout.kinds) * e.proposals
    attempts = replace(step.attempts, count=count * e.attempts, samples=e.attempts)
    evaluations = sum(map(config.measures, range(config.steps + 1)))
    parts = (held_out, replace(step.proposals, count=count), attempts)
    seconds = {
        "proposals": config.steps * sampling(step.proposals),
        "attempts": config.steps * sampling(step.solving),
        "learning": config.steps * sum(map(learning, step.parts)),
        "evaluation": evaluations * sum(map(sampling, parts)),
    }
    return {phase: time / 3600 / plan.workers for phase, time in seconds.items()}


def _moved(config: Config, model: Architecture) -> float:
    """Return the bytes of the base that a pass moves; 4 bits are also written as dense weights."""
    entries, stored = four_bits(model, config)
    return stored + (model.parameters + entries) * BYTES[config.dtype]


def measured_hours(config: Config, seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the hours of each phase of a whole run, from its seconds in one step."""
    once = {"load": 1, "evolve": sum(map(config.evolves, range(1, config.steps + 1)))}
    return {phase: s * once.get(phase, config.steps) / 3600 for phase, s in seconds.items()}


def to_text(hours: Mapping[str, float], title: str, speed: float = 1.0, note: str = "") -> str:
    """Return the hours of a whole run, also at a lower relative speed, and each phase's share."""
    total = sum(hours.values())
    most = f" to {total / speed:,.1f}" if speed < 1 else ""
    shares = (f"  {phase:30}{100 * part / total:7.0f}%" for phase, part in hours.items())
    return "\n".join([f"time, {title}: {total:,.1f}{most} hours{note}", *shares])
