"""Runs, results and leagues as data frames, and the notebook that reads a run."""

import json
from pathlib import Path

import nbformat
import pandas
import polars
import pytest
from nbclient import NotebookClient

import evals
import league
import selfplay
from lora_evo.model import open_engine
from selfplay.config import read_config
from selfplay.nano_benchmarks import nano_code_o
from selfplay.progress import Progress
from selfplay.settings import override, read_preset
from selfplay.training import train

ROOT = Path(__file__).parents[2]
SETTINGS = (
    *("seed=1", "steps=3", "sandbox.workers=1", "rollout.proposals=2"),
    *("rollout.num_generations=3", "rollout.seed_tasks=4", "rollout.max_proposal_length=64"),
    *("learner.r=2", "learner.lora_alpha=4", "learner.target_modules=[q_proj, v_proj]"),
    *("evolution.evolve_every=2", "league.grace_matches=1", "eval.eval_every=2"),
    *("eval.tasks=6", "eval.samples=2", "eval.proposals=2"),
    *("eval.attempts=2", "eval.same_tasks=1"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data = read_preset("nano")
    for assignment in SETTINGS:
        override(data, assignment)
    directory = tmp_path_factory.mktemp("runs") / "demo"
    train(read_config(data), directory, Progress(quiet=True))
    return directory


def test_frames_tell_what_the_files_tell(run):
    rows = [json.loads(line) for line in (run / "tasks.jsonl").read_text().splitlines()]
    frames = selfplay.read_run(run).to_pandas()
    tasks, lineage, evals_ = frames["tasks"], frames["lineage"], frames["evals"]
    assert list(tasks["id"]) == [row["id"] for row in rows]
    assert frames["attempts"]["count"].sum() == sum(
        a["count"] for row in rows for a in row["attempts"]
    )
    assert list(lineage[lineage["born"] > 0]["member"]) == ["t2", "s2"]
    assert set(evals_["member"]) >= {"base", "s1"}
    assert "solving/difference" in evals_
    assert len(frames["steps"]) == 3
    assert set(frames) >= {"members", "ratings", "matches"}


def test_leagues_and_results_are_taken_by_both_libraries(run, tmp_path):
    engine = open_engine("hf", "nano")
    evals.evaluate(engine, nano_code_o(evals.Data()), limit=2, out=tmp_path)
    engine.close()
    for found in (evals.read_results(tmp_path), league.read_league(run / "league")):
        for name in found.__dataclass_fields__:
            table = getattr(found, name)
            for library in (pandas, polars):
                frame = library.DataFrame(table)
                assert list(frame.columns) == list(table)
                assert len(frame) == len(next(iter(table.values())))


def test_the_notebook_runs(run):
    path = ROOT / "examples" / "notebooks" / "a_run.ipynb"
    book = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)
    place = book.cells[1]
    assert 'RUN = "runs/demo"' in place.source
    place.source = place.source.replace('"runs/demo"', repr(str(run)))
    NotebookClient(book, resources={"metadata": {"path": str(ROOT)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", ())]
    assert sum("text/html" in output.get("data", {}) for output in shown) >= 4
