"""Options that say which benchmarks are meant, from which data, asked and judged how."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from evals.benchmarks import livecodebench
from evals.benchmarks.benchmark import Benchmark
from evals.benchmarks.catalog import benchmark_names, load_benchmark
from evals.benchmarks.data import Data, undated
from evals.commands.options import stack
from evals.errors import EvalsError, did_you_mean

data_options = stack(
    click.option(
        "--data",
        "files",
        multiple=True,
        metavar="[NAME=]FILE",
        help="Data of a benchmark; default: where it is published. May repeat.",
    ),
    click.option("--release", help="LiveCodeBench: release_v1 to release_v6."),
    click.option("--since", help="LiveCodeBench: contests from this date on (YYYY-MM-DD)."),
    click.option("--until", help="LiveCodeBench: contests up to this date."),
)
judging_options = stack(
    click.option(
        "--compat",
        is_flag=True,
        help="Judge with the known errors of evalplus 0.3.1 and LiveCodeBench.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        help="Programs judged at a time; default: all cores.",
    ),
)


@dataclass(frozen=True)
class Where:
    """What the options said. files: benchmark -> file; "" is the only benchmark's."""

    files: dict[str, Path]
    release: str | None
    since: str | None
    until: str | None

    def load(self, names: Sequence[str]) -> list[Benchmark]:
        """The benchmarks, and a line on the error stream about the data of each."""
        for name in names:
            if name not in benchmark_names():
                hint = did_you_mean(name, benchmark_names())
                raise EvalsError(f"unknown benchmark {name!r}; {hint}")
        wrong = next((name for name in self.files if name and name not in names), None)
        if wrong is not None:
            raise EvalsError(
                f"--data {wrong}=...: {wrong} is not asked for; {did_you_mean(wrong, names)}"
            )
        if "" in self.files and len(names) != 1:
            raise EvalsError(
                f"--data {self.files['']} is for one of {', '.join(names)}; type NAME=FILE"
            )
        if livecodebench.NAME not in names:
            undated(Data(None, self.release, self.since, self.until), names[0])
        found = []
        for name in names:
            dated = (self.release, self.since, self.until) if name == livecodebench.NAME else ()
            file = self.files.get(name, self.files.get(""))
            benchmark = load_benchmark(name, Data(file, *dated))
            found.append(benchmark)
            if benchmark.notes:
                notes = "; ".join(benchmark.notes)
                click.echo(f"{name}: {notes} ({benchmark.content_hash})", err=True)
        return found


def where(files: Sequence[str], release: str | None, since: str | None, until: str | None) -> Where:
    """Read the options. Raises EvalsError for two files of one benchmark."""
    found: dict[str, Path] = {}
    for text in files:
        name, equals, file = text.partition("=")
        if not equals or not name.replace("_", "").isalnum() or Path(text).exists():
            name, file = "", text
        if name in found:
            raise EvalsError(f"--data names two files for {name or 'one benchmark'}")
        found[name] = Path(file)
    return Where(found, release, since, until)
