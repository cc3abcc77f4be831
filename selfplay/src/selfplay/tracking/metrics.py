"""A step's numbers by the names that trackers show; TRL's where TRL has the same thing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from evals.frames.columns import flattened
from selfplay.records.step_row import StepRow
from selfplay.records.yardstick_row import YardstickRow

OF_RUN = {
    "teacher_reward": "rewards/teacher/mean",
    "student_reward": "rewards/student/mean",
}
"""Names of a step's fields in `metrics.jsonl` that are others here."""
OF_MEMBER = {
    "clip_ratio": "clip_ratio/region_mean",
    "importance_sampling_ratio": "sampling/importance_sampling_ratio/mean",
    "logp_difference_max": "sampling/sampling_logp_difference/max",
}
"""The same of a member's fields."""


def step_metrics(
    row: StepRow, measured: Sequence[YardstickRow], learning_rate: float
) -> dict[str, float]:
    """Return what a step and the measurement after it have of numbers; what is unknown is absent.

    A member's stand under its name (`s0/entropy`), ratings as `ratings/s0/mu` and `/sigma`, what
    was measured as `held_out/s0/difference` and `teaching/t0/base_solve_rate`.
    """
    fields = msgspec.to_builtins(row)
    del fields["step"]
    members, ratings = fields.pop("members"), fields.pop("ratings")
    found = dict(_numbers({OF_RUN.get(name, name): value for name, value in fields.items()}))
    found |= {"step_time": sum(row.seconds.values()), "learning_rate": learning_rate}
    for member, values in members.items():
        named = {OF_MEMBER.get(name, name): value for name, value in values.items()}
        found |= _numbers(named, f"{member}/")
    for member, (mu, sigma) in ratings.items():
        found |= {f"ratings/{member}/mu": mu, f"ratings/{member}/sigma": sigma}
    return found | measured_metrics(measured)


def measured_metrics(measured: Sequence[YardstickRow]) -> dict[str, float]:
    """Return the numbers of one measurement of all living members."""
    found: dict[str, float] = {}
    for row in measured:
        fields = msgspec.to_builtins(row)
        for part, name in (("solving", "held_out"), ("teaching", "teaching")):
            found |= _numbers(fields.get(part, {}), f"{name}/{row.member}/")
    return found


def _numbers(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    for name, value in flattened(fields, above):
        if isinstance(value, int | float):
            yield name, float(value)
