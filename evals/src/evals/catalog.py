"""The benchmarks by name: our own, and those that other installed packages add.

A package adds one by an entry point of the group `evals.benchmarks`: the benchmark's name, and a
function from `Data` to `Benchmark`.
"""

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from evals import cruxeval
from evals.benchmark import Benchmark, Data
from evals.errors import EvalsError, did_you_mean
from evals.evalplus import benchmark as evalplus
from evals.livecodebench import benchmark as livecodebench
from evals.math import benchmark as math

GROUP = "evals.benchmarks"
PUBLISHED = Data()

_MODULES = (evalplus, livecodebench, cruxeval, math)
DESCRIPTIONS: dict[str, str] = {
    name: text for module in _MODULES for name, text in module.DESCRIPTIONS.items()
}
"""Name -> one line, of the benchmarks that this package brings."""
_LOADERS: dict[str, Callable[[str, Data], Benchmark]] = {
    name: module.load for module in _MODULES for name in module.DESCRIPTIONS
}


def benchmark_names() -> tuple[str, ...]:
    """Return every name that `load_benchmark` takes.

    >>> benchmark_names()[:3]
    ('humaneval_plus', 'mbpp_plus', 'livecodebench')
    """
    return tuple(dict.fromkeys((*DESCRIPTIONS, *added_benchmarks())))


@cache
def load_benchmark(name: str, data: Data = PUBLISHED) -> Benchmark:
    """Load the benchmark called `name`, by default from where it is published.

    Raises EvalsError for a name that is not known and for data that cannot be had or used.

        >>> gsm8k = load_benchmark("gsm8k", Data("test.jsonl"))
        >>> gsm8k.questions[0].fields["problem"]
    """
    if name in _LOADERS:
        return _LOADERS[name](name, data)
    added = added_benchmarks()
    if name not in added:
        hint = did_you_mean(name, benchmark_names())
        raise EvalsError(f"unknown benchmark {name!r}; {hint}")
    try:
        found = added[name].load()(data)
    except (ImportError, AttributeError) as error:
        raise EvalsError(
            f"benchmark {name!r} ({added[name].value}) cannot be loaded: {error}"
        ) from error
    if not isinstance(found, Benchmark):
        raise EvalsError(
            f"benchmark {name!r} ({added[name].value}) gave {type(found).__name__}; "
            "expected an evals.Benchmark"
        )
    return found


@cache
def added_benchmarks() -> dict[str, EntryPoint]:
    """Return the benchmarks of other packages, not loaded yet."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}
