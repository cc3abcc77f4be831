"""Finished runs as files of other harnesses: lm-eval's results, evalplus' samples."""

import json
from collections.abc import Sequence
from statistics import stdev
from typing import Any

from evals.errors import EvalsError
from evals.evaluation import BASE
from evals.metrics import problem_scores
from evals.recipes import MATH
from evals.results import FinishedRun, by_question
from evals.sources import OFFICIAL


def lm_eval_results(runs: Sequence[FinishedRun]) -> str:
    """Return the runs of one adapter as lm-eval 0.4 writes its `results_*.json`.

    The metric is `exact_match` in math and `pass@1` elsewhere: the mean over tasks of the share of
    right samples, in [0, 1], with its standard error over tasks. `n-shot` is 0, as examples are
    part of the recipe. Raises EvalsError for several adapters or runs of one benchmark.
    """
    named = {run.result.benchmark: run for run in runs}
    adapter = _only("adapters", [run.result.adapter for run in runs])
    if len(named) < len(runs):
        raise EvalsError("found several runs of one benchmark; name folders with one of each")
    settings = runs[0].result.settings
    model = f"pretrained={settings.get('model')},dtype={settings.get('dtype')}"
    found: dict[str, Any] = {
        "results": {name: _metrics(run, name) for name, run in named.items()},
        "group_subtasks": {name: [] for name in named},
        "configs": {name: _config(run, name) for name, run in named.items()},
        "versions": {name: run.result.versions["evals"] for name, run in named.items()},
        "n-shot": dict.fromkeys(named, 0),
        "higher_is_better": {name: {_metric(name): True} for name in named},
        "n-samples": {
            name: {
                "original": None if run.result.partial else run.result.overall.tasks,
                "effective": run.result.overall.tasks,
            }
            for name, run in named.items()
        },
        "config": {
            "model": settings.get("engine"),
            "model_args": model if adapter == BASE else f"{model},peft={adapter}",
            "limit": settings.get("limit"),
            "random_seed": settings.get("seed"),
        },
        "model_source": settings.get("engine"),
        "model_name": settings.get("model"),
    }
    return json.dumps(found, indent=2)


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
        {"task_id": found.id, "solution": found.extracted or sample.solution or sample.response}
        for found in run.verdicts
        for sample in [run.samples[found.id, found.sample]]
    ]
    return "\n".join(map(json.dumps, rows))


def _only(what: str, names: Sequence[str]) -> str:
    first, *others = dict.fromkeys(names)
    if others:
        raise EvalsError(
            f"found {len(others) + 1} {what} ({first}, {others[0]} ...), and the format holds one; "
            "name its folder below the --out of `evals run`"
        )
    return first


def _metric(benchmark: str) -> str:
    return "exact_match" if benchmark in MATH else "pass@1"


def _metrics(run: FinishedRun, benchmark: str) -> dict[str, Any]:
    rates = list(problem_scores(by_question(run.verdicts)).values())
    error = stdev(rates) / len(rates) ** 0.5 if len(rates) > 1 else "N/A"
    name = _metric(benchmark)
    return {
        "alias": benchmark,
        f"{name},none": run.result.overall.rate,
        f"{name}_stderr,none": error,
    }


def _config(run: FinishedRun, benchmark: str) -> dict[str, Any]:
    settings = run.result.settings
    template = settings["template"]
    sampling = {
        name: settings[name] for name in ("temperature", "top_p", "top_k") if name in settings
    }
    return {
        "task": benchmark,
        "doc_to_text": template["text"],
        "output_type": "generate_until",
        "num_fewshot": 0,
        "repeats": settings["n"],
        "generation_kwargs": {
            "until": template["stop"],
            "max_gen_toks": settings["max_tokens"],
            "do_sample": settings["temperature"] > 0,
            **sampling,
        },
        "metadata": {"recipe": settings["recipe"], "dataset": settings["benchmark_hash"]},
    }
