"""What one of several workers takes of a run."""

from dataclasses import replace

from selfplay.config.run_config import RunConfig
from selfplay.planning.machine import Machine


def largest_share(config: RunConfig, workers: int) -> RunConfig:
    """Return the run of the members that the fullest of so many workers holds."""
    return replace(
        config,
        teachers=-(-config.teachers // workers),
        students=-(-config.students // workers),
    )


def share_of_machine(machine: Machine, workers: int) -> Machine:
    """Return what a worker has: a GPU of its own, or its part of the main memory."""
    return machine if machine.is_gpu else replace(machine, memory=machine.memory / workers)
