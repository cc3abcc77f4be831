"""Grading of samples that exist already."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from evals.benchmark import Benchmark, Grading, Sample, Verdict
from evals.errors import EvalsError
from evals.installation import versions
from evals.recipes import Recipe
from evals.records import sample_lines, verdict_lines
from evals.run_folder import open_verdicts
from evals.sources import parse_object
from lora_evo import write_text


def grade_saved(
    benchmark: Benchmark,
    recipe: Recipe,
    how: Grading,
    samples: Sequence[Sample],
    out: Path,
    progress: Callable[[str, int], None],
    resuming: Callable[[int], None],
) -> list[Verdict]:
    """Grade samples, write their verdicts to `out`, and return them.

    progress: called with "grade" and the number of samples that are newly done. resuming: called
    with the number of verdicts that a command which was stopped left, if any.
    """
    digest = hashlib.blake2b(sample_lines(samples).encode(), digest_size=16).hexdigest()
    job = {**recipe.settings(benchmark.name), "benchmark": benchmark.name}
    job |= {"benchmark_hash": benchmark.content_hash, "samples": digest, "versions": versions()}
    questions = {question.id: question for question in benchmark.questions}
    with open_verdicts(out, job) as (kept, keep):
        known = {(v.id, v.sample): v for v in kept if v.correct is not None}
        if known:
            resuming(len(known))
        progress("grade", len(known))
        missing = [(questions[s.id], s) for s in samples if (s.id, s.sample) not in known]
        for verdict in benchmark.grade(missing, how) if missing else ():
            keep(verdict)
            known[verdict.id, verdict.sample] = verdict
            progress("grade", 1)
        verdicts = [known[s.id, s.sample] for s in samples]
        write_text(out, verdict_lines(verdicts))
    return verdicts


def recipe_next_to(samples: Path) -> str | None:
    """Return the recipe that `evals run` named next to its samples; None without one."""
    try:
        settings = parse_object((samples.parent / "settings.json").read_bytes(), "")
    except (OSError, EvalsError):
        return None
    name = settings.get("recipe")
    return name if isinstance(name, str) else None
