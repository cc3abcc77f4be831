"""Runs as data frames, and the notebook that reads a run."""

from pathlib import Path

import nbformat
from json_lines import read_rows

import selfplay

ROOT = Path(__file__).parents[2]


def test_frames_hold_what_the_files_hold(whole):
    rows = read_rows(whole / "tasks.jsonl")
    frames = selfplay.read_run(whole).to_pandas()
    tasks, lineage, evals_ = frames["tasks"], frames["lineage"], frames["evals"]
    assert list(tasks["id"]) == [row["id"] for row in rows]
    assert frames["attempts"]["count"].sum() == sum(
        a["count"] for row in rows for a in row["attempts"]
    )
    assert list(lineage[lineage["born"] > 0]["member"]) == ["t2", "s2"]
    assert set(evals_["member"]) >= {"base", "s2"}
    assert "solving/difference" in evals_
    assert len(frames["steps"]) == 4
    assert set(frames) >= {"members", "ratings"}


def test_the_code_of_the_notebook_runs(whole):
    book = nbformat.read(ROOT / "examples" / "notebooks" / "a_run.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)
    place = book.cells[1]
    assert 'RUN = "runs/demo"' in place.source
    place.source = place.source.replace('"runs/demo"', repr(str(whole)))
    names = {}
    for cell in book.cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
