"""Seconds in each phase of the steps."""

from selfplay.report.reading.run_data import Run

PHASES = ("match", "propose", "verify", "solve", "update", "evolve", "save")


def phase_seconds(run: Run) -> dict[str, float]:
    """Return the seconds per phase over the whole run, known phases first, in their order."""
    found = {name for step in run.steps for name in step.seconds}
    names = [name for name in PHASES if name in found] + sorted(found - set(PHASES))
    return {name: sum(step.seconds.get(name, 0.0) for step in run.steps) for name in names}
