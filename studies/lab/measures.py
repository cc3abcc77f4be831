"""What the lab shows of a run over its steps."""

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean

from studies.collapse.measures import BIN, written
from studies.collapse.niches import LEAKED

from selfplay import RunRecord


def traps(run: RunRecord) -> Mapping[int, float]:
    """Return the share of traps among accepted tasks, by the last of every twenty steps."""
    return written(run).traps


def leaks(run: RunRecord) -> Mapping[int, float]:
    """Return the share of tasks that the gate should have refused among accepted ones, likewise."""
    leaked: dict[int, list[bool]] = defaultdict(list)
    for row in run.tasks():
        if row.status == "ok" and row.step <= run.last:
            leaked[-(-row.step // BIN) * BIN].append(row.reason == LEAKED)
    return {step: fmean(flags) for step, flags in sorted(leaked.items())}
