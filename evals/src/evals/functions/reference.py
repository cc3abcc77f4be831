"""Expected outputs: what the reference solution returns, computed once and kept small on disk.

One file for each task and run in the cache folder, under a key made of the program, the inputs and
the version of this format. An output is kept as its type, digest and, when short, its text; a long
one is computed again when a comparison needs more than its digest, and never kept.
"""

import gzip
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from code_verifier.modules.reports import Calls, Value
from code_verifier.modules.runner import ModuleRunner
from evals.atomic import appearing
from evals.functions.oracles import compares_sets
from evals.functions.problem import Arguments, FunctionProblem

_FORMAT = 4
_TEXT_CHARS = 2048
_CALL_S, _TOTAL_S = 1800.0, 7200.0
_TYPES = (str, str, str | None, int, bool, float)


class ReferenceFailed(Exception):
    """The reference solution did not return a value for every input: nobody's fault but ours."""


def cache_folder() -> Path:
    """Where expected outputs are kept: below XDG_CACHE_HOME, or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "populab" / "evals"


def expected_values(
    problem: FunctionProblem, inputs: Sequence[Arguments], runner: ModuleRunner, folder: Path
) -> tuple[Value, ...]:
    """Values of the reference solution, with the processor seconds of each. Raises ReferenceFailed.

    A folder that cannot be written is no error; the values are computed again next time.
    """
    path = folder / f"{_key(problem, inputs)}.json.gz"
    kept = _read(path, len(inputs))
    if kept is not None:
        return kept
    calls = run_reference(problem, inputs, runner)
    if calls.ending != "done":
        what = f"call {calls.call}: {calls.reason}" if calls.call else calls.reason
        raise ReferenceFailed(f"the reference solution of {problem.task_id} failed: {what}")
    _write(path, calls.values)
    return calls.values


def run_reference(
    problem: FunctionProblem,
    inputs: Sequence[Arguments],
    runner: ModuleRunner,
    full: Sequence[int] = (),
) -> Calls:
    """Run the reference solution; the texts at the places `full` come whole."""
    return runner.call(
        problem.reference,
        problem.entry_point,
        inputs,
        [_CALL_S] * len(inputs),
        module_s=_CALL_S,
        total_s=_TOTAL_S,
        draw=compares_sets(problem),
        full=full,
        text_chars=_TEXT_CHARS,
        deep=True,
    )


def _key(problem: FunctionProblem, inputs: Sequence[Arguments]) -> str:
    parts = (_FORMAT, problem.reference, problem.entry_point, compares_sets(problem))
    text = repr(list(inputs))
    if "{" in text or "set(" in text:
        text = repr(_stable(list(inputs)))
    text = f"({parts!r}, {text})"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _stable(value: Any) -> Any:
    """Sets as sorted texts, whose order does not depend on the process."""
    if isinstance(value, set | frozenset):
        return ("set", *sorted(map(repr, value)))
    if isinstance(value, list | tuple):
        return type(value)(map(_stable, value))
    return value


def _read(path: Path, count: int) -> tuple[Value, ...] | None:
    """Kept values; None where there are none or the file is not whole."""
    try:
        rows = json.loads(gzip.decompress(path.read_bytes()))
        values = tuple(Value(*row) for row in rows)
    except (OSError, EOFError, ValueError, TypeError):
        return None
    typed = all(
        isinstance(field, kind)
        for fields, kind in zip(zip(*values, strict=True), _TYPES, strict=False)
        for field in fields
    )
    return values if typed and len(values) == count else None


def _write(path: Path, values: Sequence[Value]) -> None:
    data = gzip.compress(json.dumps(values).encode(), 6, mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with appearing(path) as draft:
            draft.write_bytes(data)
    except OSError:
        return
