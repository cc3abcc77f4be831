"""Quantiles of metrics over a set of programs."""

from collections.abc import Sequence
from dataclasses import asdict

from code_verifier.metrics import Metrics

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of sorted values, interpolated linearly."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def summarise(metrics: Sequence[Metrics]) -> dict[str, dict[str, float]]:
    """For every number of Metrics: mean and quantiles, named `mean`, `p0` to `p100`."""
    rows = [asdict(item) for item in metrics]
    table: dict[str, dict[str, float]] = {}
    for name in rows[0] if rows else ():
        if name == "structure":
            continue
        values = sorted(float(row[name]) for row in rows)
        table[name] = {"mean": sum(values) / len(values)}
        table[name] |= {f"p{round(100 * q)}": quantile(values, q) for q in QUANTILES}
    return table
