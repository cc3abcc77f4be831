"""The benchmarks by name: our own, and those that other installed packages add.

A package adds one by an entry point of the group `evals.benchmarks`: the benchmark's name, and a
function from `Data` to `Benchmark`.
"""

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias

from evals.benchmarks import function_tasks, livecodebench, math_answers, nano
from evals.benchmarks.benchmark import Benchmark
from evals.benchmarks.data import PUBLISHED, Data
from evals.errors import EvalsError, did_you_mean

Loader: TypeAlias = Callable[[Data], Benchmark]
GROUP = "evals.benchmarks"

BENCHMARKS: dict[str, Loader] = {
    **function_tasks.LOADERS,
    "livecodebench": livecodebench.load,
    **math_answers.LOADERS,
    **nano.LOADERS,
}
"""Name -> the function that loads it: those that this package brings."""


def benchmark_names() -> tuple[str, ...]:
    """Every name that `load_benchmark` takes."""
    return tuple(dict.fromkeys((*BENCHMARKS, *_added())))


@cache
def load_benchmark(name: str, data: Data = PUBLISHED) -> Benchmark:
    """The benchmark called `name`.

    Raises EvalsError for a name that is not known and for data that cannot be had or used.
    """
    if name in BENCHMARKS:
        return BENCHMARKS[name](data)
    added = _added()
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
def _added() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
