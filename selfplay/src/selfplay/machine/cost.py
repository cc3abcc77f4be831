"""What a run costs in hours, from its tokens and the data sheet of the card, before anything loads.

A phase takes what its arithmetic takes at the card's peak, or what its bytes take at the card's
bandwidth. No program reaches either, so hours are a range: at the data sheet's speed, and at
`USUAL` of it. All proposals are valid, and texts have half of their limit. The sandbox works beside
the sampling and is not counted.
"""

from collections.abc import Mapping
from dataclasses import replace

from selfplay.config import Config
from selfplay.machine.architecture import Architecture, read_architecture
from selfplay.machine.devices import CARDS
from selfplay.machine.plan import BYTES, MemoryPlan, Rows, decoded_together, four_bits, micro_batch

USUAL = 0.25
"""Share of the data sheet's speed that a slow run has."""
HOW = (
    f" (at its data sheet's speed, and at {USUAL:.0%} of it; valid tasks, texts of half the limit)"
)


def planned_hours(config: Config, plan: MemoryPlan) -> dict[str, float]:
    """Return the hours of each phase of a whole run at the data sheet's speed; empty for a device
    without one here. Each of the plan's workers does its part."""
    if plan.machine.name not in CARDS:
        return {}
    _, bandwidth, flops = CARDS[plan.machine.name]
    model, e, step = read_architecture(config.base), config.eval, plan.step

    def sampling(rows: Rows) -> float:
        """Seconds of so many texts: a prompt is read once, then a token of each row at a time."""
        length, together = rows.limit / 2, decoded_together(config, step, rows)
        keys = together * (rows.prompt + length / 2) * model.cache * BYTES[config.dtype]
        token = (_moved(config, model) + keys) / bandwidth
        token = max(token, 2 * model.parameters * together / flops)
        prompts = 2 * model.parameters * rows.prompt / rows.samples / flops
        return rows.count * (prompts + token * length / together)

    def learning(rows: Rows) -> float:
        """Seconds of an update: 2 FLOP a weight and token, forward and back to the base's input."""
        passes, answered = 2 + config.learner.gradient_checkpointing, rows.count * rows.limit / 2
        tokens = rows.count * rows.prompt / rows.samples + answered  # a shared prompt is read once
        body = passes * sum(i * o for _, i, o in model.linears) * tokens
        head = 2 * model.hidden * model.vocabulary * answered
        batches = tokens / micro_batch(rows, config.learner.micro_batch_tokens)[0]
        moved = batches * passes * _moved(config, model) / bandwidth
        return config.learner.num_iterations * (2 * (body + head) / flops + moved)

    held_out = replace(step.attempts, count=config.students * e.tasks * e.samples, samples=1)
    written = config.teachers * len(config.rollout.kinds) * e.proposals
    tried = replace(step.attempts, count=written * e.attempts, samples=e.attempts)
    measured = sum(map(config.measures, range(config.steps + 1)))
    parts = (held_out, replace(step.proposals, count=written), tried)
    seconds = {
        "proposals": config.steps * sampling(step.proposals),
        "attempts": config.steps * sampling(step.attempts),
        "learning": config.steps * sum(map(learning, step.parts)),
        "evaluation": measured * sum(map(sampling, parts)),
    }
    return {phase: time / 3600 / plan.workers for phase, time in seconds.items()}


def _moved(config: Config, model: Architecture) -> float:
    """Bytes of the base in a pass; of 4 bits the dense weights are written besides."""
    entries, stored = four_bits(model, config)
    return stored + (model.parameters + entries) * BYTES[config.dtype]


def measured_hours(config: Config, seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the hours of each phase of a whole run, without evaluations, by seconds of one."""
    once = {"load": 1, "evolve": sum(map(config.evolves, range(1, config.steps + 1)))}
    return {phase: s * once.get(phase, config.steps) / 3600 for phase, s in seconds.items()}


def to_text(hours: Mapping[str, float], what: str, slower: float = 1.0, how: str = "") -> str:
    """Return the hours of a whole run, up to so many times slower, and the share of each phase."""
    whole = sum(hours.values())
    most = f" to {whole / slower:,.1f}" if slower < 1 else ""
    shares = (f"  {phase:30}{100 * part / whole:7.0f}%" for phase, part in hours.items())
    return "\n".join([f"time, {what}: {whole:,.1f}{most} hours{how}", *shares])
