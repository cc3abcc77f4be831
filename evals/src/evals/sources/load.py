"""A benchmark's rows, from wherever they can be had."""

from dataclasses import replace
from pathlib import Path

from evals.errors import EvalsError
from evals.sources.evalplus_cache import read_evalplus
from evals.sources.hub import read_hub
from evals.sources.local_file import read_file
from evals.sources.official import official, remarks
from evals.sources.source import Source


def load_source(
    benchmark: str, data: Path | str | None = None, config: str | None = None
) -> Source:
    """Read `data` if given; else evalplus' file for its two benchmarks, else the hub.

    config: a LiveCodeBench release on the hub, `release_v5` unless told. The notes of the result
    say what the number of rows means. Raises EvalsError, in one line, with what to type.
    """
    known = official(benchmark)
    if config is not None and (data is not None or config not in known.configs):
        choice = ", ".join(known.configs) or "none"
        where = " with --data" if data is not None else ""
        raise EvalsError(
            f"{benchmark}: config {config!r} cannot be chosen{where}; the hub has: {choice}"
        )
    if data is not None:
        found = read_file(Path(data))
    elif known.cache is not None:
        found = read_evalplus(benchmark, known.cache)
    elif known.hub is not None:
        found = read_hub(replace(known.hub, config=config or known.hub.config), benchmark)
    else:
        raise EvalsError(f"{benchmark} can only be read from a file; type: --data FILE")
    return replace(found, notes=remarks(benchmark, found.count, found.sha256))
