"""Held-out gain over steps: the mean over seeds of every arm, with a band of all of them."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from selfplay.experiment.evidence.gains import Who
from selfplay.experiment.evidence.trials import Group, Trial
from selfplay.report.curves import colour
from selfplay.report.markup import element, figure
from selfplay.report.plot_frame import (
    Frame,
    axes,
    drawing,
    hover_strips,
    panel,
    step_range,
    value_range,
)

Track = dict[int, list[float]]
"""The value of every seed, by step."""


def gain_panel(
    title: str, hint: str, trials: Sequence[Trial], groups: Sequence[Group], who: Who
) -> str:
    """Return a panel with a line an arm and a band from its lowest to its highest seed.

    Empty where no run was measured on held-out tasks.
    """
    tracks = {str(group): _track([t for t in trials if t.group == group], who) for group in groups}
    values = [v for track in tracks.values() for found in track.values() for v in found]
    if len(values) <= len(groups):
        return ""
    steps = sorted({step for track in tracks.values() for step in track})
    frame = Frame(step_range(steps), value_range(values), width=560.0, height=300.0)
    bands, lines = [], []
    for i, track in enumerate(tracks.values()):
        upper = frame.path((x, max(found)) for x, found in track.items())
        lower = frame.path((x, min(found)) for x, found in reversed(track.items()))
        if len(track) > 1:
            bands.append(element("path", d=f"{upper}L{lower[1:]}Z", class_=f"band {colour(i)}"))
            line = frame.path((x, fmean(found)) for x, found in track.items())
            lines.append(element("path", d=line, class_=f"line smooth {colour(i)}"))
    notes = []
    for before, step, after in zip(
        [steps[0], *steps], steps, [*steps[1:], steps[-1]], strict=False
    ):
        shown = [
            f"{name}: {figure(fmean(track[step]))}"
            for name, track in tracks.items()
            if step in track
        ]
        text = "\n".join([f"step {step}", *shown])
        notes.append(((before + step) / 2, (step + after) / 2, text))
    content = axes(frame, "points") + "".join([*bands, *lines]) + hover_strips(frame, notes)
    return panel(title, hint, drawing(frame, content, f"{title} over steps"))


def _track(trials: Sequence[Trial], who: Who) -> Track:
    track: Track = {0: [0.0]} if trials else {}
    for trial in trials:
        for m in trial.measurements:
            track.setdefault(m.step, []).append(100 * float(np.nanmean(who(m))))
    return dict(sorted(track.items()))
