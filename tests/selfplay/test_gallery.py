"""The report's gallery of tasks, and the tree that leads to births."""

import html
from dataclasses import replace

import pytest

from selfplay.records.row_file import read_rows
from selfplay.records.task_row import TaskRow
from selfplay.report.gallery import choose
from selfplay.report.page import write_report
from selfplay.report.reading.run_data import read_run
from selfplay.report.reading.shown import Shown
from synthetic_run import Page, charts_in, make_run


def report(tmp_path, run, **options):
    write_report([run], tmp_path / "page.html", **options)
    return (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "demo")


def test_gallery_shows_first_middle_and_last_step_or_those_asked_for(run, tmp_path):
    def steps(text):
        return {a["data-step"] for t, a in Page(text).tags if t == "article"}

    assert steps(report(tmp_path, run)) == {"1", "21", "40"}
    write_report([run], tmp_path / "page.html", gallery_steps=[5, 999])
    assert steps((tmp_path / "page.html").read_text()) == {"5"}


def test_gallery_spreads_over_solve_rates_and_reasons(run):
    rows = [row for row in read_rows(run / "tasks.jsonl", TaskRow) if row.step == 1]
    chosen = [c.task for c in choose(rows) if c.task.kind == "code_o"]
    assert len(chosen) == 6
    accepted = [task.rho for task in chosen if task.status == "ok"]
    assert accepted == sorted(accepted)
    assert {task.status for task in chosen[4:]} == {"form", "exception"}


def test_a_task_can_be_followed_from_its_reference_to_what_it_moved(runs, tmp_path):
    home = runs.train(tmp_path / "run", "steps=2", "yardstick.eval_every=0")
    text = report(tmp_path, home, gallery_steps=[1, 2])
    rows = {row.id: row for row in read_rows(home / "tasks.jsonl", TaskRow)}
    later = [row for row in rows.values() if row.step == 2 and row.accepted and row.attempts]
    assert later
    shown = Shown(read_run(home), later)
    for row in later:
        assert shown.to_teacher(row) in html.unescape(text)
        assert shown.to_student(row) in html.unescape(text)
    page = Page(text)
    for words in ("was shown after seed-", "teacher's reward ", ", advantage ", " · reward "):
        assert words in page.text, words
    cards = [a for t, a in page.tags if t == "article"]
    assert {m for a in cards for m in a["data-member"].split()} == {"t0", "t1", "s0", "s1"}
    assert {a["data-verdict"] for a in cards} & {"unsolved", "solved", "partly solved"}


def test_prompts_of_a_run_with_other_settings_are_left_out(run):
    (row, *_) = read_rows(run / "tasks.jsonl", TaskRow)
    shown = Shown(replace(read_run(run), config={"unknown": 1}), [row])
    assert (shown.to_teacher(row), shown.to_student(row)) == (None, None)


def test_a_child_in_the_tree_leads_to_what_was_done(run, tmp_path):
    text = report(tmp_path, run)
    page, tree = Page(text), charts_in(text)["lineage"]
    (bars,) = (rows for rows in tree["datasets"].values() if "birth" in rows[0])
    places = {a["id"] for t, a in page.tags if t == "tr" and "id" in a}
    links = {row["birth"] for row in bars if row["birth"]}
    assert links == {f"#{place}" for place in places}
    assert len(links) == 3
