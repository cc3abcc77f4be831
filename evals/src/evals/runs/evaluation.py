"""Adapters on a benchmark: ask, keep, judge, count."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from code_verifier import Sandbox
from evals.benchmarks.benchmark import Benchmark, Judgement, Judging, Question, Sample
from evals.benchmarks.catalog import load_benchmark
from evals.engine.request import Engine, Request
from evals.errors import EvalsError
from evals.recipes.recipe import Recipe
from evals.recipes.render import find_recipe, render
from evals.runs.result import Result, Settings, base_rate, score, score_levels
from evals.runs.run_folder import RunFolder, open_run_folder
from evals.runs.seeds import sample_seed
from evals.runs.versions import versions

BASE = "base"
"""Name of the base model without an adapter, in tables and output folders."""
_BATCH = 64
_Key: TypeAlias = tuple[str, int]
"""A question's id and the number of a sample."""


@dataclass(frozen=True)
class _Part:
    """One adapter of an evaluation: what is asked of it, and what it has answered."""

    adapter: str | None
    settings: Settings
    requests: Mapping[_Key, Request]
    folder: RunFolder | None
    known: dict[_Key, Sample]


def evaluate(
    engine: Engine,
    benchmark: Benchmark | str,
    adapter: str | None = None,
    n: int | None = None,
    temperature: float | None = None,
    *,
    out: Path | str | None = None,
    **options: Any,
) -> Result:
    """Sample `n` responses of one adapter to every question and judge them.

    out: folder for samples, verdicts and result; a run that stopped goes on there. Everything else
    is `evaluate_together`'s.
    """
    places = None if out is None else {adapter: Path(out)}
    (result,) = evaluate_together(
        engine, benchmark, [adapter], n, temperature, places=places, **options
    )
    return result


def evaluate_together(
    engine: Engine,
    benchmark: Benchmark | str,
    adapters: Sequence[str | None],
    n: int | None = None,
    temperature: float | None = None,
    *,
    recipe: Recipe | str | None = None,
    max_tokens: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    places: Mapping[str | None, Path] | None = None,
    sandbox: Sandbox | None = None,
    workers: int | None = None,
    compat: bool = False,
    allow_weak: bool = False,
    progress: Callable[[str, int], None] | None = None,
) -> list[Result]:
    """Ask several adapters (None is the base model) at once; they share batches and seeds, so
    that they are paired.

    recipe: how questions are asked, by name or as an object; None is the benchmark's own. n,
    temperature and max_tokens: None is the recipe's. limit: ask only so many questions. places: a
    folder for each adapter's samples, verdicts and result; a run that stopped goes on there.
    sandbox: to judge in; else one is opened. workers: programs judged at a time; None is one for
    each processor. compat: judge with the known errors of the official harness. allow_weak: judge
    without a system-call filter, where there is none. progress: called with "ask" or "judge" and
    the number of samples that are newly done.

    Raises EvalsError for unusable arguments, and SettingsChanged when a folder holds another run.
    """
    if isinstance(benchmark, str):
        benchmark = load_benchmark(benchmark)
    recipe = choose_recipe(benchmark, recipe)
    template = recipe.template(benchmark.name)
    n = recipe.n if n is None else n
    temperature = recipe.temperature if temperature is None else temperature
    max_tokens = template.max_tokens if max_tokens is None else max_tokens
    _check(n, temperature, max_tokens, limit, seed)
    questions = choose(benchmark, limit)
    tokenizer = getattr(engine, "tokenizer", None)
    prompts = {q.id: render(recipe, benchmark.name, q.fields, tokenizer) for q in questions}
    asked: Settings = {
        "benchmark_hash": benchmark.content_hash,
        "prompts_hash": _hash(prompts),
        "n": n,
        "temperature": float(temperature),
        "max_tokens": max_tokens,
        "limit": limit,
        "seed": seed,
        "compat": compat,
        **recipe.settings(benchmark.name),
    }
    progress = progress or (lambda phase, count: None)
    with ExitStack() as stack:
        parts = []
        for adapter in adapters:
            settings = asked | _identity(engine, adapter)
            requests = {
                (question.id, number): Request(
                    prompt=prompts[question.id],
                    adapter=adapter,
                    max_tokens=max_tokens,
                    temperature=temperature,
                    seed=sample_seed(seed, benchmark.name, question.id, number),
                    stop=template.stop,
                    special_tokens=template.mode == "completion",
                )
                for question in questions
                for number in range(n)
            }
            folder = None
            if places is not None:
                folder = stack.enter_context(open_run_folder(places[adapter], settings, prompts))
            kept = folder.samples if folder else []
            known = {(sample.id, sample.sample): sample for sample in kept}
            parts.append(_Part(adapter, settings, requests, folder, known))
        _ask(engine, parts, lambda count: progress("ask", count))
        how = Judging(
            template,
            sandbox or stack.enter_context(Sandbox(allow_weak=allow_weak)),
            workers or os.cpu_count() or 1,
            compat,
            recipe.judging.get(benchmark.name, {}),
            allow_weak,
        )
        return [
            _judge(benchmark, questions, part, how, lambda count: progress("judge", count))
            for part in parts
        ]


def choose_recipe(benchmark: Benchmark, recipe: Recipe | str | None) -> Recipe:
    """The recipe by its name; None is the benchmark's own. Raises EvalsError."""
    if recipe is None or recipe == benchmark.recipe.name:
        return benchmark.recipe
    return find_recipe(recipe) if isinstance(recipe, str) else recipe


def _ask(engine: Engine, parts: Sequence[_Part], progress: Callable[[int], None]) -> None:
    """Ask what is not known yet; the batches are the same whatever has been done already."""
    progress(sum(len(part.known) for part in parts))
    places = [(part, key) for part in parts for key in part.requests]
    places.sort(key=lambda place: len(place[0].requests[place[1]].prompt))
    size = int(getattr(engine, "max_rows", _BATCH))
    for start in range(0, len(places), size):
        missing = [(p, key) for p, key in places[start : start + size] if key not in p.known]
        completions = engine.generate([part.requests[key] for part, key in missing])
        new: dict[int, list[Sample]] = {}
        for (part, key), completion in zip(missing, completions, strict=True):
            truncated = completion.finish_reason == "length"
            tokens = len(completion.token_ids)
            part.known[key] = Sample(*key, completion.text, truncated, tokens)
            new.setdefault(id(part), []).append(part.known[key])
        for part in parts:
            if part.folder is not None and id(part) in new:
                part.folder.add(new[id(part)])
        progress(len(missing))


def _judge(
    benchmark: Benchmark,
    questions: Sequence[Question],
    part: _Part,
    how: Judging,
    progress: Callable[[int], None],
) -> Result:
    named = {question.id: question for question in questions}
    ordered = [part.known[key] for key in part.requests]
    earlier = part.folder.finished(versions()) if part.folder else None
    if earlier is not None:
        progress(len(ordered))
        return earlier
    judgements: list[Judgement] = []
    for judgement in benchmark.judge([(named[s.id], s) for s in ordered], how):
        judgements.append(judgement)
        progress(1)
    result = Result(
        adapter=part.adapter if part.adapter is not None else BASE,
        benchmark=benchmark.name,
        partial=len(questions) < len(benchmark.questions),
        overall=score(judgements),
        levels=score_levels(judgements),
        base_rate=base_rate(judgements),
        settings=part.settings,
        versions=versions(),
    )
    if part.folder is not None:
        part.folder.finish(ordered, judgements, result)
    return result


def choose(benchmark: Benchmark, limit: int | None) -> list[Question]:
    """The first `limit` questions; of a benchmark sorted by level, the first of every level."""
    if limit is None or limit >= len(benchmark.questions):
        return list(benchmark.questions)
    if not benchmark.sorted:
        return list(benchmark.questions[:limit])
    groups = [[q for q in benchmark.questions if q.level == level] for level in benchmark.levels]
    chosen: set[str] = set()
    depth = 0
    while len(chosen) < limit:
        for group in groups:
            if depth < len(group) and len(chosen) < limit:
                chosen.add(group[depth].id)
        depth += 1
    return [question for question in benchmark.questions if question.id in chosen]


def _check(n: int, temperature: float, max_tokens: int, limit: int | None, seed: int) -> None:
    for name, value in (("n", n), ("max_tokens", max_tokens), ("limit", limit)):
        if value is not None and value < 1:
            raise EvalsError(f"{name} is {value}; expected 1 or more")
    if seed < 0:
        raise EvalsError(f"seed is {seed}; expected 0 or more")
    if not 0.0 <= temperature < float("inf"):
        raise EvalsError(f"temperature is {temperature}; expected 0 or more")
    if n > 1 and temperature == 0:
        raise EvalsError(f"{n} samples at temperature 0 are {n} times the same; raise temperature")


def _hash(prompts: Mapping[str, str]) -> str:
    """Of what is asked, whatever made it: a template, a recipe, the benchmark itself."""
    text = json.dumps(prompts, sort_keys=True)
    return f"blake2b:{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


def _identity(engine: Engine, adapter: str | None) -> dict[str, Any]:
    """What the engine says of itself; engines need not say anything."""
    identity = getattr(engine, "identity", None)
    return dict(identity(adapter)) if identity else {"engine": type(engine).__name__}
