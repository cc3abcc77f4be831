"""The recipes `lm-eval` and `lm-eval-cot` give lm-evaluation-harness' prompts, to the byte."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from json_lines import write_rows

from evals import Data, load_benchmark
from evals.evaluation import make_plan

lm_eval = pytest.importorskip("lm_eval")

SUMS = [
    {"question": f"Tom has {n} pens and {n}{{1}} more.  How many? ", "answer": f" {n}\n#### {n}"}
    for n in range(12)
]
MATH = [
    {"problem": f"Find $x$ if $\\frac{{x}}{{2}} = {n}$.", "solution": rf"So $\boxed{{{2 * n}}}$."}
    for n in range(3)
]
FUNCTION = {
    "task_id": "HumanEval/0", "prompt": "\n\ndef f(x):\n    \"\"\"{x} twice\"\"\"\n",
    "entry_point": "f", "canonical_solution": "    return 2 * x\n", "test": "",
    "base_input": [[1]], "plus_input": [], "atol": 0,
}  # fmt: skip


def prompts(task: str, files: dict[str, Path], folder: Path) -> list[str]:
    """The prompts of lm-eval on rows of files, as its command asks them."""
    from lm_eval.tasks import TaskManager

    (path,) = Path(lm_eval.__file__).parent.glob(f"tasks/*/{task.replace('_cot_', '-cot-')}.yaml")
    config = {
        "include": str(path), "task": "mine", "dataset_path": "json", "dataset_name": None,
        "dataset_kwargs": {"data_files": {split: str(file) for split, file in files.items()}},
    }  # fmt: skip
    folder.mkdir()
    (folder / "mine.yaml").write_text(json.dumps(config))
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    loaded = manager.load(["mine"])["tasks"]["mine"]
    loaded.set_fewshot_seed(1234)
    shots = loaded.config.num_fewshot or 0
    return [loaded.fewshot_context(doc, shots) for doc in loaded.eval_docs]


@pytest.mark.parametrize("task", ["gsm8k", "gsm8k_cot_zeroshot", "minerva_math500", "humaneval"])
def test_prompts_are_equal(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = SimpleNamespace(compute=lambda **_: {})  # which humaneval loads from the hub
    monkeypatch.setattr("evaluate.load", lambda name: metric)
    # Its math grader wants another antlr4 than verl does; prompts need none.
    pytest.importorskip("math_verify")  # reads the true version
    monkeypatch.setattr("importlib.metadata.version", lambda name: "4.11.1")
    rows, name, recipe = {
        "gsm8k": (SUMS[:5], "gsm8k", "lm-eval"),
        "gsm8k_cot_zeroshot": (SUMS[:5], "gsm8k", "lm-eval-cot"),
        "minerva_math500": (MATH, "math500", "lm-eval"),
        "humaneval": ([FUNCTION], "humaneval_plus", "lm-eval"),
    }[task]
    test = write_rows(tmp_path / "test.jsonl", rows)
    train = write_rows(tmp_path / "train.jsonl", SUMS[5:])
    ids = [
        {**row, "unique_id": str(n), "answer": row.get("answer", "1")} for n, row in enumerate(rows)
    ]
    benchmark = load_benchmark(name, Data(write_rows(tmp_path / "ours.jsonl", ids)))
    plan = make_plan(benchmark, recipe=recipe, examples=train)
    files = {"test": test, "train": train} if name == "gsm8k" else {"test": test}
    theirs = prompts(task, files, tmp_path / "task")
    assert list(plan.prompts(None).values()) == theirs
