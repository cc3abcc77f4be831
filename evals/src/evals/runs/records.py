"""Samples and verdicts as JSON Lines."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.benchmarks.benchmark import Judgement, Sample
from evals.errors import EvalsError


def sample_line(sample: Sample) -> str:
    """One line of `samples.jsonl`, with its line break."""
    row = {
        "id": sample.id,
        "sample": sample.sample,
        "response": sample.response,
        "truncated": sample.truncated,
        "tokens": sample.tokens,
    }
    if sample.solution is not None:
        row["solution"] = sample.solution
    return json.dumps(row) + "\n"


def verdict_lines(judgements: Iterable[Judgement]) -> str:
    """The text of `verdicts.jsonl`."""
    rows = (
        {
            "id": item.id,
            "sample": item.sample,
            "level": item.level,
            "correct": item.correct,
            "reason": item.reason,
            "extracted": item.extracted,
            "truncated": item.truncated,
            **item.details,
        }
        for item in judgements
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def prompt_lines(prompts: Mapping[str, str]) -> str:
    """The text of `prompts.jsonl`: what was asked, by question."""
    return "".join(
        json.dumps({"id": name, "prompt": text}) + "\n" for name, text in prompts.items()
    )


def read_prompts(path: Path) -> dict[str, str]:
    """Read `prompts.jsonl`; folders of earlier versions have none."""
    if not path.is_file():
        return {}
    return {str(row["id"]): str(row["prompt"]) for row in _rows(path, ("id", "prompt"))}


def read_verdicts(path: Path) -> list[Judgement]:
    """Read `verdicts.jsonl`. Raises EvalsError with the line of one that cannot be used."""
    names = tuple(name for name in Judgement.__dataclass_fields__ if name != "details")
    found = []
    for row in _rows(path, names):
        details = {name: value for name, value in row.items() if name not in names}
        found.append(Judgement(**{name: row[name] for name in names}, details=details))
    return found


def _rows(path: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise EvalsError(f"{path}, line {number}: not JSON ({error}); it is damaged") from None
        if not isinstance(row, dict) or not row.keys() >= set(names):
            raise EvalsError(f"{path}, line {number}: expected an object with {', '.join(names)}")
        yield row


def read_samples(path: Path) -> list[Sample]:
    """Read rows {"id", "response", "sample"?, "truncated"?, "tokens"?}.

    Without `sample`, the rows of one id are numbered as they come. Raises EvalsError with the line
    number for a row that cannot be used, and for two rows of one sample.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvalsError(f"{path} is not UTF-8 text: {error}") from error
    samples: list[Sample] = []
    seen: set[tuple[str, int]] = set()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        sample = _sample(line, place, counts)
        if (sample.id, sample.sample) in seen:
            raise EvalsError(f"{place}: sample {sample.sample} of {sample.id} came before")
        seen.add((sample.id, sample.sample))
        samples.append(sample)
    return samples


def _sample(line: str, place: str, counts: dict[str, int]) -> Sample:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise EvalsError(f"{place}: not JSON ({error}); expected one object a line") from None
    if not isinstance(row, dict):
        raise EvalsError(f"{place}: found {type(row).__name__}, expected an object")
    for name in ("id", "response"):
        if not isinstance(row.get(name), str):
            raise EvalsError(f"{place}: field {name!r} is missing or not a text")
    number = row.get("sample", counts.get(row["id"], 0))
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise EvalsError(f"{place}: sample is {number!r}; expected a number from 0")
    truncated, tokens = row.get("truncated", False), row.get("tokens")
    if not isinstance(truncated, bool):
        raise EvalsError(f"{place}: truncated is {truncated!r}; expected true or false")
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int)):
        raise EvalsError(f"{place}: tokens is {tokens!r}; expected a number")
    counts[row["id"]] = counts.get(row["id"], 0) + 1
    return Sample(row["id"], number, row["response"], truncated, tokens)
