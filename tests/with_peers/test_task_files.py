"""The tasks of a run, in every form, loaded by `datasets` and read by verl."""

import json
from pathlib import Path
from typing import Any

import pytest
from programs import python

from selfplay import load_preset, train

datasets = pytest.importorskip("datasets")
COLUMNS = {
    "ours": {"id", "step", "teacher", "kind", "program", "input", "output", "solve_rate"},
    "azr": {"snippet", "input", "output", "imports", "original_snippet", "composite_functions"},
    "cruxeval": {"id", "code", "input", "output"},
    "trl": {"prompt", "kind", "program", "output", "inputs", "outputs", "visible"},
    "verl": {"data_source", "prompt", "ability", "reward_model", "extra_info"},
}
READER = """
import json, sys
from omegaconf import OmegaConf
from code_verifier import compute_score
from verl.utils.dataset.rl_dataset import RLHFDataset

config = OmegaConf.create({"filter_overlong_prompts": False, "cache_dir": sys.argv[2]})
found = RLHFDataset(sys.argv[1], None, config)
for row in found:
    truth = row["reward_model"]["ground_truth"]
    answer = json.loads(truth)
    gold = {"code_o": "output", "code_i": "input", "code_f": "program"}[answer["kind"]]
    text = f"<answer>{answer[gold]}</answer>"
    assert row["raw_prompt"][0]["role"] == "user"
    assert compute_score(row["data_source"], text, truth) == 1.0
print(len(found))
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small run's tasks in every form."""
    home = tmp_path_factory.mktemp("tasks")
    small = ("rollout.proposals=4", "rollout.num_generations=2", "eval.eval_every=0")
    train(load_preset("nano", *small, steps=2, seed=1), home / "run")
    found = {form: home / f"{form}.jsonl" for form in COLUMNS}
    for form, path in found.items():
        words = ["tasks", str(home / "run"), "--out", str(path), "--format", form]
        python("-m", "selfplay", *words)
    return found


def last(program: str, *words: str) -> Any:
    return json.loads(python("-c", program, *words).splitlines()[-1])


@pytest.mark.parametrize("form", COLUMNS)
def test_datasets_loads_it(form: str, files: dict[str, Path], tmp_path: Path) -> None:
    rows = datasets.load_dataset(
        "json", data_files=str(files[form]), split="train", cache_dir=str(tmp_path)
    )
    assert COLUMNS[form] <= set(rows.column_names)
    assert len(rows) == len(files[form].read_text().splitlines()) > 1


def test_verl_reads_it_and_scores_right_answers(files: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("verl.utils.reward_score")
    assert last(READER, str(files["verl"]), str(tmp_path)) > 1
