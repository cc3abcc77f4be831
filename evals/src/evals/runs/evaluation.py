"""One adapter on one benchmark: ask, keep, judge, count."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from code_verifier import Sandbox
from evals.benchmarks.benchmark import Benchmark, Question, Sample
from evals.benchmarks.catalog import load_benchmark
from evals.engine.request import Engine, Request
from evals.errors import EvalsError
from evals.runs.result import Result, Settings, score, score_levels
from evals.runs.run_folder import RunFolder, open_run_folder
from evals.runs.seeds import sample_seed
from evals.runs.versions import versions

_BATCH = 64
_BASE = "base"


def evaluate(
    engine: Engine,
    benchmark: Benchmark | str,
    adapter: str | None = None,
    n: int = 1,
    temperature: float = 0.0,
    *,
    max_tokens: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: Path | str | None = None,
    sandbox: Sandbox | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Sample `n` responses to every question and judge them.

    adapter: a name the engine has loaded; None is the base model. max_tokens: None is the
    benchmark's own. limit: ask only so many questions, the same share of each level. out: folder
    for samples, verdicts and result; a run that stopped goes on there. sandbox: to judge in; else
    one is opened. progress: called with the number of samples that are newly done.

    Raises EvalsError for unusable arguments, and SettingsChanged when `out` holds another run.
    """
    if isinstance(benchmark, str):
        benchmark = load_benchmark(benchmark)
    max_tokens = benchmark.max_tokens if max_tokens is None else max_tokens
    _check(n, temperature, max_tokens, limit, seed)
    questions = choose(benchmark, limit)
    settings: Settings = {
        "benchmark_hash": benchmark.content_hash,
        "n": n,
        "temperature": float(temperature),
        "max_tokens": max_tokens,
        "limit": limit,
        "seed": seed,
        **_identity(engine, adapter),
    }
    requests = {
        (question.id, number): Request(
            prompt=question.prompt,
            adapter=adapter,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=sample_seed(seed, benchmark.name, question.id, number),
        )
        for question in questions
        for number in range(n)
    }
    with ExitStack() as stack:
        folder = None
        kept: list[Sample] = []
        if out is not None:
            folder = stack.enter_context(open_run_folder(Path(out), settings))
            kept = folder.samples
        known = {(sample.id, sample.sample): sample for sample in kept}
        if progress is not None and known:
            progress(len(known))
        for batch in _batches(engine, requests):
            missing = [key for key in batch if key not in known]
            if missing:
                known |= _ask(engine, requests, missing, folder)
                if progress is not None:
                    progress(len(missing))
        if sandbox is None:
            sandbox = stack.enter_context(Sandbox())
        named = {question.id: question for question in questions}
        ordered = [known[key] for key in requests]
        pairs = [(named[sample.id], sample) for sample in ordered]
        judgements = list(benchmark.judge(pairs, sandbox))
        result = Result(
            adapter=adapter if adapter is not None else _BASE,
            benchmark=benchmark.name,
            partial=len(questions) < len(benchmark.questions),
            overall=score(judgements),
            levels=score_levels(judgements),
            settings=settings,
            versions=versions(),
        )
        if folder is not None:
            folder.finish(ordered, judgements, result)
    return result


def choose(benchmark: Benchmark, limit: int | None) -> list[Question]:
    """The first questions of every level, `limit` in all, in the benchmark's order."""
    if limit is None or limit >= len(benchmark.questions):
        return list(benchmark.questions)
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


def _identity(engine: Engine, adapter: str | None) -> dict[str, Any]:
    """What the engine says of itself; engines need not say anything."""
    identity = getattr(engine, "identity", None)
    return dict(identity(adapter)) if identity else {"engine": type(engine).__name__}


def _batches(
    engine: Engine, requests: dict[tuple[str, int], Request]
) -> Iterator[Sequence[tuple[str, int]]]:
    """All samples, short prompts first; the same batches whatever has been done already."""
    keys = sorted(requests, key=lambda key: len(requests[key].prompt))
    size = int(getattr(engine, "max_rows", _BATCH))
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def _ask(
    engine: Engine,
    requests: dict[tuple[str, int], Request],
    keys: Sequence[tuple[str, int]],
    folder: RunFolder | None,
) -> dict[tuple[str, int], Sample]:
    completions = engine.generate([requests[key] for key in keys])
    samples = [
        Sample(
            id=key[0],
            sample=key[1],
            response=completion.text,
            truncated=completion.finish_reason == "length",
            tokens=len(completion.token_ids),
        )
        for key, completion in zip(keys, completions, strict=True)
    ]
    if folder is not None:
        folder.add(samples)
    return dict(zip(keys, samples, strict=True))
