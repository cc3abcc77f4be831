"""What the lab shows of a run over its steps."""

from collections.abc import Mapping

from studies.collapse.measures import written

from selfplay import RunRecord


def traps(run: RunRecord) -> Mapping[int, float]:
    """Return the share of traps among accepted tasks, by the last of every twenty steps."""
    return written(run).traps
