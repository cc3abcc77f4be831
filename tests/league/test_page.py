"""The page of a league says what it is, and shows what has happened."""

import json
import re

import pytest
from pages import Page

from league import League, LeagueConfig, Outcome
from league_command import run
from worlds import play_rounds

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


def league_of(path, teachers, students, rounds=2):
    with League(path, teachers, students, LeagueConfig(seed=1)) as league:
        play_rounds(league, range(rounds), lambda pair: Outcome(8, 8, 64, 16 + pair.round, 2))
    return path


def page_of(league, page):
    run("report", league, "--html", page)
    return page.read_text()


def charts_of(text):
    """The specifications of the charts of a page."""
    return json.loads(re.search(r'id="charts">(.*?)</script>', text, re.S)[1])


def test_tasks_that_were_not_judged_are_named_where_rates_are(tmp_path):
    home, page = league_of(tmp_path / "l", ["t0", "t1"], ["s0", "s1"]), tmp_path / "page.html"
    for number, lost in ((2, 0), (3, 3)):
        with League(home) as league:
            league.record(league.pair(number)[0], Outcome(5, 5, 20, 6, 2, infra_errors=lost))
        shown = [run(command, home).stdout for command in ("board", "matrix", "report")]
        for text in (*shown, page_of(home, page)):
            assert ("3 tasks not judged" in text) == ("not judged" in text) == (lost > 0)


def test_a_page_that_the_system_refuses_is_one_line_with_its_path(tmp_path):
    home = league_of(tmp_path / "l", ["t"], ["s"])
    done = run("report", home, "--html", "/proc/self/page.html", code=1)
    assert done.stderr == "error: /proc/self/page.html: No such file or directory\n"


def test_it_says_what_it_is_and_shows_what_there_is(tmp_path):
    text = page_of(league_of(tmp_path / "l", ["t0", "t1"], ["s0"], 3), tmp_path / "page.html")
    page = Page(text)
    for words in ("League of 2 teachers and 1 student", "3 rounds, 6 matches, 0 replacements"):
        assert words in page.text
    assert page.count("figure") == len(charts_of(text)) == 6
    assert 'src="http' not in text
    League(tmp_path / "new", ["t"], ["s"]).close()
    assert len(charts_of(page_of(tmp_path / "new", tmp_path / "page.html"))) == 2


def test_a_page_takes_the_place_of_no_file_of_the_league(tmp_path):
    league_of(tmp_path / "l", ["t"], ["s"])
    before = {path.name: path.read_bytes() for path in (tmp_path / "l").iterdir()}
    for name in before:
        done = run("report", tmp_path / "l", "--html", tmp_path / "l" / name, code=2)
        assert "is a file of the league itself" in done.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "l").iterdir()} == before


def test_a_page_without_its_packages_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    monkeypatch.delitem(__import__("sys").modules, "league.charts", raising=False)
    done = run("report", "nowhere", "--html", tmp_path / "p.html", code=2)
    assert done.stdout == ""
    assert "charts need altair; type: " in done.stderr
    assert "-m pip install altair vl-convert-python" in done.stderr
