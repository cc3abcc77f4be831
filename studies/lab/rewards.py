"""Teachers' rewards from papers that selfplay does not name, as examples of the lab."""

from collections import Counter

from selfplay import Proposed


def r_zero(p: Proposed) -> float:
    """Return 1 - 2 |p - 1/2| of p, the share of attempts with the commonest answer.

    The challenger's reward for uncertainty in R-Zero (arXiv 2508.05004), without its penalty for
    repetitions. It asks how far a student agrees with itself, not whether it is right: no verdict
    enters. -1 for a refused proposal, as all built-in rewards have it.
    """
    if p.task is None:
        return -1.0
    answers = Counter(a.answer for a in p.attempts if a.answer is not None)
    commonest = max(answers.values(), default=0)
    return 1.0 - abs(2.0 * commonest / max(1, len(p.attempts)) - 1.0)
