"""Results found on disk, and the table that shows them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from evals.errors import EvalsError
from evals.runs.result import Result, Score
from evals.runs.run_folder import RESULT_FILE, read_result


def find_results(folders: Iterable[Path]) -> list[Result]:
    """All results in or below the folders, by path. Raises EvalsError for a folder without any."""
    return [read_result(path) for path in find_result_files(folders)]


def find_result_files(folders: Iterable[Path]) -> list[Path]:
    """Where they are."""
    paths: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise EvalsError(f"there is no folder {folder}; expected the --out of `evals run`")
        found = sorted(folder.rglob(RESULT_FILE))
        if not found:
            raise EvalsError(
                f"{folder} holds no finished result ({RESULT_FILE}); finish it with `evals run`"
            )
        paths.update((path.resolve(), None) for path in found)
    return list(paths)


def result_table(results: Sequence[Result]) -> str:
    """One line a result: rate with its 95 % interval, rate per level, shares of ill form.

    `*` marks a result on part of the benchmark.
    """
    levels = sorted({level for result in results for level in result.levels})
    head = ["adapter", "benchmark", "tasks", "rate", "95 %"]
    head += [f"level {level}" for level in levels] + ["ill-formed", "truncated"]
    rows = [_row(result, levels) for result in results]
    table = align(head, rows)
    if any(result.partial for result in results):
        table += "\n* part of the benchmark (--limit)"
    return table


def align(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 2) -> str:
    """Columns of equal width; the first `left` to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for row in (head, *rows):
        cells = (
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _row(result: Result, levels: Sequence[int]) -> list[str]:
    overall = result.overall
    low, high = overall.interval
    return [
        result.adapter,
        result.benchmark + ("*" if result.partial else ""),
        str(overall.tasks),
        _rate(overall),
        f"{low:.3f}-{high:.3f}",
        *(_rate(result.levels.get(level)) for level in levels),
        f"{overall.ill_formed:.3f}",
        f"{overall.truncated:.3f}",
    ]


def _rate(found: Score | None) -> str:
    return "-" if found is None or found.rate is None else f"{found.rate:.3f}"
