"""A confidence interval for a share."""

import math

_Z95 = 1.959963984540054


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % score interval of a share of `count` trials (Wilson 1927).

    centre = (p + z^2/2n) / (1 + z^2/n), half = z sqrt(p(1-p)/n + z^2/4n^2) / (1 + z^2/n). It stays
    in [0, 1] and is right for shares near 0 and 1, where p +- z sqrt(p(1-p)/n) is not. (0, 1) for
    no trials.
    """
    if count == 0:
        return 0.0, 1.0
    spread = _Z95**2 / count
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)
