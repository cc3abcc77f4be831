"""The page of results: whole without a connection, true to the files, and safe to open."""

import json
import shutil
from dataclasses import replace

import pytest
from evals_commands import fails, run
from pages import Page
from sums import TableEngine, sums

from evals import EvalsError, Group, evaluate
from evals.members import BASE
from evals.page import page_text
from evals.run import read_runs
from evals.side_by_side import table_of
from lora_evo.model import Rollout

NAME = "</script><script>alert(1)</script><b>"
HOSTILE = NAME + "\ud800\x00"


class Words(TableEngine):
    """Answers right, wrong in hostile words, or not at all, in turn."""

    def generate(self, requests):
        found = []
        for i, request in enumerate(requests):
            turn = len(self.asked) + i + (request.adapter is None)
            text = ("0", f"{HOSTILE} 1", HOSTILE)[turn % 3]
            found.append(Rollout(None, (), tuple(range(3 + i)), (0.0,) * (3 + i), "stop", text))
        return found


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("scores")
    evaluate(Words({}), sums(), [None, "other"], limit=12, out=home)
    path = home / "other" / "sums" / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"adapter": NAME}))
    return home


def test_the_page_shows_every_sample_and_runs_nothing_of_theirs(home):
    text = page_text(*table_of(read_runs(home)))
    page = Page(text)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 3
    assert tags.count("b") == 0
    assert tags.count("details") == 12
    assert tags.count("article") == 24
    assert not any({"src", "href", "style", "onload"} & set(attrs) for _, attrs in page.tags)
    data = json.loads(text.split('id="charts">')[1].partition("</script>")[0])
    assert {a["data-chart"] for _, a in page.tags if "data-chart" in a} == set(data)
    policy = next(a["content"] for _, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none';")
    verdicts = {a["data-verdicts"] for t, a in page.tags if t == "details"}
    assert any("differ" in found for found in verdicts)
    assert page_text(*table_of(read_runs(home))) == text


def test_the_command_writes_it_with_comparisons_and_names_for_every_sign(tmp_path):
    groups = {"s0": Group("student", "mine"), "t0": Group("teacher", "mine"), "lone": None}
    asked = {"n": 2, "temperature": 1.0, "limit": 6, "groups": groups, "out": tmp_path / "out"}
    evaluate(Words({}), sums(), [None, *groups], **asked)
    path = tmp_path / "page.html"
    done = run("report", tmp_path / "out", "--html", path, "--against", "s0", "--k", 2)
    assert done.exit_code == 0, done.output
    text = path.read_text()
    page = Page(text)
    words = " ".join(page.text.split())
    assert "Compared with s0, task by task" in words
    assert "pass@2: chance that one of 2 samples is right, mean over tasks; in brackets:" in words
    assert "base grey, student blue, teacher orange, adapter green" in words
    charts = json.loads(text.split('id="charts">')[1].partition("</script>")[0])
    for name, title in (("score", "pass@2, % of tasks"), ("difference", "points above s0")):
        assert title in str(charts[f"{name}: sums"])
    named = [attrs["title"] for tag, attrs in page.tags if tag == "span" and "title" in attrs]
    assert named[:4] == ["base", "lone", "s0", "t0"]
    assert all(word in page.text for word in ("✓ right", "✗ wrong", "∅ ill-formed", "? not graded"))
    table = tmp_path / "table.csv"
    args = ("report", tmp_path / "out", "--csv", table, "--against", "base", "--json")
    several = json.loads(run(*args, "--k", "1,2", "--measure", "pass^k").stdout)
    tables = [several["table"], *(more["table"] for more in several["more"])]
    assert [table["measure"] for table in tables] == ["pass^1", "pass^2"]
    assert {row.split(",")[0] for row in table.read_text().splitlines()[1:]} == {"pass^1", "pass^2"}
    assert run("report", tmp_path / "out", "--k", "2", "--measure", "maj@k").stdout.count("maj@2")
    fails(2, "found '1,x'; expected whole numbers", "report", tmp_path / "out", "--k", "1,x")


def test_what_is_not_judged_stands_in_table_charts_and_comparisons(home):
    base, other = read_runs(home)
    first, *rest = other.verdicts
    lost = (replace(first, correct=None, reason="the sandbox failed"), *rest)
    changed = replace(other, verdicts=lost)
    text = page_text(*table_of([base, changed], None, BASE))
    page = Page(text)
    assert f"{changed.row()['solved']} of 11 (1 not judged)" in page.text
    shown = text.partition('id="charts">')[0]
    assert shown.count("1 not judged") == 3  # a score, a comparison, numbers of answers
    assert "comparisons count only tasks that are judged on both sides" in page.text
    charts = json.loads(text.split('id="charts">')[1].partition("</script>")[0])
    for name in ("score: sums", "difference: sums"):
        assert " 1 not judged" in json.dumps(charts[name])
    assert "not judged" not in Page(page_text(*table_of(read_runs(home)))).text


def test_files_that_do_not_fit_together_are_refused(home, tmp_path):
    copy = shutil.copytree(home / "base", tmp_path / "base")
    verdicts = copy / "sums" / "verdicts.jsonl"
    row = json.loads(verdicts.read_text().splitlines()[0])
    verdicts.write_text(json.dumps(row | {"id": "strange"}) + "\n")
    with pytest.raises(EvalsError, match="no such sample"):
        read_runs(copy)
    verdicts.write_text("{}\n")
    with pytest.raises(EvalsError, match=r"verdicts.jsonl, line 1: expected an object"):
        read_runs(copy)
    done = run("report", home, copy, "--json")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"error: {verdicts}, line 1: expected an object")
    assert len(json.loads(done.stdout)["results"]) == len(read_runs(home))


def test_results_asked_in_other_ways_are_named_and_other_questions_not_compared(tmp_path):
    for name, changes in {"a": {}, "b": {"n": 2, "temperature": 1.0}, "c": {}}.items():
        benchmark = replace(sums(), content_hash="second" if name == "c" else "first")
        evaluate(Words({}), benchmark, [None, "s0"], out=tmp_path / name, **changes)
    a, b, c = (read_runs(tmp_path / name) for name in "abc")
    _, alike = table_of(a, against=BASE)
    assert not any("different ways" in note for note in alike.notes)
    assert [row.against for row in alike.differences] == [BASE]
    _, found = table_of([*a, *b], against=BASE)
    note = "sums: results that were asked in different ways stand together: temperature (0.0, 1.0)"
    assert note in found.notes
    assert {(row.label, row.against) for row in found.differences} == {
        ("s0 (a)", "base (a)"), ("s0 (b)", "base (b)"),
    }  # fmt: skip
    _, crossed = table_of([*a, *b], against="base (a)")
    assert {row.label for row in crossed.differences} == {"s0 (a)", "s0 (b)", "base (b)"}
    _, apart = table_of([*a, *c], against="base (a)")
    assert {row.label for row in apart.differences} == {"s0 (a)"}
    assert sum("are not compared on sums: their questions" in note for note in apart.notes) == 2
    assert any("different ways stand together: questions" in note for note in apart.notes)
    with pytest.raises(EvalsError, match=r"type one of these names"):
        table_of([*a, *(replace(run, folder=None) for run in c[1:]), *b], against=BASE)
