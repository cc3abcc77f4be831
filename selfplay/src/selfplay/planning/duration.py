"""Seconds of a step at stated rates: arithmetic and reads follow each other, nothing overlaps."""

from selfplay.planning.architecture import Architecture
from selfplay.planning.learner_memory import BYTES
from selfplay.planning.machine import Machine
from selfplay.planning.sampler_memory import cache_bytes
from selfplay.planning.workload import Rows, Workload


def seconds(
    model: Architecture,
    dtype: str,
    step: Workload,
    machine: Machine,
    rows_together: int,
    recomputes: bool,
) -> dict[str, float]:
    """Return seconds by phase for completions of the expected length.

    A token costs two operations a parameter to read or write; to learn from, four, because frozen
    weights have no gradients, and six where activations are computed twice.
    """
    learned = sum(rows.count * (rows.prompt + rows.limit * step.fill) for rows in step.parts)
    passes = 3 if recomputes else 2
    return {
        "propose": _sampling(model, dtype, step.proposals, step.fill, machine, rows_together),
        "solve": _sampling(model, dtype, step.attempts, step.fill, machine, rows_together),
        "update": 2 * model.parameters * learned * passes / machine.flops,
    }


def _sampling(
    model: Architecture, dtype: str, rows: Rows, fill: float, machine: Machine, together: int
) -> float:
    read = rows.prompt * rows.count / rows.samples * 2 * model.parameters / machine.flops
    batch = min(together, rows.count)
    context = rows.prompt + rows.limit * fill / 2
    weights = model.parameters * BYTES[dtype]
    reading = (weights + batch * context * cache_bytes(model, dtype)) / machine.reads
    computing = batch * 2 * model.parameters / machine.flops
    tokens = rows.count * rows.limit * fill
    return read + tokens / batch * (reading + computing)
