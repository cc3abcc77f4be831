"""The report of a run, on synthetic runs that look like real ones."""

import base64
import hashlib
import re
from io import StringIO

import pytest
import yaml
from json_lines import read_rows, write_rows
from pages import Page
from rich.console import Console

from selfplay.errors import RunDirectoryError
from selfplay.files.record import read_run
from selfplay.reports import run_page
from selfplay.reports.charts import curves, rejected
from selfplay.reports.findings import conclusion, warnings_of
from selfplay.reports.progress import Progress
from selfplay.reports.run_page import PLUS_MINUS, report, summary
from synthetic_run import HOSTILE, charts_in, make_run, without_the_library


def page_of(tmp_path, run, *, charts=False):
    with pytest.MonkeyPatch.context() as patch:
        if not charts:
            patch.setattr(run_page, "report_charts", lambda run: {})
        report(run, tmp_path / "page.html")
    return (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def whole_page(whole, tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("page"), whole, charts=True)


def test_a_page_needs_no_network_and_admits_its_own_style_and_script_only(whole_page):
    page = Page(whole_page)
    for tag, attrs in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "xlink:href", "style", "srcset", "action"} & set(attrs)
        assert attrs.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in attrs)
    assert not re.search(r"https?://|//cdn|@import|url\(", without_the_library(whole_page))
    assert len(whole_page.encode()) < 2_000_000
    shown = [attrs["data-chart"] for _, attrs in page.tags if "data-chart" in attrs]
    assert sorted(shown) == sorted(charts_in(whole_page))
    policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none';")
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", whole_page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_the_evaluation_against_the_frozen_base_comes_first(whole, whole_page):
    said = conclusion(read_run(whole))
    assert re.match(r"Held-out tasks, never trained on: students solve [\d.]+ % after step 4", said)
    assert said.endswith(" points; ±: one standard error over the tasks)")
    text = summary(whole)
    assert text.splitlines()[0] == said
    assert PLUS_MINUS in text
    assert re.search(r"frozen base +[\d.]+ % +([\d.]+ % +){2}[\d.]+\n", text)
    assert re.search(r"s\d +[\d.]+ % +[+-][\d.]+ ± [\d.]+", text)
    page = Page(whole_page).text
    assert page.index("Evaluation against the frozen base") < page.index(said)
    assert page.index(said) < page.index("Ratings of the teachers over rounds")
    assert page.index("Who solves whose tasks") < page.index("What moved")


def test_a_child_counts_in_no_mean_before_it_has_learned(whole):
    run = read_run(whole)
    children = {birth.child for step, birth in run.births if step == 2}
    students = {name for name in children if name.startswith("s")}
    assert {(row.step, row.member) for row in run.evals if row.born is True} == {
        (2, name) for name in children
    }
    assert students
    assert not students & run.held_out_gains()[2].keys()
    assert students <= run.held_out_gains()[4].keys()
    young = conclusion(run.until(2))
    assert f"students solve (without {', '.join(sorted(students))}, born then)" in young
    (learned,) = (row.rate for row in run.until(2).latest_evals() if row.rate and not row.born)
    assert f" {100 * learned.solve_rate:.1f} % after step 2" in young
    assert "born then" not in conclusion(run)
    said = StringIO()
    progress = Progress(Console(file=said, width=200))
    progress.step(run.steps[1], run.until(2).latest_evals())
    assert f"{min(students)} " in said.getvalue()
    assert said.getvalue().count("born now") == len(children)


@pytest.fixture
def measured(tmp_path):
    """A run whose s0 falls."""
    run = make_run(tmp_path / "measured", steps=40)
    write_rows(
        run / "eval.jsonl",
        [
            solved(0, "base", 4),
            *(solved(10, m, n) for m, n in (("s0", 8), ("s1", 6))),
            *(solved(20, m, n) for m, n in (("s0", 7), ("s1", 6), ("s2", 5))),
        ],
    )
    return run


def solved(step, member, tasks):
    """The row of a member that solves so many of ten tasks; the base solves four."""
    judged = [1] * tasks + [0] * (10 - tasks)
    rates = {"solve_rate": tasks / 10, "base_solve_rate": 0.4, "difference": tasks / 10 - 0.4}
    row = rates | {"standard_error": 0.1, "solved": judged, "judged": [1] * 10}
    row["kinds"] = {"code_o": rates | {"standard_error": 0.1}}
    role = "base" if member == "base" else "student"
    return {"step": step, "member": member, "role": role, "solving": row}


def test_a_member_that_falls_is_named_with_both_rates(measured, tmp_path):
    assert warnings_of(read_run(measured)) == []  # a task of ten is chance
    rows = read_rows(measured / "eval.jsonl")
    fallen = [r for r in rows if (r["step"], r["member"]) != (20, "s0")] + [solved(20, "s0", 4)]
    write_rows(measured / "eval.jsonl", fallen)
    line = "s0 fell by 40.0 ± 16.3 points on held-out tasks: 80.0 % after step 10, 40.0 % after"
    (said,) = warnings_of(read_run(measured))
    assert said == f"{line} step 20"
    assert line in summary(measured)
    page = Page(page_of(tmp_path, measured))
    assert page.count("p", "fell") == 1
    assert line in page.text


SIGNS = (
    "In the last 10 steps 75 % of the tasks have one structure: teachers repeat a program",
    "In the last 10 steps 95 % of the tasks are solved by all attempts or by none: "
    "they teach nothing",
    "In the last 10 steps 9 % of the proposals are valid: few tasks are left to learn",
)


def test_signs_of_a_collapse_in_ten_steps_of_enough_tasks_are_named(tmp_path):
    run = make_run(tmp_path / "run", steps=12)
    rows = read_rows(run / "metrics.jsonl")

    def signs(commonest, solve_rates, valid, of=rows):
        for row in rows[2:]:
            row["coverage"]["commonest"], row["valid_share"] = commonest, valid
            row["solve_rates"] = solve_rates
        write_rows(run / "metrics.jsonl", of)
        return tuple(warnings_of(read_run(run)))

    assert signs(0.2, [3, 4, 4, 4, 3, 2], 0.1) == ()
    assert signs(0.75, [19, 0, 1, 0, 0, 0], 0.1) == SIGNS[:2]
    assert all(sign in summary(run) for sign in SIGNS[:2])
    assert signs(0.75, [19, 0, 1, 0, 0, 0], 0.1, rows[:9]) == ()
    assert signs(1.0, [2, 0, 0, 0, 0, 1], 0.09) == SIGNS[2:], "three tasks tell nothing"
    for row in rows[-5:]:
        row["solve_rates"] = [3, 0, 0, 0, 0, 1]
    write_rows(run / "metrics.jsonl", rows)
    assert len(warnings_of(read_run(run))) == 3, "half of the steps tell"


def test_shares_of_refused_proposals_are_of_all_that_were_written(tmp_path):
    home = make_run(tmp_path / "run", steps=4)
    rows = read_rows(home / "metrics.jsonl")
    for row in rows:  # `proposed` counts those that were judged and are not held out
        row["kinds"] = {"code_o": {"proposed": 4, "valid_share": 0.5, "solve_rate": 0.5}}
        row["rejected"] = {"exception": 2, "held_out": 10, "sandbox_error": 2}
        row["infra_errors"] = {"proposals": 2, "attempts": 0}
    write_rows(home / "metrics.jsonl", rows)
    (points,) = rejected(read_run(home)).to_dict()["datasets"].values()
    shares = {row["reason"]: row["value"] for row in points}
    assert shares == {"held_out": 62.5, "exception": 12.5, "sandbox_error": 12.5}


def test_a_member_of_whom_nothing_was_judged_has_no_gain_and_no_fall(measured, tmp_path):
    rows = read_rows(measured / "eval.jsonl")
    for row in rows:
        if (row["step"], row["member"]) == (20, "s0"):
            solving = row["solving"]
            solving["solved"] = solving["judged"] = [0] * len(solving["judged"])
            solving |= dict.fromkeys(("solve_rate", "difference", "standard_error"))
    write_rows(measured / "eval.jsonl", rows)
    run = read_run(measured)
    assert warnings_of(run) == []
    assert "s0" not in run.held_out_gains()[20]


def test_hostile_texts_names_and_settings_are_shown_and_never_run(tmp_path):
    run = make_run(tmp_path / 'r"><script>', steps=4, hostile=True)
    rows = read_rows(run / "metrics.jsonl")
    bad = '"></script><script>x\x1b[2J'
    for row in rows:
        row["kinds"][bad] = {"proposed": 1, "valid_share": 1.0, "solve_rate": 0.5}
        row["rejected"][bad] = 1
        row["members"][bad] = {"role": bad, "entropy": 1.0}
        row["ratings"][bad] = [25.0, 8.0]
    write_rows(run / "metrics.jsonl", rows)
    (run / "config.yaml").write_text(yaml.safe_dump({"mode": bad, "base": bad, "steps": 4}))
    text = page_of(tmp_path, run, charts=True)
    page = Page(text)
    assert page.count("script") == 2  # charts, code
    assert HOSTILE not in text
    assert HOSTILE in page.text
    assert page.count("b") == page.count("i") == 0
    assert not re.search("[\x00\u202e\ud800]", text)
    assert "<U+202E><U+D800>" in page.text
    assert "</script><script>x" not in text
    assert "\x1b" not in summary(run)


def test_a_torn_last_line_is_dropped(tmp_path):
    run = make_run(tmp_path / "torn", steps=4)

    def found():
        return read_run(run).steps, list(read_run(run).tasks())

    whole = found()
    for file in ("metrics.jsonl", "tasks.jsonl"):
        with (run / file).open("ab") as handle:
            handle.write('{"step": 5, "text": "é'.encode()[:-1])
    assert found() == whole


def test_damage_is_named_with_file_and_line(tmp_path):
    run = make_run(tmp_path / "damaged", steps=3)
    for file, line, expected in (
        ("metrics.jsonl", '{"step": 2,', "one JSON object"),
        ("metrics.jsonl", '{"step": 2, "solve_rates": [1]}', "expected `array` of length 6"),
        ("tasks.jsonl", '{"id": "x", "step": "1"}', "step: expected `int`"),
    ):
        whole = (run / file).read_text()
        lines = whole.splitlines()
        (run / file).write_text("\n".join([lines[0], line, *lines[2:]]) + "\n")
        with pytest.raises(RunDirectoryError, match=f"{file}, line 2") as caught:
            page_of(tmp_path, run)
        assert expected in str(caught.value)
        (run / file).write_text(whole)
    assert not (tmp_path / "page.html").exists()


def test_sparse_runs_give_a_page(tmp_path):
    run = tmp_path / "sparse"
    run.mkdir()
    (run / "config.yaml").write_text("unknown: 1\n")
    (run / "metrics.jsonl").write_text('{"step": 1, "complexity": null}\n{"step": 3}\n')
    assert "No tasks were recorded" in Page(page_of(tmp_path, run, charts=True)).text
    assert "2 steps" in summary(run)


def test_long_runs_and_long_texts_stay_small(tmp_path):
    births = [(20 * i, f"t{i if i > 1 else 0}", f"t{i + 1}", ["t1"]) for i in range(1, 12)]
    run = make_run(tmp_path / "long", steps=240, births=births)
    tasks = read_rows(run / "tasks.jsonl")
    shown = [task for task in tasks if task["step"] in (1, 121, 240)]
    for task in shown:
        task["program"] = '"&<' * 20_000
        for attempt in task.get("attempts", ()):
            attempt["thought"] = "'" * 50_000
    write_rows(run / "tasks.jsonl", shown)
    text = page_of(tmp_path, run, charts=True)
    assert len(without_the_library(text).encode()) < 2_500_000
    assert "more characters" in text
    for name, chart in charts_in(text).items():
        most = 200 if name.startswith("moved") else 400  # of one series, of several
        assert max(map(len, chart["datasets"].values())) <= most, name


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1e-12, 0.0, 2e-12), ["0", "5e-13", "1e-12", "1.5e-12", "2e-12"]),
        ((0.0, 0.0, 0.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ((36.5, 36.5, 36.5 + 1e-13), ["0", "10", "20", "30", "40"]),
        ((0.25,), ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25"]),
        ((1.0, 2.0, 3.0), ["1.0", "1.5", "2.0", "2.5", "3.0"]),
    ],
)
def test_ticks_are_short_and_several(values, expected):
    chart = curves({"student": list(enumerate(values))}, "norm")
    image = pytest.importorskip("vl_convert").vegalite_to_svg(chart.to_dict())
    texts = re.findall(r">([^<>]+)</text>", image)
    assert texts[texts.index("step") + 1 : texts.index("norm")] == expected
