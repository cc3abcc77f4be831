"""`evals grade`: verdicts on saved samples, without a model."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import click

from code_verifier import Sandbox
from evals.atomic import write_text
from evals.benchmarks.benchmark import Judgement, Judging
from evals.commands.data_options import data_options, judging_options, where
from evals.commands.options import allow_weak as allow_weak_option
from evals.commands.options import as_json as json_option
from evals.commands.options import clean_exit
from evals.commands.progress import bars
from evals.commands.showing import ungraded
from evals.foreign.samples import saved_samples
from evals.runs.evaluation import choose_recipe
from evals.runs.records import verdict_lines
from evals.runs.result import base_rate, score, score_levels

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("benchmark")
@click.argument("samples", type=_PATH)
@click.option("--out", type=_PATH, required=True, help="JSON Lines file for the verdicts.")
@data_options
@click.option("--recipe", help="What the samples answer; default: what settings.json beside says.")
@judging_options
@allow_weak_option
@json_option
@clean_exit
def grade(
    benchmark: str,
    samples: Path,
    out: Path,
    files: tuple[str, ...],
    release: str | None,
    since: str | None,
    until: str | None,
    recipe: str | None,
    compat: bool,
    workers: int | None,
    allow_weak: bool,
    as_json: bool,
) -> int:
    """Judge saved samples: our own, evalplus', LiveCodeBench's or lm-eval's."""
    (found,) = where(files, release, since, until).load([benchmark])
    rows, notes = saved_samples(samples, found)
    for note in notes:
        click.echo(f"{samples}: {note}", err=True)
    asked = choose_recipe(found, recipe or _recipe_beside(samples))
    named = {question.id: question for question in found.questions}
    judgements: list[Judgement] = []
    with Sandbox(allow_weak=allow_weak) as sandbox, bars(benchmark, len(rows)) as progress:
        how = Judging(
            asked.template(found.name),
            sandbox,
            workers or os.cpu_count() or 1,
            compat,
            asked.judging.get(found.name, {}),
            allow_weak,
        )
        for judgement in found.judge(((named[row.id], row) for row in rows), how):
            judgements.append(judgement)
            progress("judge", 1)
    write_text(out, verdict_lines(judgements))
    overall, base = score(judgements), base_rate(judgements)
    unanswered = len(named) - overall.tasks
    if as_json:
        levels = {str(level): asdict(part) for level, part in score_levels(judgements).items()}
        summary = {"benchmark": benchmark, "unanswered": unanswered, "base_rate": base}
        click.echo(json.dumps({**summary, "overall": asdict(overall), "levels": levels}))
    else:
        low, high = overall.interval
        rate = "none graded" if overall.rate is None else f"rate {overall.rate:.3f}"
        tests = "" if base is None else f"base tests alone {base:.3f}, "
        click.echo(
            f"{benchmark}: {overall.solved} of {overall.samples} samples right, {rate} "
            f"({low:.3f}-{high:.3f}), {tests}ill-formed {overall.ill_formed:.3f}, "
            f"{unanswered} tasks without a sample"
        )
    return ungraded(overall.ungraded)


def _recipe_beside(samples: Path) -> str | None:
    """The recipe that `evals run` wrote beside its samples."""
    try:
        found = json.loads((samples.parent / "settings.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    name = found.get("recipe") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None
