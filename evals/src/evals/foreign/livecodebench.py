"""LiveCodeBench: output lists, before and after its evaluation."""

from collections.abc import Iterator, Sequence

from evals.errors import EvalsError
from evals.foreign.fields import claims, identifier, items, texts
from evals.foreign.sample import ForeignSample
from evals.sources.source import Row

_LISTS = ("output_list", "code_list", "graded_list", "metadata")


def is_outputs(row: Row) -> bool:
    """Whether it looks like a row of its output or `_eval_all` file, or of a custom output."""
    return "question_id" in row and ("output_list" in row or "code_list" in row)


def read_outputs(rows: Sequence[Row], place: str) -> Iterator[ForeignSample]:
    """Rows {"question_id", "output_list", "code_list", "graded_list"?, "metadata"?}.

    An output is a response, a code is the program that was taken from it; entry i of every list
    belongs to sample i.
    """
    seen: set[str] = set()
    for number, row in enumerate(rows, start=1):
        here = f"{place}, row {number}"
        problem = identifier(row, "question_id", here)
        if problem in seen:
            raise EvalsError(f"{here}: question_id {problem!r} came before")
        seen.add(problem)
        outputs, codes = (texts(row, name, here) for name in _LISTS[:2])
        graded, metadata = (items(row, name, here) for name in _LISTS[2:])
        found = {
            name: len(values)
            for name, values in zip(_LISTS[:3], (outputs, codes, graded), strict=True)
            if values is not None
        }
        if len(set(found.values())) != 1:
            lengths = ", ".join(f"{name} {count}" for name, count in found.items()) or "none"
            raise EvalsError(f"{here}: lists of one length were expected; found {lengths}")
        facts = claims(row, ("question_id", "question_content", "starter_code", "pass@1"))
        for sample in range(max(found.values())):
            own = {"graded": graded[sample]} if graded else {}
            if metadata and sample < len(metadata):
                own["metadata"] = metadata[sample]
            yield ForeignSample(
                id=problem,
                sample=sample,
                response=outputs[sample] if outputs is not None else None,
                solution=codes[sample] if codes is not None else None,
                claims=facts | own,
            )
