"""Labels for generated programs: outputs and traces, computed in the sandbox, many at a time."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from code_verifier import Limits, Sandbox, parse_literal
from nano_language import LONG, Program

OUTPUT_CHARS = 2_000_000
BATCH = 25
"""Programs that share one sandbox process while labels are made (they are our own, not hostile)."""
MAX_INT, MAX_LIST, MAX_STR, MAX_TRACE = 99, 6, 8, 24
MAX_LONG_TRACE = 32
"""States, arguments not counted, that a run of a program of level `LONG` may have."""

_PRELUDE = """
T = []
def R(name, value):
    T.append((name, list(value) if type(value) is list else value))
def C(value):
    T.append(('?', 1 if value else 0))
    return value
"""
_POSTLUDE = """
def f(batch):
    out = []
    for function, rows in zip(FUNCTIONS, batch):
        results = []
        for row in rows:
            T.clear()
            try:
                value = function(*row)
                results.append((value, list(T)) if len(T) <= 64 else None)
            except Exception:
                results.append(None)
        out.append(results)
    return out
"""


@dataclass(frozen=True)
class Run:
    """One execution: canonical texts of input and output, and the recorded states in order."""

    input: str
    output: str
    trace: tuple[str, ...]
    """States as a solver writes them: arguments, changed variables and tests in order of execution,
    and the returned expression with its variables' values put in."""


@dataclass(frozen=True)
class LabelledProgram:
    """A program whose every input ran, stayed small, and did not always give the same output."""

    program: Program
    runs: tuple[Run, ...]


def labelling_sandbox(workers: int = 1) -> Sandbox:
    """Return a sandbox whose limits fit a whole batch of programs."""
    return Sandbox(
        workers=workers, limits=Limits(wall_s=20.0, cpu_s=20.0, output_chars=OUTPUT_CHARS), runs=2
    )


def label(programs: Iterable[Program], sandbox: Sandbox) -> Iterator[LabelledProgram]:
    """Yield the usable programs with their runs, in order; batches run in parallel and lazily."""
    pending: list[Sequence[Program]] = []

    def jobs() -> Iterator[tuple[str, str]]:
        iterator = iter(programs)
        while batch := list(islice(iterator, BATCH)):
            pending.append(batch)
            yield _bundle(batch)

    for verdict in sandbox.run_many(jobs()):
        batch = pending.pop(0)
        if verdict.status != "ok" or verdict.output is None:
            raise RuntimeError(f"labelling failed: {verdict.status}: {verdict.reason}")
        results = parse_literal(verdict.output, OUTPUT_CHARS)
        for program, rows in zip(batch, results, strict=True):
            if labelled := _labelled(program, rows):
                yield labelled


def _bundle(batch: Sequence[Program]) -> tuple[str, str]:
    parts, names = [_PRELUDE], []
    for index, program in enumerate(batch):
        text = program.traced.replace("def f(", f"def f{index}(")
        parts.append(text.replace("g(", f"g{index}(") if "def g(" in text else text)
        names.append(f"f{index}")
    parts += [f"FUNCTIONS = [{', '.join(names)}]", _POSTLUDE]
    return "\n".join(parts), repr([[list(row) for row in p.inputs] for p in batch])


def _small(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return abs(value) <= MAX_INT
    if isinstance(value, str):
        return len(value) <= MAX_STR
    return isinstance(value, list) and len(value) <= MAX_LIST and all(map(_small, value))


def _labelled(
    program: Program, rows: Sequence[tuple[object, list[tuple[str, object]]] | None]
) -> LabelledProgram | None:
    runs = []
    longest = MAX_LONG_TRACE if program.level == LONG else MAX_TRACE
    for arguments, row in zip(program.inputs, rows, strict=True):
        if row is None or len(row[1]) > longest + len(arguments):
            return None
        value, trace = row
        if not _small(value) or not all(_small(v) for _, v in trace):
            return None
        states = [f"{n}{v};" if n == "?" else f"{n}={v!r};" for n, v in trace]
        states.append(f":{_returned(program.text, dict(trace))};")
        runs.append(Run(", ".join(map(repr, arguments)), repr(value), tuple(states)))
    if len({r.output for r in runs}) < 2:
        return None
    return LabelledProgram(program, tuple(runs))


def _returned(text: str, values: dict[str, object]) -> str:
    """Return the program's last expression with the values of its variables in their place."""
    expression = text.rpartition("return ")[2]
    bound = re.findall(r"for (\w+) in", expression)

    def shown(match: re.Match[str]) -> str:
        name = match[0]
        return repr(values[name]) if name in values and name not in bound else name

    return re.sub(r"'[^']*'|[a-z]\w*", shown, expression)
