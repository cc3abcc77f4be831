"""What the page is drawn from."""

from dataclasses import dataclass, field

from code_verifier.metrics.measurement import Metrics


@dataclass(frozen=True, slots=True)
class Gathered:
    """Measured programs in the order of their file.

    steps: the step of each, or None. examples: the first program of each structure.
    """

    name: str
    metrics: list[Metrics] = field(default_factory=list)
    steps: list[float | None] = field(default_factory=list)
    examples: dict[str, str] = field(default_factory=dict)
