"""Benchmarks by name: ours, and those of other installed packages.

A package adds one by an entry point of the group `evals.benchmarks`: the benchmark's name, and a
function from `Data` to `Benchmark`.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from code_verifier import Sandbox, ScriptRunner, Tasksets
from evals.code import cruxeval, evalplus, livecodebench
from evals.data import OFFICIAL, load_source, remarks
from evals.errors import EvalsError, did_you_mean
from evals.math import problems as math
from evals.own import load_own
from evals.question import Benchmark, Data
from evals.recipes import CHAT, CODE, CRUXEVAL, MATH, RECIPES
from evals.tasksets import load_taskset
from lora_evo.terminal import first_line

PUBLISHED = Data()

_MODULES: dict[str, Any] = {
    **dict.fromkeys(CODE, evalplus),
    "livecodebench": livecodebench,
    **dict.fromkeys(CRUXEVAL, cruxeval),
    **dict.fromkeys(MATH, math),
}


def benchmark_names() -> tuple[str, ...]:
    """Return the names of all benchmarks that `load_benchmark` can load.

    >>> benchmark_names()[:3]
    ('humaneval_plus', 'mbpp_plus', 'livecodebench')
    """
    return tuple(dict.fromkeys((*_MODULES, *added_benchmarks())))


@cache
def load_benchmark(name: str, data: Data = PUBLISHED) -> Benchmark:
    """Load the benchmark called `name`, by default from where it is published.

    `verifiers:TASKSET` is a taskset. Raises EvalsError for an unknown name, and for data that
    cannot be found or used.

        >>> gsm8k = load_benchmark("gsm8k", Data("test.jsonl"))
        >>> gsm8k.questions[0].fields["problem"]
    """
    if name in _MODULES:
        return load_official(name, data)
    if name.startswith(Tasksets.PREFIX):
        return load_taskset(name)
    if (entry := added_benchmarks().get(name)) is None:
        raise EvalsError(f"unknown benchmark {name!r}; {did_you_mean(name, benchmark_names())}")
    place = f"benchmark {name!r} ({entry.value})"
    try:
        benchmark = entry.load()(data)
    except (ImportError, AttributeError) as error:
        raise EvalsError(f"{place} cannot be loaded: {error}") from error
    if not isinstance(benchmark, Benchmark):
        kind = type(benchmark).__name__
        raise EvalsError(f"{place} gave {kind}; expected an evals.Benchmark")
    return benchmark


def load_official(name: str, data: Data) -> Benchmark:
    """Load a benchmark of our own. Raises EvalsError."""
    module = _MODULES[name]
    if module is livecodebench:
        questions, digest = module.load(name, data)
        notes = remarks(name, len(questions))
    else:
        source = load_source(name, data.whole(name))
        rows, digest = enumerate(source.rows, 1), source.content_hash
        questions = tuple(module.question(name, row, number) for number, row in rows)
        published = math.published_rows(name, source.rows) if module is math else source.rows
        notes = remarks(name, len(questions), published)
    strange = any("is not an official number" in note or "are not the" in note for note in notes)
    about = OFFICIAL[name].description
    return Benchmark(
        name, about, questions, module.grade, CHAT, digest, notes,
        sandbox=ScriptRunner if name in CODE else Sandbox if name == "cruxeval_i" else None,
        published=not strange,
    )  # fmt: skip


@cache
def added_benchmarks() -> dict[str, EntryPoint]:
    """Return the benchmarks of other packages, not loaded yet."""
    return {entry.name: entry for entry in entry_points(group="evals.benchmarks")}


def load_named(
    names: Sequence[str], specs: Sequence[str], grader: str | None = None
) -> list[Benchmark]:
    """Load benchmarks from the data that `[NAME=]FILE` specs name, or from where it is published.

    A name that is NAME=FILE is a benchmark of the user's own; grader: of these. For livecodebench,
    FILE may also be a release on the hub. Raises EvalsError for a spec that is for none of names.
    """
    files: dict[str, str] = {}
    if grader and all("=" not in name or name.startswith(Tasksets.PREFIX) for name in names):
        raise EvalsError(f"--grader is of questions of your own, NAME=FILE, not of {names[0]}")
    for spec in specs:
        name, equals, file = spec.partition("=")
        if not equals or name not in benchmark_names():
            if len(names) > 1:
                raise EvalsError(f"--data {spec} is for one of {', '.join(names)}; type NAME=FILE")
            name, file = names[0], spec
        if name not in names:
            raise EvalsError(f"--data {spec}: {name} is not asked for; {did_you_mean(name, names)}")
        if name in files:
            raise EvalsError(f"--data names two files for {name}")
        files[name] = file
    benchmarks = []
    for name in names:
        title, equals, file = name.partition("=")
        source = files.get(name)
        if source and (equals or title.startswith(Tasksets.PREFIX)):
            raise EvalsError(f"--data {source}: {name} names its own data; leave one out")
        if title.startswith(Tasksets.PREFIX):
            benchmarks.append(load_taskset(title, file))
        elif equals:
            benchmarks.append(load_own(title, Path(file), grader))
        elif name in OFFICIAL and source in OFFICIAL[name].releases:
            benchmarks.append(load_benchmark(name, Data(release=source)))
        else:
            benchmarks.append(load_benchmark(name, Data(source)))
    return benchmarks


def describe(name: str) -> dict[str, Any]:
    """Return name, description, tasks (official sizes, smallest first), data (where questions come
    from without `--data`) and recipes of a benchmark, as `evals list` shows them."""
    if (official := OFFICIAL.get(name)) is not None:
        tasks, description = sorted(official.counts), official.description
        data = "hub" if official.hub else "evalplus"
        recipes = [recipe.name for recipe in RECIPES.values() if name in recipe.templates]
    else:
        tasks, data, recipes = [], added_benchmarks()[name].module, []
        try:
            benchmark = load_benchmark(name)
            tasks, description = [len(benchmark.questions)], benchmark.description
        except Exception as error:  # another package may raise anything
            description = f"cannot be loaded: {first_line(error)}"
    row = {"name": name, "description": description, "tasks": tasks}
    return {**row, "data": data, "recipes": recipes}
