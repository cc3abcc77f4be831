"""The benchmarks by name."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import cache

from evals.benchmarks.benchmark import Benchmark
from evals.benchmarks.nano import DESCRIPTIONS, load_nano
from evals.errors import EvalsError

BENCHMARKS: dict[str, Callable[[str], Benchmark]] = dict.fromkeys(DESCRIPTIONS, load_nano)
"""Name -> the function that loads it."""


@cache
def load_benchmark(name: str) -> Benchmark:
    """The benchmark called `name`. Raises EvalsError for a name that is not known."""
    if name not in BENCHMARKS:
        close = get_close_matches(name, BENCHMARKS, n=1)
        hint = (
            f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(BENCHMARKS)}"
        )
        raise EvalsError(f"unknown benchmark {name!r}; {hint}")
    return BENCHMARKS[name](name)
