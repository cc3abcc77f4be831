"""lm-evaluation-harness: the files of `--log_samples`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from evals.errors import EvalsError
from evals.foreign.fields import claims, items
from evals.foreign.sample import ForeignSample
from evals.sources.json_rows import kind
from evals.sources.source import Row

_NAMES = ("task_id", "question_id", "unique_id", "problem_id", "id", "idx")
_HASHES = ("doc_id", "doc_hash", "prompt_hash", "target_hash", "filter")


def is_log(row: Row) -> bool:
    """Whether it looks like a row of `--log_samples`."""
    return "doc_id" in row and "resps" in row


def read_log(rows: Sequence[Row], place: str) -> Iterator[ForeignSample]:
    """Rows {"doc_id", "doc", "resps", "filtered_resps", "filter"?, metrics ...}.

    A task with several filters has a row for each; they become one sample, with what each filter
    took and claims named FILTER:METRIC. The id is the document's own where it has one, else its
    number. Raises EvalsError for a task without generated text (log-likelihoods).
    """
    found: dict[tuple[int, int], ForeignSample] = {}
    seen: set[tuple[int, str]] = set()
    for number, row in enumerate(rows, start=1):
        here = f"{place}, row {number}"
        index, name = row.get("doc_id"), str(row.get("filter", "none"))
        if isinstance(index, bool) or not isinstance(index, int):
            raise EvalsError(f"{here}: doc_id is {kind(index)}; expected a number")
        if (index, name) in seen:
            raise EvalsError(f"{here}: doc_id {index} with filter {name!r} came before")
        seen.add((index, name))
        responses = _responses(row, here)
        facts = {f"{name}:{key}": value for key, value in claims(row, _HASHES).items()}
        for sample, response in enumerate(responses):
            known = found.get((index, sample)) or ForeignSample(
                _identifier(row, index), sample, response=response, index=index
            )
            if known.response != response:
                raise EvalsError(f"{here}: doc_id {index} has other responses than before")
            taken = _filtered(row, sample, len(responses), here)
            found[index, sample] = replace(
                known,
                filtered={**known.filtered, **({} if taken is None else {name: taken})},
                claims={**known.claims, **facts},
            )
    yield from found.values()


def _responses(row: Row, here: str) -> list[str]:
    """The texts of the one request of a document."""
    requests = items(row, "resps", here) or []
    if len(requests) != 1 or not isinstance(requests[0], list):
        raise EvalsError(f"{here}: resps holds no generated text; this task is not a generation")
    for response in requests[0]:
        if not isinstance(response, str):
            raise EvalsError(
                f"{here}: resps holds {kind(response)}, expected texts; this task is not a "
                "generation"
            )
    return requests[0]


def _filtered(row: Row, sample: int, samples: int, here: str) -> str | None:
    """What the filter took from one sample: a text for all of them, or a list of texts."""
    requests = items(row, "filtered_resps", here)
    taken: Any = requests[0] if requests else None
    if isinstance(taken, list):
        taken = taken[sample] if len(taken) == samples else None
    elif samples > 1:
        taken = None
    return taken if isinstance(taken, str) else None


def _identifier(row: Row, index: int) -> str:
    doc = row.get("doc")
    own = [doc[name] for name in _NAMES if name in doc] if isinstance(doc, dict) else []
    named = [value for value in own if isinstance(value, str | int) and value != ""]
    return str(named[0] if named else index)
