"""The `evals` command."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from code_verifier import Sandbox
from evals import __version__
from evals.atomic import write_text
from evals.benchmarks.benchmark import Benchmark
from evals.benchmarks.catalog import BENCHMARKS, load_benchmark
from evals.commands.doctor import diagnose
from evals.commands.options import allow_weak as allow_weak_option
from evals.commands.options import as_json as json_option
from evals.commands.options import clean_exit, model_options, sampling_options
from evals.errors import EvalsError
from evals.runs.evaluation import BASE, choose, evaluate_together
from evals.runs.records import read_samples, verdict_lines
from evals.runs.result import Result, score, score_levels
from evals.runs.results_table import align, find_results, result_table

_PATH = click.Path(path_type=Path)


@click.group()
@click.version_option(__version__, prog_name="evals")
def main() -> None:
    """Run benchmarks on saved LoRA adapters."""


@main.command("list")
@json_option
@clean_exit
def list_benchmarks(as_json: bool) -> int:
    """List the benchmarks."""
    found = [load_benchmark(name) for name in BENCHMARKS]
    if as_json:
        click.echo(json.dumps([_describe(benchmark) for benchmark in found]))
        return 0
    rows = [[b.name, b.description, str(len(b.questions)), str(len(b.levels))] for b in found]
    click.echo(align(["benchmark", "what", "tasks", "levels"], rows))
    return 0


@main.command()
@model_options
@click.option(
    "--benchmark", "benchmarks", multiple=True, required=True, help="NAME[,NAME]; may repeat."
)
@sampling_options
@click.option("--out", type=_PATH, required=True, help="Folder for samples and results.")
@allow_weak_option
@json_option
@clean_exit
def run(
    model: str | None,
    adapters: tuple[str, ...],
    population: Path | None,
    base: bool,
    any_base: bool,
    engine: str,
    device: str,
    dtype: str,
    max_rows: int,
    benchmarks: tuple[str, ...],
    n: int,
    temperature: float,
    max_tokens: int | None,
    limit: int | None,
    seed: int,
    out: Path,
    allow_weak: bool,
    as_json: bool,
) -> int:
    """Evaluate adapters on benchmarks; the same command goes on where a run stopped."""
    chosen_benchmarks = _benchmarks(benchmarks)
    if engine == "vllm":
        raise EvalsError("this version has no vllm engine yet; use --engine hf")
    if n > 1 and temperature == 0:
        raise EvalsError(f"--n {n} at temperature 0 gives equal samples; add --temperature 1")
    from evals.engine.adapters import (  # torch comes in here, not for `evals list`
        members_of,
        name_adapters,
    )
    from evals.engine.hf import HFEngine

    named = name_adapters(adapters)
    if population is not None:
        members, shared = members_of(population)
        twice = next((name for name in members if name in named), None)
        if twice is not None:
            raise EvalsError(f"{population} has a member {twice!r} too; name the other NAME=DIR")
        named, model = {**members, **named}, model or shared
    if model is None:
        raise EvalsError("no base model is named; type --model nano, a folder or a hub name")
    out.mkdir(parents=True, exist_ok=True)
    everyone: list[str | None] = [*([None] if base or not named else []), *named]
    results: list[Result] = []
    loaded = HFEngine(
        model, named, device=device, dtype=dtype, max_rows=max_rows, any_base=any_base
    )
    with Sandbox(allow_weak=allow_weak) as sandbox:
        for chosen in chosen_benchmarks:
            places = {m: out / (m or BASE) / chosen.name for m in everyone}
            total = n * len(choose(chosen, limit)) * len(everyone)
            with click.progressbar(
                length=total, label=chosen.name, file=sys.stderr, show_pos=True
            ) as bar:
                results += evaluate_together(
                    loaded,
                    chosen,
                    everyone,
                    n,
                    temperature,
                    max_tokens=max_tokens,
                    limit=limit,
                    seed=seed,
                    places=places,
                    sandbox=sandbox,
                    progress=bar.update,
                )
    loaded.close()
    return _show(results, as_json)


@main.command()
@click.argument("benchmark")
@click.argument("samples", type=_PATH)
@click.option("--out", type=_PATH, required=True, help="JSON Lines file for the verdicts.")
@allow_weak_option
@json_option
@clean_exit
def grade(benchmark: str, samples: Path, out: Path, allow_weak: bool, as_json: bool) -> int:
    """Judge saved responses: rows {"id", "response", "sample"?, "truncated"?}."""
    found = load_benchmark(benchmark)
    rows = read_samples(samples)
    named = {question.id: question for question in found.questions}
    strange = next((row.id for row in rows if row.id not in named), None)
    if strange is not None:
        raise EvalsError(
            f"{samples}: {benchmark} has no task {strange!r} (first: {next(iter(named))!r})"
        )
    if not rows:
        raise EvalsError(f"{samples} holds no samples")
    with Sandbox(allow_weak=allow_weak) as sandbox:
        judgements = list(found.judge(((named[row.id], row) for row in rows), sandbox))
    write_text(out, verdict_lines(judgements))
    overall = score(judgements)
    unanswered = len(named) - overall.tasks
    if as_json:
        levels = {str(level): asdict(part) for level, part in score_levels(judgements).items()}
        summary = {"benchmark": benchmark, "unanswered": unanswered}
        click.echo(json.dumps({**summary, "overall": asdict(overall), "levels": levels}))
    else:
        low, high = overall.interval
        rate = "none graded" if overall.rate is None else f"rate {overall.rate:.3f}"
        click.echo(
            f"{benchmark}: {overall.solved} of {overall.samples} samples right, {rate} "
            f"({low:.3f}-{high:.3f}), ill-formed {overall.ill_formed:.3f}, "
            f"{unanswered} tasks without a sample"
        )
    return _ungraded(overall.ungraded)


@main.command()
@click.argument("folders", type=_PATH, nargs=-1, required=True)
@click.option("--html", "page", type=_PATH, help="Write one self-contained page.")
@json_option
@clean_exit
def report(folders: tuple[Path, ...], page: Path | None, as_json: bool) -> int:
    """Show all finished results in or below folders: a table here, and a page with samples."""
    if page is not None:
        from evals.report.page import write_page
        from evals.report.scored_run import read_scored

        write_page(read_scored(folders), page)
        click.echo(f"report: {page}", err=True)
    return _show(find_results(folders), as_json)


@main.command()
@json_option
@clean_exit
def doctor(as_json: bool) -> int:
    """Say what is installed, which device and sandbox there are, and what is wrong."""
    found = diagnose()
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return 1 if found.problems else 0
    for name, number in found.versions.items():
        click.echo(f"{name:14} {number}")
    click.echo(f"{'device':14} {found.device}")
    for layer, active in found.layers.items():
        click.echo(f"{'sandbox':14} {layer} {'active' if active else 'MISSING'}")
    for problem in found.problems:
        click.echo(f"problem: {problem}", err=True)
    return 1 if found.problems else 0


def _benchmarks(options: Sequence[str]) -> list[Benchmark]:
    names = [name.strip() for option in options for name in option.split(",")]
    return [load_benchmark(name) for name in dict.fromkeys(names)]


def _show(results: Sequence[Result], as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps([result.to_dict() for result in results]))
    else:
        click.echo(result_table(results))
    return _ungraded(sum(result.overall.ungraded for result in results))


def _ungraded(count: int) -> int:
    if count:
        click.echo(f"error: the sandbox failed on {count} samples; they are not counted", err=True)
    return 1 if count else 0


def _describe(benchmark: Benchmark) -> dict[str, object]:
    return {
        "name": benchmark.name,
        "description": benchmark.description,
        "tasks": len(benchmark.questions),
        "levels": list(benchmark.levels),
        "max_tokens": benchmark.max_tokens,
        "content_hash": benchmark.content_hash,
    }
