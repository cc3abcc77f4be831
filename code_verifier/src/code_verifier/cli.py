"""The `code-verifier` command. An error is one line on standard error that begins with "error:"."""

import errno
import json
import os
import platform
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial, reduce
from itertools import chain
from pathlib import Path
from typing import Any

import click

from code_verifier import __version__, user_files
from code_verifier.errors import CodeVerifierError, ProgramError, SandboxUnavailable, Status
from code_verifier.literals import Comparison
from code_verifier.metrics import MEANINGS, Metrics, measure, summarise
from code_verifier.metrics_page import counted, require_charts, save_page
from code_verifier.parallel import cores, ordered_map, stop_on_signals
from code_verifier.pool import REQUIRED_LAYERS
from code_verifier.process import DOCTOR, HASH_SEEDS, remedy
from code_verifier.rewards import check_row, shared_runner
from code_verifier.sandbox import Sandbox
from code_verifier.scripts.runner import ScriptRunner
from code_verifier.tasks import Limits, Task
from code_verifier.user_files import Row, id_of, name_of, program_of, text_field, text_list

_tell = partial(click.echo, err=True)
_Option = Callable[[Callable[..., Any]], Callable[..., Any]]
_WRONG_PATH = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_COSTS = {
    "fresh_process": "programs could see each other's state",
    "rlimits": "a program could use all memory or processor time",
    "no_new_privs": "a program could gain rights through set-uid files",
    "seccomp": "a program could reach files, the network and other processes",
    "clocks": "a program could read the real date and time, and be accepted by chance",
    "addresses": "a program could depend on how Python was built, and be accepted by chance",
    "landlock": "a hole in the filter would reach files and TCP ports",
    "namespaces": "a hole in the filter would reach the network and shared memory",
    "other_user": "a program that escapes is root",
    "empty_root": "a program that escapes could see files; needs root or user namespaces",
}
"""The layers of protection, and the risk without each."""
_ROWS = (".jsonl", ".json", ".gz")
"""Usual endings of the names of files of rows."""


class _Commands(click.Group):
    """Ends the process with the exit code of the command or of its error."""

    def main(self, *args: Any, **extra: Any) -> Any:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed by the caller: no file is to take its place
                setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        try:
            sys.exit(super().main(*args, **{**extra, "standalone_mode": False}))
        except click.ClickException as error:
            if isinstance(error, click.exceptions.NoArgsIsHelpError):
                error.show()
            else:
                words = " ".join(error.format_message().split()).rstrip(".")
                context = getattr(error, "ctx", None)
                more = f"; see {context.command_path} --help" if context else ""
                _tell(f"error: {words}{more}")
            sys.exit(error.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with stop_on_signals(), warnings.catch_warnings():
                warnings.showwarning = lambda text, *_, **__: _tell(f"warning: {text}")
                code = super().invoke(ctx)
        except CodeVerifierError as error:
            _tell(f"error: {error}")
            code = 1 if isinstance(error, SandboxUnavailable) else 2
        except KeyboardInterrupt as stopped:
            _tell("error: interrupted; finished results are kept")
            code = getattr(stopped, "exit_code", 130)
        except BrokenPipeError:  # the reader of the output is gone
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (nothing to flush at the end)
            code = 1
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = "; free some space on this disk" if is_full else ""
            _tell(f"error: {place}{error.strerror or error}{remedy}")
            code = 2 if isinstance(error, _WRONG_PATH) else 1
        sys.exit(code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="code-verifier")
def main() -> None:
    """Run untrusted Python programs, grade answers to code tasks, and measure code.

    Files are JSON Lines, one object a line; `-` is standard input or output, and gzip files are
    read, too. Each result is written when it is ready, so a stopped command loses none.

    Exit codes: 0 done; 1 the work found a problem or was stopped; 2 wrong usage or unusable
    input; 130 interrupted.
    """


def _options(*options: _Option) -> _Option:
    return lambda command: reduce(lambda f, option: option(f), reversed(options), command)


def _option(name: str, kind: Any, default: Any, help: str) -> _Option:
    return click.option(name, type=kind, default=default, show_default=True, help=help)


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, not a table.")
_path = click.Path(path_type=Path)
_out_help = "File for the rows of results; - prints them."
_out_options = _options(
    click.option("--out", type=_path, required=True, help=_out_help), _json_option
)
_rows_argument = click.argument("rows", type=_path, metavar="ROWS")
_file_options = _options(_rows_argument, _out_options)
_workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=cores(),
    show_default="one per core",
    help="How many programs run at the same time.",
)
_sandbox_options = _options(
    _workers_option,
    _option(
        "--wall-s",
        click.FloatRange(1e-3, 86_400.0),
        2.0,
        "Time limit of one execution in seconds, for real time and for processor time.",
    ),
    _option("--memory-mb", click.IntRange(1, 2**20), 256, "Memory limit of one execution, in MiB."),
    click.option(
        "--allow-weak",
        is_flag=True,
        help="Unsafe: run programs even where the kernel offers no filter of system calls.",
    ),
)


@main.command()
@_file_options
@_sandbox_options
@_option(
    "--runs",
    click.IntRange(2, len(HASH_SEEDS)),
    2,
    "Run each program at least this many times; all outputs must be equal.",
)
def check(rows: Path, out: Path, as_json: bool, **settings: Any) -> int:
    """Check that programs run and give the same output every time.

    ROWS is a JSON Lines file with {"id"?, "program", "input"} on each line (? marks optional
    fields), or Absolute Zero's {"snippet", "input", "imports"}; a list "inputs" may replace
    "input". A program defines a function f; "input" is the text between the parentheses of its
    call, such as "3, [1, 2]".

    OUT gets one row per input row, in the same order: {"id", "status", "output", "reason",
    "wall_ms", "runs"}; the status is ok or names the fault. A row without an id gets its line
    number.
    """
    with _sandbox(**settings) as sandbox:
        results = _run(rows, partial(_check_row, sandbox), sandbox.workers)
        sandbox.self_test()
        counts = _end(_write_rows(results, [rows], out), "status", "checked", as_json, out)
    return 1 if counts[Status.SANDBOX_ERROR] else 0


@main.command()
@_file_options
@_sandbox_options
@click.option(
    "--python-equality",
    is_flag=True,
    help="Compare values as Python's == does: 1, 1.0 and True are equal.",
)
@_option(
    "--tolerance", click.FloatRange(0.0, 1.0), 0.0, "Relative and absolute tolerance for floats."
)
def grade(
    rows: Path, out: Path, as_json: bool, python_equality: bool, tolerance: float, **settings: Any
) -> int:
    """Grade answers to tasks about programs: 1 is right, 0 is wrong.

    ROWS is a JSON Lines file with {"id", "kind", "answer"} on each line. The kinds are:

    \b
      code_o  predict the output: the answer is a literal; it must equal
              the row's "output"
      code_i  find an input: the answer is an input for which the row's
              "program" gives its "output"
      code_f  write the program: the answer is a program that turns the
              row's "inputs" into its "outputs"; the first "visible"
              pairs were shown in the prompt and are not judged

    OUT gets one row per input row, in the same order: {"id", "score", "reason", "status",
    "passed"?, "total"?} (? marks optional fields). If the sandbox fails, the status is
    sandbox_error, the score is null, and the exit code is 1.
    """
    comparison = Comparison(not python_equality, tolerance)
    with _sandbox(comparison=comparison, **settings) as sandbox:
        grade_row = partial(_grade_row, sandbox, cache(sandbox.self_test))
        results = _run(rows, grade_row, sandbox.workers)
        counts = _end(_write_rows(results, [rows], out), "score", "graded", as_json, out)
    return 1 if counts["None"] else 0


@main.command("check-rows")
@_rows_argument
@_json_option
@_sandbox_options
def check_rows(rows: Path, as_json: bool, **settings: Any) -> int:
    """Find the rows of a data set whose own solution fails.

    ROWS is a JSON Lines file of tasks or tests, as rewards read them. A row's solution is in its
    field canonical_solution, code, reference_solution, solution or solutions; a task's is its
    program or input. Rows whose solution fails, and rows that cannot be read, are printed with the
    reason; the exit code is then 1. Limits and --allow-weak hold for tasks; tests run as in
    rewards: 6 s of processor time each, 30 s for a whole `check`, 4 GiB.
    """
    with _sandbox(**settings) as sandbox:
        tests = cache(sandbox.self_test), cache(shared_runner().self_test)

        def results() -> Iterator[Row]:
            for row in _run(rows, partial(_prove_row, sandbox, tests), sandbox.workers):
                if row["status"] not in ("solved", "no solution"):
                    text = "{id}: {status}: {reason}".format(**row)
                    click.echo(json.dumps(row) if as_json else " ".join(text.split()))
                yield row

        out = Path("-") if as_json else rows
        counts = _end(results(), "status", "checked", as_json, out)
    return 1 if counts.keys() - {"solved", "no solution"} else 0


def _prove_row(sandbox: Sandbox, tests: Sequence[Callable[[], None]], line: int, row: Row) -> Row:
    """The status of a row: whether its own solution solves it. tests: before the first task, and
    before the first tests of whole programs."""
    name = name_of(row, line)
    try:
        tests[row.get("kind") is None]()
        grade = check_row(row, sandbox)
    except SandboxUnavailable:
        raise
    except CodeVerifierError as error:
        return {"id": name, "status": "unreadable", "reason": str(error)}
    if grade is None:
        return {"id": name, "status": "no solution"}
    solved = "solved" if grade.score else "not solved"
    return {"id": name, "status": solved if grade.judged else "not judged", "reason": grade.reason}


_METRICS_HELP = """Measure the size and complexity of Python programs.

PATHS are Python files (.py), folders (all Python files below; hidden folders, __pycache__ and
virtual environments are skipped), or JSON Lines files with {"id"?, "program"} (the id is optional)
or Absolute Zero's {"snippet", "imports"} on each line. Nothing is executed.

OUT gets a row for each program: "id" (the path of a Python file), and "error" if the program cannot
be measured, else:

\b
""" + "\n".join(f"  {name:15}  {meaning}" for name, (_, meaning) in MEANINGS.items())
_METRICS_HELP += "\n  structure        equal for programs that differ only in names and layout"


@main.command(help=_METRICS_HELP)
@click.argument("paths", type=_path, nargs=-1, required=True, metavar="PATHS...")
@_out_options
@click.option("--html", type=_path, help="Write a page of charts to this file; it works offline.")
def metrics(paths: Sequence[Path], out: Path, as_json: bool, html: Path | None) -> int:
    sources = user_files.files_of(paths)
    if html is not None:
        user_files.check_output(html, sources)
        if html.resolve() == out.resolve():
            raise CodeVerifierError(f"--out and --html are both {out}; expected two files")
        require_charts()
    measured: list[tuple[str, Metrics]] = []

    def result(name: str | int | float | None, read: Callable[[], str]) -> Row:
        try:
            numbers = measure(read())
        except ProgramError as error:
            return {"id": name, "error": str(error)}
        measured.append((str(name), numbers))
        return {"id": name} | asdict(numbers)

    def results(path: Path) -> Iterator[Row]:
        if user_files.is_python(path) or path.is_dir():  # the folder cannot be listed
            yield result(str(path), partial(user_files.read_program, path))
            return

        def one(line: int, row: Row) -> Row:
            place = f"{path}:{line}" if len(sources) > 1 else line
            return result(id_of(row, place), partial(program_of, row))

        try:
            yield from _run(path, one)
        except CodeVerifierError as error:
            hint = "" if path.suffix in _ROWS else "; the name of a Python file must end in .py"
            raise CodeVerifierError(f"{error}{hint}") from None

    total = sum(1 for _ in _write_rows(chain.from_iterable(map(results, sources)), sources, out))
    if html is not None:
        save_page(measured, total - len(measured), html)
    _print_summary([numbers for _, numbers in measured], total - len(measured), as_json, out)
    return 0


@main.command()
@_option("--port", click.IntRange(0, 65535), 8080, "Port on 127.0.0.1; 0 takes a free one.")
@_workers_option
def serve(port: int, workers: int) -> int:
    """Run programs for clients of SandboxFusion, until interrupted.

    Clients POST programs to /run_code; only this machine is served. At most 512 requests wait or
    run; others get HTTP status 503. If the sandbox fails, the response's status is SandboxError.
    """
    from code_verifier.serve import QUEUE, Server

    with Server(port, workers) as server:
        server.runner.self_test()
        click.echo(f"{server.url} ({workers} at a time, {QUEUE} requests)")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


@main.command()
@_json_option
def doctor(as_json: bool) -> int:
    """Show which layers of protection are active on this machine.

    Shows this Python, and for each layer whether it is active, whether it is required, and the risk
    without it.
    """
    warnings.simplefilter("ignore")  # of layers, which are shown below
    active, error = _try_sandbox()
    layers = [(n, active.get(n), n in REQUIRED_LAYERS, cost) for n, cost in _COSTS.items()]
    fixed = id(None) < 1 << 32
    works = not error and all(active[name] for name in REQUIRED_LAYERS)
    facts: dict[str, Any] = {"system": platform.system(), "machine": platform.machine()}
    facts |= {"kernel": platform.release(), "python": platform.python_version()}
    facts |= {"executable": sys.executable, "fixed_addresses": fixed}
    if as_json:
        names = "name", "active", "required", "cost"
        rows = [dict(zip(names, layer, strict=True)) for layer in layers]
        click.echo(json.dumps(facts | {"layers": rows, "works": works, "error": error}))
        return 0 if works else 1
    click.echo("{system} {kernel} on {machine}".format(**facts))
    kind = "loaded at a fixed address" if fixed else "position-independent"
    click.echo("Python {python}, {executable}: {}".format(kind, **facts))
    for name, is_active, required, cost in layers:
        state = {True: "active", False: "MISSING", None: "unknown"}[is_active]
        needed = "required" if required else ""
        click.echo(f"  {name:13}  {state:7}  {needed:8}  without it {cost}")
    if active.get("addresses"):
        click.echo("no verdict depends on how this Python was built")
    if error:
        _tell(f"error: {error}")
    return 0 if works else 1


def _try_sandbox() -> tuple[dict[str, bool], str]:
    """Whether each layer is active, as far as is known; and why no sandbox works, or ""."""
    active: dict[str, bool] = {}
    try:
        with Sandbox(1, allow_weak=True) as sandbox, ScriptRunner(allow_weak=True) as runner:
            active |= sandbox.layers()
            sandbox.self_test()
            active |= {"fresh_process": True, "rlimits": True}
            runner.self_test()
    except SandboxUnavailable as problem:
        error = str(problem).removesuffix(f"; {DOCTOR}")
        advice = remedy(error)
        return active, error if advice == DOCTOR or advice in error else f"{error}; {advice}"
    return active, ""


def _sandbox(wall_s: float, memory_mb: int, **settings: Any) -> Sandbox:
    return Sandbox(limits=Limits(wall_s, wall_s, memory_mb), **settings)


def _run(rows: Path, one: Callable[[int, Row], Row], workers: int = 0) -> Iterator[Row]:
    """The result of every row, in order. Raises CodeVerifierError for a file without rows, and at a
    bad row. workers: rows at a time, 0 for no threads."""

    def result(item: tuple[int, Row]) -> Row:
        try:
            return one(*item)
        except SandboxUnavailable:
            raise
        except CodeVerifierError as error:
            raise CodeVerifierError(f"{rows}, line {item[0]}: {error}") from None

    items = user_files.read_rows(rows)
    if (first := next(items, None)) is None:
        name = "standard input" if str(rows) == "-" else rows
        raise CodeVerifierError(f"{name} holds no rows; expected one JSON object a line")
    items = chain([first], items)
    return ordered_map(result, items, workers) if workers else map(result, items)


def _write_rows(results: Iterable[Row], sources: Sequence[Path], out: Path) -> Iterator[Row]:
    """Write every row at once, and yield it; on a terminal, show the number of rows."""
    is_terminal = sys.stderr.isatty()
    with user_files.open_results(out, sources) as write:
        for number, row in enumerate(results, 1):
            write(row)
            if is_terminal:
                click.echo(f"\r{number} rows\r", err=True, nl=False)
            yield row


def _check_row(sandbox: Sandbox, line: int, row: Row) -> Row:
    """The result of a row; one with `inputs` (AZR's code_f seeds) has a list of their outputs."""
    program, name = program_of(row), id_of(row, line)
    several = row.get("input") is None and row.get("inputs") is not None
    inputs = text_list(row, "inputs") if several else (text_field(row, "input"),)
    if not inputs:
        raise CodeVerifierError("field 'inputs' is empty; expected at least one input")
    outputs: list[str] = []
    wall_ms, runs = 0.0, 0
    for input in inputs:
        verdict = sandbox.check(program, input)
        wall_ms, runs = max(wall_ms, verdict.wall_ms), runs + verdict.runs
        if verdict.output is None:
            break
        outputs.append(verdict.output)
    at = f"input {len(outputs) + 1}: " if several and not verdict.ok else ""
    output = f"[{', '.join(outputs)}]" if several and verdict.ok else verdict.output
    result: Row = {"id": name, "status": verdict.status, "output": output}
    return result | {"reason": at + verdict.reason, "wall_ms": round(wall_ms, 3), "runs": runs}


def _grade_row(sandbox: Sandbox, test: Callable[[], None], line: int, row: Row) -> Row:
    """The grade of a row. test: of the sandbox, before the first answer that is executed."""
    name, task, answer = id_of(row, line), Task.from_row(row), text_field(row, "answer")
    if task.kind != "code_o":
        test()
    verdict = sandbox.grade(task, answer)
    score = verdict.score if verdict.judged else None
    result: Row = {"id": name, "score": score, "reason": verdict.reason, "status": verdict.status}
    if verdict.total is not None:
        result |= {"passed": verdict.passed, "total": verdict.total}
    return result


def _end(results: Iterable[Row], name: str, verb: str, as_json: bool, out: Path) -> Counter[str]:
    """Print and return the numbers of results by the field `name`, with shares of what is judged;
    and print a line if the sandbox failed on some."""
    counts: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for row in results:
        counts[str(row[name])] += 1
        if row["status"] in (Status.SANDBOX_ERROR, "not judged"):
            causes[row["reason"]] += 1
    total, lost = counts.total(), causes.total()
    data: Row = {"rows": total, name: dict(sorted(counts.items()))}
    if name == "score":
        data["ungraded"] = data[name].pop("None", 0)
    apart = ("None", Status.SANDBOX_ERROR, "not judged")
    judged = [(key, n) for key, n in counts.most_common() if key not in apart]
    rows = [(key, str(n), f"{100.0 * n / (total - lost):.1f} %") for key, n in judged]
    title = f"{total} rows, {lost} not judged" if lost else f"{total} rows"
    _print(data if as_json else _table(title, rows), out)
    if lost:
        ((cause, _),) = causes.most_common(1)
        text = f"{lost} of {total} rows could not be {verb}: the sandbox failed ({cause})"
        if 2 * lost > total:
            text += "; these are no results: type `code-verifier doctor`, then the same command"
        _tell(f"error: {text}")
    return counts


def _print_summary(metrics: Sequence[Metrics], unparsed: int, as_json: bool, out: Path) -> None:
    """Counts, then mean and quantiles of every number."""
    table = summarise(metrics)
    structures = len({item.structure for item in metrics})
    data = {"programs": len(metrics), "unparsed": unparsed, "structures": structures}
    counts = f"{counted(len(metrics), 'program')}, {counted(structures, 'structure')}"
    rows = [(name, *(f"{value:.1f}" for value in row.values())) for name, row in table.items()]
    heads = [("", *row) for row in list(table.values())[:1]]
    text = _table(f"{counts}, {unparsed} not measurable", heads + rows)
    _print(data | {"metrics": table} if as_json else text, out)


def _print(summary: str | Row, out: Path) -> None:
    """Print a summary on standard output, or on standard error if the rows are there."""
    text = summary if isinstance(summary, str) else json.dumps(summary)
    click.echo(text, err=str(out) == "-")


def _table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """A title, and columns two spaces apart, the first one flush left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *texts in rows:
        cells = [f"{first:{widths[0]}}", *map(str.rjust, texts, widths[1:])]
        title += f"\n  {'  '.join(cells)}"
    return title
