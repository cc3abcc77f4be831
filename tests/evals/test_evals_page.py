"""The page of results: whole without a connection, true to the files, and safe to open."""

import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from evals import Completion, EvalsError, evaluate, load_benchmark
from evals.cli import main
from evals.report.charts import chart_names, length_bins, questions_solved, score_charts
from evals.report.page import page_text, save_score_charts, write_page
from evals.report.scored_run import read_scored

HOSTILE = "</script><script>alert(1)</script><b>\u202e\x00"


class Words:
    """Answers right, wrong in hostile words, or not at all, in turn."""

    max_rows = 8

    def __init__(self, turn: int) -> None:
        self.turn = turn

    def generate(self, requests):
        found = []
        for i, _ in enumerate(requests):
            text = ("<|answer|>0", f"<|answer|>{HOSTILE}", HOSTILE)[(i + self.turn) % 3]
            found.append(Completion(text, tuple(range(3 + i)), (0.0,) * (3 + i), "stop"))
        return found

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("scores")
    for turn, name in enumerate(("base", "other")):
        out = home / name / "nano_code_o"
        evaluate(Words(turn), load_benchmark("nano_code_o"), limit=12, out=out)
    result = json.loads((home / "other" / "nano_code_o" / "result.json").read_text())
    result["adapter"] = HOSTILE
    (home / "other" / "nano_code_o" / "result.json").write_text(json.dumps(result))
    return home


class Page(HTMLParser):
    """Gathers tags and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_the_page_shows_every_sample_and_runs_nothing_of_theirs(home: Path) -> None:
    text = page_text(read_scored([home]))
    page = Page(text)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 2
    assert tags.count("b") == 0
    assert tags.count("details") == 12
    assert tags.count("article") == 24
    assert not any({"src", "href", "style", "onload"} & set(attrs) for _, attrs in page.tags)
    data = json.loads(text.split('id="charts">')[1].partition("</script>")[0])
    assert {a["data-chart"] for _, a in page.tags if "data-chart" in a} == set(data["charts"])
    policy = next(a["content"] for _, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "<U+202E>" in page.text
    verdicts = {a["data-verdicts"] for t, a in page.tags if t == "details"}
    assert any("differ" in found for found in verdicts)
    assert page_text(read_scored([home])) == text


def test_lengths_are_counted_once_each(home: Path) -> None:
    counts = length_bins(read_scored([home]))
    assert [sum(n for _, _, n in bins) for bins in counts.values()] == [12, 12]


def test_charts_hold_every_question_of_every_run(home: Path) -> None:
    runs = read_scored([home / "base", home / "other", home / "base"])
    judged = [
        replace(v, correct=[True, False, None][i % 3]) for i, v in enumerate(runs[1].verdicts)
    ]
    rows = questions_solved([runs[0], replace(runs[1], verdicts=judged), runs[0]]).data.values
    assert len(rows) == 36
    assert {row["adapter"] for row in rows} == {"base", HOSTILE, "base (2)"}
    assert [row["solved"] for row in rows[12:18]] == [1.0, 0.0, None, 1.0, 0.0, None]
    assert set(score_charts(runs)) == {"scores", "solved-1-nano_code_o", "lengths-1-nano_code_o"}


def test_a_chart_of_a_benchmark_has_a_name_that_a_file_can_have(home: Path) -> None:
    run = read_scored([home / "base"])[0]
    runs = [replace(run, result=replace(run.result, benchmark=name)) for name in ("../x", "..:x")]
    assert [found[1:] for found in chart_names(runs)] == [
        ("solved-1--x", "lengths-1--x"),
        ("solved-2--x", "lengths-2--x"),
    ]


def test_the_command_writes_it_and_says_what_is_wrong(home: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["report", str(home), "--html", str(tmp_path / "page.html")])
    assert done.exit_code == 0
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert "0.0* (0.0-24.2)" in done.stdout
    charts = tmp_path / "charts"
    done = CliRunner().invoke(main, ["report", str(home), "--save", str(charts)])
    assert done.exit_code == 0
    assert len(list(charts.glob("*.svg"))) == len(list(charts.glob("*.png"))) == 3
    with pytest.raises(EvalsError, match="cannot write to"):
        save_score_charts(read_scored([home]), tmp_path / "page.html" / "charts")
    nowhere = tmp_path / "no" / "page.html"
    for place, words in ((tmp_path, "is a folder"), (nowhere, "cannot write")):
        with pytest.raises(EvalsError, match=words):
            write_page(read_scored([home]), place)


def test_files_that_do_not_fit_together_are_told(home: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(home / "base", tmp_path / "base")
    verdicts = copy / "nano_code_o" / "verdicts.jsonl"
    row = json.loads(verdicts.read_text().splitlines()[0])
    verdicts.write_text(json.dumps(row | {"id": "strange"}) + "\n")
    with pytest.raises(EvalsError, match="no such sample"):
        read_scored([copy])
    verdicts.write_text("{}\n")
    with pytest.raises(EvalsError, match=r"verdicts.jsonl, line 1: expected an object"):
        read_scored([copy])
