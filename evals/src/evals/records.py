"""Prompts, samples and verdicts as JSON Lines."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from evals.benchmark import Sample, Verdict
from evals.errors import EvalsError
from evals.sources import kind, parse_object

_VERDICT = tuple(field.name for field in fields(Verdict) if field.name != "details")
_SAMPLE = {"sample": int, "truncated": bool, "tokens": int | None, "solution": str | None}


def sample_lines(samples: Iterable[Sample]) -> str:
    """Return the text of `samples.jsonl`."""
    return _lines(
        {name: value for name, value in vars(s).items() if name != "solution" or value is not None}
        for s in samples
    )


def verdict_lines(verdicts: Iterable[Verdict]) -> str:
    """Return the text of `verdicts.jsonl`."""
    return _lines(
        {name: getattr(verdict, name) for name in _VERDICT} | dict(verdict.details)
        for verdict in verdicts
    )


def prompt_lines(prompts: Mapping[str, str]) -> str:
    """Return the text of `prompts.jsonl`: what was asked, by question."""
    return _lines({"id": name, "prompt": text} for name, text in prompts.items())


def read_prompts(path: Path) -> dict[str, str]:
    """Read `prompts.jsonl`. Raises EvalsError with the line of one that cannot be used."""
    return {str(row["id"]): str(row["prompt"]) for _, row in _rows(path, ("id", "prompt"))}


def read_verdicts(path: Path) -> list[Verdict]:
    """Read `verdicts.jsonl`. Raises EvalsError with the line of one that cannot be used."""
    return [as_verdict(row) for _, row in _rows(path, _VERDICT)]


def as_verdict(row: Mapping[str, Any]) -> Verdict:
    """Return the verdict of a row that `verdict_lines` wrote."""
    return Verdict(
        **{name: row[name] for name in _VERDICT},
        details={name: value for name, value in row.items() if name not in _VERDICT},
    )


def read_samples(path: Path) -> list[Sample]:
    """Read rows {"id", "response", "sample"?, "truncated"?, "tokens"?, "solution"?}.

    Without `sample`, the rows of one id are numbered as they come. Raises EvalsError with the line
    number for a row that cannot be used, and for two rows of one sample.
    """
    samples: dict[tuple[str, int], Sample] = {}
    counts: Counter[str] = Counter()
    for place, row in _rows(path, ("id", "response")):
        for name, wanted in {"id": str, "response": str, **_SAMPLE}.items():
            value = row.get(name)
            if name in row and (
                not isinstance(value, wanted)
                or (isinstance(value, bool) and wanted is not bool)
                or (name == "sample" and int(value) < 0)
            ):
                raise EvalsError(f"{place}: {name} cannot be {kind(value)} {value!r}"[:300])
        sample = Sample(
            row["id"],
            row.get("sample", counts[row["id"]]),
            row["response"],
            **{name: row[name] for name in _SAMPLE if name in row and name != "sample"},
        )
        counts[sample.id] += 1
        if (sample.id, sample.sample) in samples:
            raise EvalsError(f"{place}: sample {sample.sample} of {sample.id} came before")
        samples[sample.id, sample.sample] = sample
    return list(samples.values())


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _rows(path: Path, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row that has these fields, with its place."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvalsError(f"{path} is not UTF-8 text: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"{path}, line {number}"
            row = parse_object(line, place)
            if not row.keys() >= set(names):
                raise EvalsError(f"{place}: expected an object with {', '.join(names)}")
            yield place, row
