"""Prompts, samples and verdicts as JSON Lines; and saved samples of evalplus."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import code_verifier
from evals.data import OFFICIAL, Record, parse_object
from evals.errors import EvalsError
from evals.question import Benchmark, Sample, SampleVerdict
from evals.recipes import Limits, Recipe, template_of

_VERDICT = tuple(field.name for field in fields(SampleVerdict) if field.name != "details")
_SAMPLE: dict[str, Any] = {"id": str | int, "response": str, "sample": int, "truncated": bool}
_SAMPLE |= {"tokens": int | None, "solution": str | None}


def sample_lines(samples: Iterable[Sample]) -> str:
    """Return the text of `samples.jsonl`."""
    return json_lines(
        {name: value for name, value in vars(s).items() if name != "solution" or value is not None}
        for s in samples
    )


def verdict_lines(verdicts: Iterable[SampleVerdict]) -> str:
    """Return the text of `verdicts.jsonl`."""
    return json_lines(
        {name: getattr(verdict, name) for name in _VERDICT} | dict(verdict.details)
        for verdict in verdicts
    )


def read_prompts(path: Path) -> dict[str, str]:
    """Read `prompts.jsonl`. Raises EvalsError with the line of one that cannot be used."""
    return {str(row["id"]): str(row["prompt"]) for _, row in _rows(path, ("id", "prompt"))}


def read_verdicts(path: Path) -> list[SampleVerdict]:
    """Read `verdicts.jsonl`. Raises EvalsError with the line of one that cannot be used."""
    rows = (row for _, row in _rows(path, _VERDICT))
    return [SampleVerdict(**{n: row.pop(n) for n in _VERDICT}, details=row) for row in rows]


def read_samples(path: Path) -> list[Sample]:
    """Read rows {"id", "response", "sample"?, "truncated"?, "tokens"?, "solution"?}. An id may be a
    number. Without `sample`, the rows of one id are numbered as they come. Raises EvalsError with
    the line for a row that cannot be used, and for two rows of one sample."""
    samples: dict[tuple[str, int], Sample] = {}
    counts: Counter[str] = Counter()
    for place, row in _rows(path, ("id", "response")):
        fields = {name: value for name, value in row.items() if name in _SAMPLE}
        for name, value in fields.items():
            valid = isinstance(value, _SAMPLE[name]) and (name != "sample" or value >= 0)
            if not valid or (isinstance(value, bool) and name != "truncated"):
                raise EvalsError(f"{place}: {name} cannot be {value!r}"[:300])
        fields["id"] = str(row["id"])
        sample = Sample(**{"sample": counts[fields["id"]], **fields})
        counts[sample.id] += 1
        if (sample.id, sample.sample) in samples:
            raise EvalsError(f"{place}: sample {sample.sample} of {sample.id} came before")
        samples[sample.id, sample.sample] = sample
    return list(samples.values())


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of a JSON Lines file."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def _rows(path: Path, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row that has these fields, with its place."""
    try:
        for number, row in code_verifier.read_rows(path):
            place = f"{path}, line {number}"
            if not row.keys() >= set(names):
                raise EvalsError(f"{place}: expected an object with {', '.join(names)}")
            yield place, row
    except code_verifier.CodeVerifierError as error:
        raise EvalsError(str(error)) from None


_EXPECTED = "expected samples of evals (id and response) or of evalplus (task_id, and solution or "
_EXPECTED += "completion)"


def saved_samples(path: Path, benchmark: Benchmark) -> tuple[list[Sample], list[str]]:
    """Read the samples of a file (gzip is fine), and return them with notes for the user. Samples
    of evalplus are known by their fields; those for other questions are left out. Raises EvalsError
    for a file without readable samples, and for one of ours whose question is not there."""
    questions = {question.id: question for question in benchmark.questions}
    rows = list(_rows(path, ()))
    if not rows:
        raise EvalsError(f"{path} holds no samples; {_EXPECTED}")
    of_evalplus = all("task_id" in row for _, row in rows)
    if not of_evalplus and ("response" not in rows[0][1] or "task_id" in rows[0][1]):
        raise EvalsError(f"{path}: found fields {', '.join(list(rows[0][1])[:8])}; {_EXPECTED}")
    continued = benchmark.name in OFFICIAL and OFFICIAL[benchmark.name].cache
    prompts = {id: q.fields["prompt"] for id, q in questions.items() if continued}
    everything = list(_programs(rows, prompts)) if of_evalplus else read_samples(path)
    samples = [sample for sample in everything if sample.id in questions]
    strangers = [sample.id for sample in everything if sample.id not in questions]
    if strangers and not (of_evalplus and samples):
        fault = f"{benchmark.name} has no task {strangers[0]!r}"
        raise EvalsError(f"{path}: {fault} (first: {benchmark.questions[0].id!r})")
    notes = ["samples of evalplus"] if of_evalplus else []
    count = f"{len(strangers)} samples left out: not in this data"
    notes += [f"{count}, {stranger!r} first" for stranger in strangers[:1]]
    return samples, notes


def _programs(rows: Sequence[tuple[str, Record]], prompts: Mapping[str, str]) -> Iterator[Sample]:
    """The samples of rows {"task_id", "solution"} (whole programs) or {"task_id", "completion"}.
    prompts: those that completions go on from. Of others, one with fences is a response."""
    counts: Counter[str] = Counter()
    for place, row in rows:
        name, solution = str(row["task_id"]), row.get("solution")
        completes = solution is None and isinstance(row.get("completion"), str)
        if completes:
            solution = prompts.get(name, "") + row["completion"]
        if not isinstance(solution, str):
            raise EvalsError(f"{place}: neither solution nor completion; found {', '.join(row)}")
        whole = not completes or name in prompts or "```" not in solution
        yield Sample(name, counts[name], solution, solution=solution if whole else None)
        counts[name] += 1


def recipe_next_to(samples: Path, benchmark: str) -> Recipe | None:
    """Return the recipe in the settings.json next to samples of `evals run`; None without one."""
    try:
        row = parse_object((samples.parent / "settings.json").read_bytes(), "")
        templates = {benchmark: template_of(row["template"])}
        return Recipe(row["recipe"], "", templates, grading={benchmark: Limits(**row["grading"])})
    except (OSError, EvalsError, KeyError, TypeError):
        return None


def prompts_of(samples: Path) -> dict[str, str]:
    """Return prompts by question, from the rows of samples and the prompts.jsonl next to them.
    Raises EvalsError for a file that cannot be read."""
    paths = [path for path in (samples.parent / "prompts.jsonl", samples) if path.exists()]
    rows = [row for path in paths for _, row in _rows(path, ()) if "prompt" in row]
    return {str(row.get("id", row.get("task_id"))): str(row["prompt"]) for row in rows}
