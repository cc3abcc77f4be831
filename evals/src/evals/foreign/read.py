"""Saved samples of any harness, recognised by what they hold."""

from pathlib import Path

from evals.errors import EvalsError
from evals.foreign import evalplus, livecodebench, lm_eval
from evals.foreign.sample import ForeignSamples
from evals.sources.json_rows import parse_rows, read_bytes
from evals.sources.source import Row

_EXPECTED = (
    "expected samples of evalplus (task_id and solution or completion; TASK_ID/N.py; "
    "_eval_results.json), LiveCodeBench (question_id and output_list or code_list) or lm-eval "
    "--log_samples (doc_id and resps)"
)


def read_foreign(path: Path | str) -> ForeignSamples:
    """Read a file or folder of samples; names do not matter, gzip is fine.

    Raises EvalsError, in one line, for what is missing, torn, of no known harness, or of two.
    """
    path = Path(path)
    if path.is_dir():
        samples, notes = evalplus.read_folder(path)
        return ForeignSamples("evalplus", str(path), tuple(samples), tuple(notes))
    place = str(path)
    rows = parse_rows(read_bytes(path), place)
    if not rows:
        raise EvalsError(f"{place} holds no samples; {_EXPECTED}")
    if evalplus.is_results(rows):
        harness, found = "evalplus", evalplus.read_results(rows, place)
    elif all(map(livecodebench.is_outputs, rows)):
        harness, found = "livecodebench", livecodebench.read_outputs(rows, place)
    elif all(map(lm_eval.is_log, rows)):
        harness, found = "lm-eval", lm_eval.read_log(rows, place)
    elif all(map(evalplus.is_samples, rows)):
        harness, found = "evalplus", evalplus.read_samples(rows, place)
    else:
        raise _unknown(rows, place)
    return ForeignSamples(harness, place, tuple(found))


def _unknown(rows: list[Row], place: str) -> EvalsError:
    known = (livecodebench.is_outputs, lm_eval.is_log, evalplus.is_samples)
    same = next((test for test in known if test(rows[0])), None)
    number = next((i for i, row in enumerate(rows) if same and not same(row)), 0)
    keys = ", ".join(list(rows[number])[:8]) or "nothing"
    if {"id", "response"} <= rows[0].keys():
        return EvalsError(
            f"{place}: samples of evals itself; give them to `evals grade` as they are"
        )
    if {"results", "configs"} <= rows[0].keys():
        return EvalsError(f"{place}: results of lm-eval; give the samples file of --log_samples")
    other = ", unlike the rows before it" if number else ""
    return EvalsError(f"{place}, row {number + 1}: found fields {keys}{other}; {_EXPECTED}")
