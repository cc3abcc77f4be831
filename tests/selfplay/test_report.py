"""The report of a run, on synthetic runs that look like real ones."""

import base64
import hashlib
import json
import re
import subprocess
import sys

import pytest
import yaml

from league.report import save_charts
from selfplay.errors import RunDirectoryError, SelfplayError
from selfplay.report.page import ReportError, report_charts, write_report
from selfplay.report.reading.lineage import lives
from selfplay.report.reading.run_data import read_run
from selfplay.report.summary import summary_text
from synthetic_run import HOSTILE, Page, beside_the_library, charts_in, make_run, write_rows


def rows_of(chart):
    chart = chart if isinstance(chart, dict) else chart.to_dict()
    return [row for rows in chart["datasets"].values() for row in rows]


def report(tmp_path, *runs, name="page.html", **options):
    page = tmp_path / name
    write_report(runs, page, **options)
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "demo")


def test_page_is_self_contained(run, tmp_path):
    text = report(tmp_path, run)
    page = Page(text)
    for tag, attrs in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert attrs.get("href", "#").startswith("#"), "links lead to the page itself"
        assert not {"src", "xlink:href", "style", "srcset", "action"} & set(attrs)
        assert not any(name.startswith("on") for name in attrs)
    assert not re.search(r"https?://|//cdn|@import|url\(", beside_the_library(text))
    assert '"url"' not in beside_the_library(text)
    encoded = re.findall(r'"href": (\{.*?\})', beside_the_library(text))
    assert [json.loads(one)["field"] for one in encoded] == ["birth"]
    assert len(text.encode()) < 2_000_000
    places = [a["data-chart"] for _, a in page.tags if "data-chart" in a]
    assert sorted(places) == sorted(charts_in(text))
    assert all(chart["description"] for chart in charts_in(text).values())


def test_a_report_is_made_without_torch(run, tmp_path):
    page = tmp_path / "page.html"
    without = "import sys; sys.modules['torch'] = None; from selfplay.cli import main; main()"
    command = [sys.executable, "-c", without, "report", str(run), "--html", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Gallery of tasks" in page.read_text(encoding="utf-8")


def test_policy_admits_the_packaged_style_and_script_only(run, tmp_path):
    text = report(tmp_path, run)
    policy = next(a["content"] for t, a in Page(text).tags if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none';")
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_every_promised_panel_is_there(run, tmp_path):
    text = Page(report(tmp_path, run)).text
    for title in (
        "Student reward",
        "Teacher reward",
        "Valid share",
        "Solve rate, code_f",
        "AST depth",
        "Cyclomatic complexity",
        "Lines of code",
        "Variables",
        "Coverage",
        "Ratings of the teachers",
        "Ratings of the students",
        "Lineage",
        "Rejected proposals",
        "Solve rate of the tasks",
        "Where the time went",
        "Gallery of tasks",
    ):
        assert title in text
    assert "2 teachers and 2 students (mode populora) on the base model nano: 40 steps" in text
    assert "▲ rose" in text


def test_hostile_text_is_shown_and_never_run(tmp_path):
    text = report(tmp_path, make_run(tmp_path / "hostile", steps=4, hostile=True))
    page = Page(text)
    assert page.count("script") == 2
    assert HOSTILE not in text
    assert HOSTILE in page.text
    assert page.count("b") == page.count("i") == 0
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "<U+202E>" in page.text
    assert "<U+D800>" in page.text
    assert "\ud800" not in text


def test_hostile_names_and_settings_are_escaped(tmp_path):
    run = make_run(tmp_path / 'r"><script>', steps=4)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    bad = '"><script>x'
    for row in rows:
        row["kinds"][bad] = {"proposed": 1, "valid_share": 1.0, "solve_rate": 0.5}
        row["rejected"][bad] = 1
        row["members"][bad] = {"role": bad, "entropy": 1.0}
        row["ratings"][bad] = [25.0, 1.0]
        row["seconds"][bad] = 1.0
    rows[1]["evolution"] = [{"removed": bad, "child": bad + "2", "parents": [bad], "operator": bad}]
    write_rows(run / "metrics.jsonl", rows)
    config = yaml.safe_load((run / "config.yaml").read_text()) | {"base": bad, bad: bad}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    text = report(tmp_path, run)
    assert Page(text).count("script") == 2
    assert bad not in text
    assert bad in json.dumps(list(charts_in(text).values())).replace('\\"', '"')


def test_two_runs_overlay_with_a_legend(run, tmp_path):
    other = make_run(tmp_path / "rate0", steps=30, seed=2, drift=0.0)
    one, two = Page(report(tmp_path, run)), Page(report(tmp_path, run, other))
    assert two.text.count("rate0") > 3
    both = charts_in(report(tmp_path, run, other))
    compared = [
        chart
        for chart in both.values()
        if {"demo", "rate0"} == {row.get("run") for row in rows_of(chart)}
        and chart["params"][0]["bind"] == "legend"
    ]
    assert len(compared) > 10
    assert two.count("figure") > one.count("figure")
    assert {a["data-run"] for t, a in two.tags if t == "article"} == {"demo", "rate0"}


def test_equal_names_are_told_apart(tmp_path):
    a, b = (make_run(tmp_path / d / "run", steps=3) for d in ("a", "b"))
    text = Page(report(tmp_path, a, b, a)).text
    assert "a/run" in text
    assert "b/run" in text
    assert "a/run (3)" in text


def test_equal_input_gives_equal_bytes(run, tmp_path):
    twin = make_run(tmp_path / "elsewhere" / "demo")
    text = report(tmp_path, run)
    assert text == report(tmp_path, twin, name="twin.html")
    assert str(tmp_path) not in text


def test_single_agent_has_no_ratings(tmp_path):
    run = make_run(tmp_path / "solo", steps=8, mode="azr")
    text = Page(report(tmp_path, run)).text
    assert "One agent in both roles (mode azr)" in text
    assert "Ratings of" not in text
    assert "Student reward" in text
    assert "Ratings" not in summary_text(run)


@pytest.mark.parametrize("file", ["metrics.jsonl", "tasks.jsonl"])
def test_a_torn_last_line_is_dropped(tmp_path, file):
    run = make_run(tmp_path / "torn", steps=4)
    whole = report(tmp_path, run)
    with (run / file).open("ab") as handle:
        handle.write('{"step": 5, "text": "é'.encode()[:-1])
    assert report(tmp_path, run) == whole


def test_a_whole_last_line_without_its_end_counts(tmp_path):
    run = make_run(tmp_path / "whole", steps=4)
    path = run / "metrics.jsonl"
    path.write_text(path.read_text().removesuffix("\n"))
    assert len(read_run(run).steps) == 4


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("metrics.jsonl", '{"step": 2,', "one JSON object"),
        ("metrics.jsonl", "[1]", "expected `object`, got `array`"),
        ("metrics.jsonl", "\x00\x00", "one JSON object"),
        ("metrics.jsonl", '{"step": 1}', "a step after 1"),
        ("metrics.jsonl", '{"step": "two"}', "field step: expected `int`, got `str`"),
        ("metrics.jsonl", '{"valid_share": 1}', "required field `step`"),
        ("metrics.jsonl", '{"step": 2, "rho": [1, 2]}', "rho: expected `array` of length 6"),
        (
            "metrics.jsonl",
            '{"step": 2, "ratings": {"t0": [1]}}',
            "ratings[...]: expected `array` of",
        ),
        (
            "metrics.jsonl",
            '{"step": 2, "seconds": 3}',
            "seconds: expected `object`",
        ),
        (
            "metrics.jsonl",
            '{"step": 2, "evolution": [{"child": "t2"}]}',
            "evolution[0]: object missing",
        ),
        ("tasks.jsonl", '{"id": "x"', "one JSON object"),
        ("tasks.jsonl", '{"id": "x", "step": "1"}', "step: expected `int`"),
    ],
)
def test_damage_is_named_with_file_and_line(tmp_path, file, line, expected):
    run = make_run(tmp_path / "damaged", steps=3)
    lines = (run / file).read_text().splitlines()
    lines[1] = line
    (run / file).write_text("\n".join(lines) + "\n")
    with pytest.raises(RunDirectoryError, match=f"{file}, line 2") as caught:
        report(tmp_path, run)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "page.html").exists()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunDirectoryError, match="does not exist"):
        report(tmp_path, tmp_path / "nowhere")
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(RunDirectoryError, match="is not a folder"):
        summary_text(file)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunDirectoryError, match=r"not a run: it has no config\.yaml"):
        report(tmp_path, tmp_path / "empty")
    run = make_run(tmp_path / "new", steps=2)
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(RunDirectoryError, match="no finished step"):
        summary_text(run)
    (run / "config.yaml").write_text("mode: [")
    (run / "metrics.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(RunDirectoryError, match=r"cannot read .*config\.yaml"):
        summary_text(run)


def test_a_page_that_cannot_be_written_is_refused(run, tmp_path, monkeypatch):
    with pytest.raises(ReportError, match="no run"):
        write_report([], tmp_path / "page.html")
    with pytest.raises(ReportError, match="is a folder"):
        write_report([run], tmp_path)
    with pytest.raises(ReportError, match="not a folder"):
        write_report([run], tmp_path / "missing" / "page.html")
    with pytest.raises(ReportError, match="belongs to the run"):
        write_report([run], run / "metrics.jsonl")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    page = tmp_path / "page.html"
    page.write_text("old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ReportError, match="No space left"):
        write_report([run], page)
    assert page.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    assert issubclass(ReportError, SelfplayError)


def test_sparse_runs_give_a_page(tmp_path):
    run = tmp_path / "sparse"
    run.mkdir()
    (run / "config.yaml").write_text("mode: populora\n")
    (run / "metrics.jsonl").write_text(
        '{"step": 1, "solve_rate": null, "complexity": null}\n{"step": 3, "valid_share": NaN}\n'
    )
    assert "No tasks were recorded" in Page(report(tmp_path, run)).text
    assert "no such" not in summary_text(run)
    one = make_run(tmp_path / "one", steps=1)
    assert "too few steps" in Page(report(tmp_path, one)).text


def test_long_runs_and_long_texts_stay_small(tmp_path):
    run = make_run(tmp_path / "long", steps=600, births=30)
    tasks = [json.loads(line) for line in (run / "tasks.jsonl").read_text().splitlines()]
    for task in tasks:
        task["program"] = '"&<' * 20_000
        for attempt in task["attempts"]:
            attempt["thought"] = "'" * 50_000
    write_rows(run / "tasks.jsonl", [t for t in tasks if t["step"] in (1, 301, 600)])
    text = report(tmp_path, run, run)
    assert len(beside_the_library(text).encode()) < 2_700_000
    assert "more characters" in text
    assert "more did not fit" in text


def test_cards_say_verdicts_and_what_the_student_saw(run, tmp_path):
    page = Page(report(tmp_path, run))
    for words in ("ill-formed", "wrong × ", "right", "sees it", "judged on it", "what it thought"):
        assert words in page.text
    assert "rejected: form" in page.text
    assert page.count("article", "rejected") == 18


def test_lives_follow_replacements(run):
    everyone = {life.name: life for life in lives(read_run(run))}
    assert set(everyone) == {"t0", "t1", "s0", "s1", "t2", "s2", "t3"}
    assert everyone["t0"].died == 10
    assert everyone["t2"].born == 10
    assert everyone["t2"].lane == everyone["t0"].lane
    assert everyone["t3"].birth.parents == ("t1", "t2")
    assert everyone["s1"].died is None


def test_a_child_of_the_last_step_has_a_role(tmp_path):
    run = make_run(tmp_path / "run", steps=3, births=0)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows[-1]["evolution"] = [
        {"removed": "s0", "child": "s2", "parents": ["s1"], "operator": "dare"}
    ]
    write_rows(run / "metrics.jsonl", rows)
    assert {life.name: life.role for life in lives(read_run(run))}["s2"] == "student"


def test_summary_is_short_and_plain(run):
    text = summary_text(run)
    lines = text.splitlines()
    assert 12 <= len(lines) <= 22
    assert max(map(len, lines)) <= 100
    assert "2 teachers and 2 students (mode populora)" in lines[0]
    assert "4 min 29 s" in lines[1]
    assert re.search(r"Student reward +−0\.\d+ ± 0\.\d+ +.*rose", text)
    for words in (
        "Solve rate, code_i",
        "Valid share",
        "Ratings, teachers:",
        "Children: t2 from t1",
        "solve 36 %",
    ):
        assert words in text


def test_unfinished_runs_say_so(tmp_path):
    run = make_run(tmp_path / "run", steps=6)
    path = run / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    assert "4 of 6 steps so far" in summary_text(run)


def test_charts_are_thinned_for_the_eye_and_saved_as_files(run, tmp_path):
    long = make_run(tmp_path / "long", steps=900, births=0)
    assert max(map(len, map(rows_of, report_charts([read_run(long)]).values()))) <= 400
    charts = report_charts([read_run(run)])
    few = {name: charts[name] for name in ("lineage", "solve-rate", "ratings-of-the-students")}
    save_charts(few, tmp_path / "charts")
    names = sorted(path.name for path in (tmp_path / "charts").iterdir())
    assert names == sorted(f"{name}.{ending}" for name in few for ending in ("svg", "png"))
    assert "t2 ← t1" in (tmp_path / "charts" / "lineage.svg").read_text()
