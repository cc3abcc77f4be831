"""Held-out gain over steps: the mean over seeds of every arm, with a band of all of them."""

from collections.abc import Sequence
from statistics import fmean

import altair as alt
import numpy as np

from selfplay.experiment.evidence.comparison import groups
from selfplay.experiment.evidence.gains import Who, population_mean, weakest_member
from selfplay.experiment.evidence.texts import Comparison
from selfplay.experiment.evidence.trials import Group, Trial
from selfplay.report.curves import banded
from selfplay.report.panels import Panel, Panels

BAND = "Line: mean over seeds; band: lowest to highest seed."


def gain_curves(
    trials: Sequence[Trial], groups: Sequence[Group], who: Who
) -> alt.LayerChart | None:
    """Return a line an arm and a band from its lowest to its highest seed.

    None where no run was measured on held-out tasks.
    """
    rows = [
        {"step": step, "arm": str(group), "gain": fmean(found)}
        | {"low": min(found), "high": max(found)}
        for group in groups
        for step, found in _track([t for t in trials if t.group == group], who).items()
    ]
    if len(rows) <= len(groups):
        return None
    return banded(rows, "arm", [str(group) for group in groups], "points", "gain")


def gain_panels(comparison: Comparison) -> tuple[Panels, list[Panel]]:
    """Return the charts of a comparison, and their panels in order."""
    panels, plan = Panels(), comparison.plan
    arms = [Group(arm) for arm in plan.arms]
    shown = [
        ("Population mean", "All held-out tasks.", arms, population_mean),
        ("Weakest member", "The same of the member with the lowest mean.", arms, weakest_member),
        (
            "Controls",
            "Population mean of the arms' controls.",
            groups(plan)[len(arms) :],
            population_mean,
        ),
    ]
    found = [
        panels.add(title, f"{hint} {BAND}", gain_curves(comparison.trials, some, who))
        for title, hint, some, who in shown
        if some
    ]
    return panels, [panel for some in found for panel in some]


def _track(trials: Sequence[Trial], who: Who) -> dict[int, list[float]]:
    """The value of every seed, by step."""
    track: dict[int, list[float]] = {0: [0.0]} if trials else {}
    for trial in trials:
        for m in trial.measurements:
            track.setdefault(m.step, []).append(100 * float(np.nanmean(who(m))))
    return dict(sorted(track.items()))
