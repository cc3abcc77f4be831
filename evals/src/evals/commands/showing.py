"""Results on the terminal: the table of the paper, its details, paired comparisons, JSON."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import click

from evals.errors import EvalsError, did_you_mean
from evals.metrics.counts import Verdicts
from evals.metrics.paired import compare
from evals.runs.evaluation import BASE
from evals.runs.records import read_verdicts
from evals.runs.result import Result
from evals.runs.results_table import align, find_result_files, result_table
from evals.runs.run_folder import read_result
from evals.tables.latex import to_latex
from evals.tables.markdown import to_markdown
from evals.tables.plain import to_dict
from evals.tables.table import Table, build_table
from evals.tables.text import to_text

_WRITERS = {"text": to_text, "markdown": to_markdown, "latex": to_latex}
FORMATS = (*_WRITERS, "details")


def show(
    results: Sequence[Result],
    folders: Sequence[Path],
    as_json: bool,
    form: str = "text",
    baseline: str | None = None,
    k: int | None = None,
    against: str | None = None,
) -> int:
    """Print results, whose verdicts lie below the folders; the exit code says if all have one."""
    wanted = {(result.adapter, result.benchmark) for result in results}
    verdicts, partial = _verdicts(folders, wanted)
    pairs = _compared(verdicts, against, k) if against is not None else []
    if as_json:
        table = _table(verdicts, partial, baseline, k)
        rows = [result.to_dict() for result in results]
        document = {"results": rows, "table": table and to_dict(table), "comparisons": pairs}
        click.echo(json.dumps(document))
    else:
        table = None if form == "details" else _table(verdicts, partial, baseline, k)
        click.echo(result_table(results) if table is None else _WRITERS[form](table, True))
        if pairs:
            click.echo("\n" + _pair_lines(pairs))
    return ungraded(sum(result.overall.ungraded for result in results))


def ungraded(count: int) -> int:
    """The exit code of a command with so many samples that could not be judged."""
    if count:
        click.echo(f"error: the sandbox failed on {count} samples; they are not counted", err=True)
    return 1 if count else 0


def _table(
    verdicts: Mapping[str, Mapping[str, Verdicts]],
    partial: Collection[tuple[str, str]],
    baseline: str | None,
    k: int | None,
) -> Table | None:
    """The paper's table; None when no sample has a verdict."""
    if baseline is not None and baseline not in verdicts:
        raise EvalsError(f"no results of {baseline!r}; {did_you_mean(baseline, verdicts)}")
    samples = (s for own in verdicts.values() for found in own.values() for s in found.values())
    if all(verdict is None for sample in samples for verdict in sample):
        return None
    base = BASE if BASE in verdicts else None
    return build_table(verdicts, base=base, baseline=baseline, partial=partial, k=k)


def _verdicts(
    folders: Sequence[Path], wanted: set[tuple[str, str]]
) -> tuple[dict[str, dict[str, Verdicts]], set[tuple[str, str]]]:
    """Row -> benchmark -> question -> verdicts; and which (row, benchmark) are partial.

    A row is an adapter; of two results of one adapter on one benchmark, the folder is named, too.
    """
    results = [(path, read_result(path)) for path in find_result_files(folders)]
    results = [found for found in results if (found[1].adapter, found[1].benchmark) in wanted]
    times = Counter((result.adapter, result.benchmark) for _, result in results)
    rows: dict[str, dict[str, Verdicts]] = {}
    partial = set()
    for path, result in results:
        row = result.adapter
        if times[row, result.benchmark] > 1:
            row += f" ({path.parents[2].name})"
        own = rows.setdefault(row, {})
        if result.benchmark in own:
            raise EvalsError(
                f"{row} on {result.benchmark} was found twice, last in {path.parent}; "
                "name folders with one result each"
            )
        questions: dict[str, list[bool | None]] = defaultdict(list)
        for verdict in read_verdicts(path.parent / "verdicts.jsonl"):
            questions[verdict.id].append(verdict.correct)
        own[result.benchmark] = questions
        if result.partial:
            partial.add((row, result.benchmark))
    return rows, partial


def _compared(
    verdicts: Mapping[str, Mapping[str, Verdicts]], against: str, k: int | None
) -> list[dict[str, object]]:
    if against not in verdicts:
        raise EvalsError(f"no results of {against!r}; {did_you_mean(against, verdicts)}")
    other = verdicts[against]
    return [
        {
            "adapter": name,
            "against": against,
            "benchmark": benchmark,
            **compare(found, other[benchmark], k).to_dict(),
        }
        for name, own in verdicts.items()
        if name != against
        for benchmark, found in own.items()
        if benchmark in other
    ]


def _pair_lines(pairs: Sequence[Mapping[str, object]]) -> str:
    head = ["adapter", "minus", "benchmark", "difference", "95 %", "wins", "losses", "p"]
    rows = [
        [
            str(pair["adapter"]),
            str(pair["against"]),
            str(pair["benchmark"]),
            f"{pair['difference']:+.3f}",
            f"{pair['low']:+.3f} to {pair['high']:+.3f}",
            str(pair["wins"]),
            str(pair["losses"]),
            f"{pair['p_value']:.3g}",
        ]
        for pair in pairs
    ]
    return align(head, rows, left=3)
