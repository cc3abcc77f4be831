"""HumanEval+ and MBPP+ from the place where evalplus keeps them."""

import contextlib
import importlib.util
import io
import os
import sys
from dataclasses import replace
from pathlib import Path

from evals.errors import EvalsError
from evals.sources.local_file import read_file
from evals.sources.optional import optional
from evals.sources.source import Source

_VARIABLES = {"humaneval_plus": "HUMANEVAL_OVERRIDE_PATH", "mbpp_plus": "MBPP_OVERRIDE_PATH"}
_FUNCTIONS = {"humaneval_plus": "get_human_eval_plus", "mbpp_plus": "get_mbpp_plus"}


def read_evalplus(benchmark: str, name: str) -> Source:
    """The data file of evalplus: an override, its cache, or what its own function downloads.

    name: of the file in the cache. The file is read here, with `json`: evalplus' function turns
    lists into tuples and sets (for some 70 tasks of MBPP+), and rows must not depend on where they
    came from. Raises EvalsError, with what to type, when the file cannot be had.
    """
    override = os.environ.get(_VARIABLES[benchmark])
    if override:
        found = read_file(Path(override))
        return replace(found, origin=f"{override} ({_VARIABLES[benchmark]})")
    path = cache_folder() / name
    if not path.is_file():
        _download(benchmark, path)
    return replace(read_file(path), origin=f"evalplus' cache: {name}")


def cache_folder() -> Path:
    """Where evalplus 0.3.1 keeps its data (appdirs' user cache), without importing evalplus."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "evalplus"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evalplus"


def _download(benchmark: str, path: Path) -> None:
    hint = f"give a file instead: --data {path.stem.rpartition('-')[0]}.jsonl.gz"
    if importlib.util.find_spec("evalplus") is None:
        raise EvalsError(
            f"{benchmark}: there is no {path}, and evalplus, which would fetch it, is not "
            f"installed; type: pip install 'populab-evals[benchmarks]', or {hint}"
        )
    data = optional("evalplus.data", f"to fetch {benchmark} (or {hint})")
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it draws a bar of its own
            getattr(data, _FUNCTIONS[benchmark])()
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise EvalsError(
            f"{benchmark}: there is no {path}, and evalplus cannot fetch it ({reason}); {hint}"
        ) from None
    if not path.is_file():
        raise EvalsError(f"{benchmark}: evalplus keeps no file {path}; {hint}")
