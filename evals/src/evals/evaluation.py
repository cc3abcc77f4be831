"""Adapters on a benchmark: ask, keep, grade, count; and samples that exist already, graded."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from evals.benchmark import Benchmark, Grading, Question, Sample, Verdict
from evals.catalog import load_benchmark
from evals.errors import EvalsError, did_you_mean
from evals.installation import versions
from evals.members import Group
from evals.recipes import RECIPES, Recipe, render
from evals.records import read_verdicts, sample_lines, verdict_lines
from evals.results import FinishedRun, Result, Settings, base_rate, score, score_levels
from evals.run_folder import RunFolder, open_run_folder, open_verdicts
from evals.sources import parse_object
from lora_evo import write_text
from lora_evo.model import Engine, Request, before_stop

BASE = "base"
"""The base model without an adapter, in tables and output folders."""
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
    adapters: Sequence[str | None] = (None,),
    *,
    recipe: Recipe | str | None = None,
    n: int | None = None,
    temperature: float | None = None,
    top_p: float = 1.0,
    top_k: int = 0,
    max_tokens: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    chat_template_args: Mapping[str, Any] | None = None,
    groups: Mapping[str, Group | None] | None = None,
    out: Path | str | None = None,
    workers: int | None = None,
    allow_weak: bool = False,
    progress: Callable[[str, int], None] | None = None,
    finished: Callable[[FinishedRun], None] | None = None,
) -> list[Result]:
    """Sample responses of adapters (None is the base model) to every question and grade them.

    Adapters share batches and seeds, so that they are paired. recipe, n (samples a question),
    temperature, max_tokens: None is the benchmark's own. top_p, top_k: as of `Request`. limit: ask
    only the first ones. chat_template_args: for chat templates, such as {"enable_thinking": False}.
    groups: roles and runs of adapters, as `find_members` gives them, kept with the results. out:
    folder that gets ADAPTER/BENCHMARK with samples, verdicts and result; a run that stopped resumes
    there, and one of fewer samples a question gets those that are missing. workers: programs graded
    at a time; None is one for each processor. allow_weak: grade where the sandbox has no
    system-call filter, too. progress: called with "ask" or "grade" and the number of samples that
    are newly done. finished: called with each run as its folder below `out` holds it.

    Raises EvalsError for unusable arguments, and SettingsChanged when a folder holds another run.

        >>> from lora_evo.model import open_engine
        >>> members = find_members(["runs/mine:students"])
        >>> engine = open_engine("hf", members.base, members.folders)
        >>> results = evaluate(
        ...     engine, "gsm8k", list(members.folders), groups=members.groups, out="scores"
        ... )
        >>> print(results[0].overall.rate, results[0].overall.interval)
    """
    if isinstance(benchmark, str):
        benchmark = load_benchmark(benchmark)
    cut = top_p < 1 or top_k > 0
    recipe, n, temperature = choose_sampling(benchmark, recipe, n, temperature, cut=cut)
    template = recipe.template(benchmark.name)
    max_tokens = template.max_tokens if max_tokens is None else max_tokens
    questions = benchmark.part(limit)
    tokenizer = getattr(engine, "tokenizer", None)
    prompts = {
        q.id: render(recipe, benchmark.name, q.fields, tokenizer, chat_template_args)
        for q in questions
    }
    common: Settings = {
        "benchmark_hash": benchmark.content_hash,
        "prompts_hash": f"blake2b:{_digest(json.dumps(prompts, sort_keys=True))}",
        "n": n,
        "temperature": float(temperature),
        "max_tokens": max_tokens,
        "limit": limit,
        "seed": seed,
        **recipe.settings(benchmark.name),
        **({"top_p": float(top_p)} if top_p < 1 else {}),
        **({"top_k": top_k} if top_k else {}),
        **({"chat_template_args": dict(chat_template_args)} if chat_template_args else {}),
    }
    # Engines need not say what they are.
    identity = getattr(engine, "identity", lambda _: {"engine": type(engine).__name__})
    progress = progress or (lambda phase, count: None)
    how = Grading.of(recipe, benchmark.name, workers, allow_weak)
    with ExitStack() as stack:
        parts = []
        for adapter in adapters:
            settings = common | dict(identity(adapter))
            requests = {
                (question.id, number): Request(
                    prompt=prompts[question.id],
                    adapter=adapter,
                    max_tokens=max_tokens,
                    temperature=temperature,
                    seed=sample_seed(seed, benchmark.name, question.id, number),
                    stop=template.stop,
                    special_tokens=template.mode == "completion",
                    top_p=top_p,
                    top_k=top_k,
                )
                for question in questions
                for number in range(n)
            }
            folder = None
            if out is not None:
                place = Path(out) / (adapter or BASE) / benchmark.name
                folder = stack.enter_context(open_run_folder(place, settings, prompts))
            kept = folder.samples if folder else []
            known = {(sample.id, sample.sample): sample for sample in kept}
            parts.append(_Part(adapter, settings, requests, folder, known))
        _ask(engine, parts, progress)
        results = []
        for part in parts:
            result, verdicts = _grade(benchmark, questions, part, how, progress, groups or {})
            results.append(result)
            if finished is not None and part.folder is not None:
                place = part.folder.place.resolve()
                finished(FinishedRun(place, result, part.known, tuple(verdicts), prompts))
        return results


def choose_recipe(benchmark: Benchmark, recipe: Recipe | str | None) -> Recipe:
    """Return the recipe by its name; None is the benchmark's own. Raises EvalsError."""
    if recipe is None or recipe == benchmark.recipe.name:
        return benchmark.recipe
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in RECIPES:
        raise EvalsError(f"unknown recipe {recipe!r}; {did_you_mean(recipe, RECIPES)}")
    return RECIPES[recipe]


def choose_sampling(
    benchmark: Benchmark,
    recipe: Recipe | str | None,
    n: int | None,
    temperature: float | None,
    *,
    cut: bool = False,
) -> tuple[Recipe, int, float]:
    """Return the recipe, samples a question and temperature; None is the benchmark's own.

    cut: whether top-p or top-k leaves tokens out. Raises EvalsError for a recipe that does not
    cover the benchmark, for equal samples, and for a cut where nothing is sampled.
    """
    chosen = choose_recipe(benchmark, recipe)
    chosen.template(benchmark.name)
    n = chosen.n if n is None else n
    temperature = chosen.temperature if temperature is None else temperature
    if n > 1 and temperature == 0:
        raise EvalsError(f"{n} samples at temperature 0 are all the same; add --temperature 1")
    if cut and temperature == 0:
        raise EvalsError("top-p and top-k do nothing at temperature 0; add --temperature 1")
    return chosen, n, temperature


def sample_seed(seed: int, benchmark: str, question: str, sample: int) -> int:
    """Return the 63-bit seed of one sample of a run, the same for every adapter."""
    text = "\x1f".join((str(seed), benchmark, question, str(sample)))
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=b"evals-sample")
    return int.from_bytes(digest.digest(), "big") >> 1


def _ask(engine: Engine, parts: Sequence[_Part], progress: Callable[[str, int], None]) -> None:
    """Ask what is not known yet; the batches are the same whatever has been done already."""
    progress("ask", sum(len(part.known) for part in parts))
    places = [(part, key) for part in parts for key in part.requests]
    places.sort(key=lambda place: len(place[0].requests[place[1]].prompt))
    size = int(getattr(engine, "max_rows", _BATCH))
    for start in range(0, len(places), size):
        missing = [(p, key) for p, key in places[start : start + size] if key not in p.known]
        rollouts = engine.generate([part.requests[key] for part, key in missing])
        new: dict[int, list[Sample]] = {}
        for (part, key), rollout in zip(missing, rollouts, strict=True):
            truncated = rollout.finish_reason == "length"
            tokens = len(rollout.completion_ids)
            text = before_stop(rollout.text, part.requests[key].stop)
            part.known[key] = Sample(*key, text, truncated, tokens)
            new.setdefault(id(part), []).append(part.known[key])
        for part in parts:
            if part.folder is not None and id(part) in new:
                part.folder.add(new[id(part)])
        progress("ask", len(missing))


def _grade(
    benchmark: Benchmark,
    questions: Sequence[Question],
    part: _Part,
    how: Grading,
    progress: Callable[[str, int], None],
    groups: Mapping[str, Group | None],
) -> tuple[Result, Sequence[Verdict]]:
    named = {question.id: question for question in questions}
    ordered = [part.known[key] for key in part.requests]
    earlier = part.folder.finished(versions()) if part.folder else None
    if earlier is not None and part.folder is not None:
        progress("grade", len(ordered))
        group = groups.get(earlier.adapter, earlier.group)
        if group != earlier.group:
            earlier = replace(earlier, group=group)
            part.folder.write_result(earlier)
        return earlier, read_verdicts(part.folder.place / "verdicts.jsonl")
    verdicts: list[Verdict] = []
    for verdict in benchmark.grade([(named[s.id], s) for s in ordered], how):
        verdicts.append(verdict)
        progress("grade", 1)
    result = Result(
        adapter=part.adapter or BASE,
        benchmark=benchmark.name,
        partial=len(questions) < len(benchmark.questions),
        overall=score(verdicts, benchmark.name),
        levels=score_levels(verdicts, benchmark.name),
        base_rate=base_rate(verdicts),
        settings=part.settings,
        versions=versions(),
        group=groups.get(part.adapter or BASE),
    )
    if part.folder is not None:
        part.folder.finish(ordered, verdicts, result)
    return result, verdicts


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


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
    digest = _digest(sample_lines(samples))
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
