"""Runs, results and leagues as data frames: every column is on the page, and every one there is."""

import json
import re
from pathlib import Path

import nbformat
import pandas
import polars
import pytest
from nbclient import NotebookClient

import evals
import league
import selfplay
from selfplay.config.preset import read_preset
from selfplay.config.run_config import override, read_config
from selfplay.step.loop import train
from selfplay.step.progress import Progress

ROOT = Path(__file__).parents[2]
SETTINGS = (
    *("seed=1", "steps=3", "sandbox.workers=1", "rollout.proposals=2"),
    *("rollout.num_generations=3", "rollout.seed_tasks=4", "rollout.max_proposal_length=64"),
    *("learner.r=2", "learner.lora_alpha=4", "learner.target_modules=[q_proj, v_proj]"),
    *("evolution.evolve_every=2", "league.grace_matches=1", "yardstick.eval_every=2"),
    *("yardstick.tasks=6", "yardstick.samples=2", "yardstick.proposals=2"),
    *("yardstick.attempts=2", "yardstick.same_tasks=1"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data = read_preset("nano")
    for assignment in SETTINGS:
        override(data, assignment)
    directory = tmp_path_factory.mktemp("runs") / "demo"
    train(read_config(data), directory, Progress(quiet=True))
    return directory


@pytest.fixture(scope="module")
def tables(run, tmp_path_factory):
    """All tables by the heading under which the page lists them."""
    scores = tmp_path_factory.mktemp("scores")
    engine = evals.HFEngine("nano")
    evals.evaluate(engine, "nano_code_o", limit=2, out=scores)
    engine.close()
    found = selfplay.read_run(run), evals.read_results(scores), league.read_league(run / "league")
    return {
        (package, name): getattr(table, name)
        for package, table in zip(("selfplay", "evals", "league"), found, strict=True)
        for name in table.__dataclass_fields__
    }


def listed():
    """The columns on the page, by package and table."""
    found, package, table = {}, "", ""
    for line in (ROOT / "docs" / "frames.md").read_text().splitlines():
        if heading := re.match(r"##+ `(\w+)", line):
            named = heading[1] in ("selfplay", "evals", "league")
            package, table = (heading[1], "") if named else (package, heading[1])
        elif line.startswith("|") and package:
            first, second = (re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:3])
            if first and second and len(line.split("|")) == 5:
                table = first[0]
            names = second if len(line.split("|")) == 5 else first
            found.setdefault((package, table), []).extend(names)
    return {place: names for place, names in found.items() if names}


def test_page_and_tables_have_the_same_columns(tables):
    page = listed()
    assert page.keys() == tables.keys()
    for place, table in tables.items():
        patterns = [re.sub(r"[A-Z]+", r"[^/]+", name) for name in page[place]]
        unlisted = [c for c in table if not any(re.fullmatch(p, c) for p in patterns)]
        absent = [p for p in patterns if not any(re.fullmatch(p, column) for column in table)]
        assert unlisted == []
        # What did not happen in so short a run has no column of its own.
        assert set(absent) <= {
            "student_reward",
            "kl",
            "void",
            "rate_level_[^/]+",
            "text",
            "rejected/[^/]+",
            "details/[^/]+",
        }


@pytest.mark.parametrize("library", [pandas, polars])
def test_both_libraries_take_every_table(tables, library):
    for table in tables.values():
        frame = library.DataFrame(table)
        assert list(frame.columns) == list(table)
        assert len(frame) == len(next(iter(table.values())))


def test_tables_tell_what_the_files_tell(run, tables):
    rows = [json.loads(line) for line in (run / "tasks.jsonl").read_text().splitlines()]
    tasks, attempts = tables["selfplay", "tasks"], tables["selfplay", "attempts"]
    assert tasks["id"] == [row["id"] for row in rows]
    assert tasks["rho"] == [row["rho"] for row in rows]
    assert sum(attempts["count"]) == sum(a["count"] for row in rows for a in row["attempts"])
    lineage = tables["selfplay", "lineage"]
    children = [name for name, born in zip(lineage["member"], lineage["born"], strict=True) if born]
    assert children == ["t2", "s2"]
    assert {"t2", "s2"} <= set(tables["league", "members"]["name"])


def test_the_notebook_runs(run):
    path = ROOT / "examples" / "notebooks" / "a_run.ipynb"
    book = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)
    place = book.cells[1]
    assert 'RUN = "runs/demo"' in place.source
    place.source = place.source.replace('"runs/demo"', repr(str(run)))
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", ())]
    assert sum("text/html" in output.get("data", {}) for output in shown) >= 4
