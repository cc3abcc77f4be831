"""How a run moves: oscillation of its solve rate, and changes of lead between the roles."""

from itertools import pairwise
from statistics import fmean

import numpy as np

from selfplay.experiment.evidence.statistics import Floats
from selfplay.experiment.evidence.trials import Trial
from selfplay.report.reading.trend import smooth


def oscillation(trial: Trial) -> Floats | None:
    """Return the standard deviation of the solve rate around its straight trend, in [0, 1].

    The curve over steps is smoothed first (a Gaussian whose standard deviation is a twentieth of
    the run), then its least-squares line is taken off. Sampling noise is left in it, and in the
    control's as well.
    """
    points = smooth([(s.step, s.solve_rate) for s in trial.run.steps])
    if len(points) < 4:
        return None
    x, y = np.array(points, float).T
    return np.array([np.std(y - np.polyval(np.polyfit(x, y, 1), x))])


def changes_of_lead(trial: Trial) -> Floats | None:
    """Return how often the lead in ratings changes between teachers and students, per 100 steps.

    The role leads whose living members have the higher mean rating; the difference is smoothed as
    the solve rate is, so that a flicker around equality does not count as turns.
    """
    differences = []
    for step in trial.run.steps:
        means = [
            [mu for name, (mu, _) in step.ratings.items() if name.startswith(role)]
            for role in ("t", "s")
        ]
        if not all(means):
            return None
        differences.append((step.step, fmean(means[0]) - fmean(means[1])))
    signs = [value > 0 for _, value in smooth(differences)]
    changes = sum(a != b for a, b in pairwise(signs))
    return np.array([100 * changes / len(signs)])
