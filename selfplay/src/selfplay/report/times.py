"""Where the time of a run went: seconds of its phases, and who kept the others waiting."""

from collections.abc import Sequence

from selfplay.report.reading.run_data import Run
from selfplay.report.reading.worker_times import WorkerTime, straggler
from selfplay.report.words import figure

PHASES = ("match", "propose", "verify", "solve", "update", "evolve", "publish", "save")


def phase_seconds(run: Run) -> dict[str, float]:
    """Return the seconds per phase over the whole run, known phases first, in their order."""
    found = {name for step in run.steps for name in step.seconds}
    names = [name for name in PHASES if name in found] + sorted(found - set(PHASES))
    return {name: sum(step.seconds.get(name, 0.0) for step in run.steps) for name in names}


def waited_for(times: Sequence[WorkerTime]) -> str:
    """Return a sentence: how busy the workers were, and who kept the others waiting."""
    shares = [time.share for time in times]
    low, high = figure(min(shares), share=True), figure(max(shares), share=True)
    text = f"Each worked {low} to {high} of its time" if low != high else f"Each worked {low}"
    slowest = straggler(times)
    if slowest is None:
        return f"{text}; none kept the others waiting."
    return f"{text}; the others waited for {slowest.name} on {slowest.host}."
