"""Memory of this process."""

import resource
import sys


def memory_mb() -> float:
    """Return the largest resident memory that this process has had, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024 if sys.platform != "darwin" else 1024**2), 1)
