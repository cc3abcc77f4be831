"""Which data a benchmark is loaded from."""

from dataclasses import dataclass
from pathlib import Path

from evals.errors import EvalsError


@dataclass(frozen=True)
class Data:
    """file: of the user's own; None is where the benchmark is published.

    release, since, until: a part of LiveCodeBench, by its releases and by contest dates.
    """

    file: Path | str | None = None
    release: str | None = None
    since: str | None = None
    until: str | None = None


PUBLISHED = Data()
"""All of a benchmark, as it is published."""


def undated(data: Data, benchmark: str) -> Data:
    """The same. Raises EvalsError when it asks for a part that only LiveCodeBench has."""
    if data.release or data.since or data.until:
        raise EvalsError(
            f"{benchmark} has neither releases nor dates; --release, --since and --until are for "
            "livecodebench"
        )
    return data
