"""A finished run as evalplus' file of samples."""

import json
from collections.abc import Sequence

from evals.errors import EvalsError
from evals.results import FinishedRun
from evals.sources import OFFICIAL


def evalplus_samples(runs: Sequence[FinishedRun]) -> str:
    """Return the samples of one run on HumanEval+ or MBPP+ as evalplus' `samples.jsonl`.

    A row is {"task_id", "solution"}: the program that was graded, or, where none was found, the
    response. Raises EvalsError for several runs, and for another benchmark.
    """
    _only("results", [f"{run.result.adapter} on {run.result.benchmark}" for run in runs])
    (run,) = runs
    known = OFFICIAL.get(run.result.benchmark)
    if known is None or known.cache is None:
        raise EvalsError(
            f"evalplus has no {run.result.benchmark}; it has humaneval_plus, mbpp_plus"
        )
    rows = [
        {"task_id": verdict.id, "solution": verdict.extracted or sample.solution or sample.response}
        for verdict in run.verdicts
        for sample in [run.samples[verdict.id, verdict.sample]]
    ]
    return "\n".join(map(json.dumps, rows))


def _only(plural: str, names: Sequence[str]) -> str:
    first, *others = dict.fromkeys(names)
    if others:
        raise EvalsError(
            f"found {len(others) + 1} {plural} ({first}, {others[0]} ...), and the format holds "
            "one; name its folder below the --out of `evals run`"
        )
    return first
