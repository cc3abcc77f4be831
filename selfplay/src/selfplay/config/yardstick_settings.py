"""What a run measures of itself beside its own tasks."""

from dataclasses import dataclass

from selfplay.records.ranges import AtLeastOne, Count, Positive

NANO = ("nano_code_o", "nano_code_i", "nano_code_f")


@dataclass(frozen=True)
class YardstickConfig:
    """Measurements that stand still while the run's own tasks change."""

    eval_every: Count = 20
    """Steps between two measurements of every living member; 0 switches them off."""
    held_out: tuple[str, ...] = NANO
    """Where held-out tasks come from: `evals` benchmarks made of tasks, or files of tasks."""
    tasks: AtLeastOne = 240
    """Held-out tasks, spread evenly over kinds and levels."""
    samples: AtLeastOne = 3
    """Attempts at each held-out task, with the same seeds at every measurement."""
    temperature: Positive = 1.0
    """Sampling temperature of these attempts."""
    proposals: AtLeastOne = 16
    """Proposals of each kind that a teacher writes at a measurement, after references that never
    change."""
    attempts: AtLeastOne = 4
    """Attempts of the frozen base at each valid one of them."""
    same_tasks: Count = 4
    """Tasks of each match that the frozen base attempts too, in every step; 0 for none."""
