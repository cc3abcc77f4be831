"""The report: one page that stands alone, for leagues of every shape, and its text."""

import json
import math
import re
import sys

import pytest
from click.testing import CliRunner

from league import League, LeagueConfig, Outcome, Rating
from league.basics.streams import stream
from league.cli import main
from league.drawing.words import number, short, visible
from league.report import gather, sparkline, summary

pytest.importorskip("altair", reason="the page needs the extra `report`")
pytest.importorskip("vl_convert", reason="the page needs the extra `report`")

from league.drawing.frame import written
from league.report import charts_of, heat_map, page, rating_bands, save_charts
from report_page import beside_the_library, charts_in, parsed, rows_of


def play(directory, teachers, students, rounds, every=0, anchors=False, cycle=False, **settings):
    """Play rounds by chance; with `every`, replace the weakest of both roles that often."""
    names = [[f"{role}{i}" for i in range(n)] for role, n in (("t", teachers), ("s", students))]
    rng = stream("report", 0)
    settings |= {"anchor_share": 0.2} if anchors else {}
    with League(directory, *names, LeagueConfig(seed=2, **settings)) as league:
        if anchors:
            league.add_anchor("base-t", "teacher", Rating(25.0, 1.0))
            league.add_anchor("base-s", "student", Rating(25.0, 1.0))
        for turn in range(rounds):
            results = []
            for pair in league.pair(turn):
                share = 0.55
                if cycle:
                    share = (0.15, 0.5, 0.85)[(int(pair.student[1:]) - int(pair.teacher[1:])) % 3]
                solved = 1 + int(rng.binomial(62, share))
                results.append((pair, Outcome(9, 8, 64, solved, 0)))
            league.record_many(results)
            if every and (turn + 1) % every == 0:
                for letter, role in (("t", "teacher"), ("s", "student")):
                    for weak in league.select(role, 1):
                        best = [row.member for row in league.leaderboard(role)][:2]
                        child = f"{letter}{100 + turn}"
                        league.replace(weak, child, best, "cross_average", "weakest")
    return directory


def opened(directory):
    return League(directory, read_only=True)


def whole(directory, **options):
    return page(gather(opened(directory), **options))


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Everything at once: replacements, anchors, a hall of fame."""
    path = tmp_path_factory.mktemp("full") / "l"
    return play(path, 4, 4, 24, every=6, anchors=True, grace_matches=2, hall_every=8)


SECTIONS = (
    "Ratings over rounds",
    "Leaderboard",
    "Who solves whose tasks",
    "Who gains on whom?",
    "Generation against generation",
    "Do the predictions come true?",
    "Is there a ranking at all?",
    "Who matters when the other side plays its best?",
    "Who would take over?",
    "How many different members are there in effect?",
    "Family tree",
    "Replacements",
)


def test_the_page_has_every_section_and_an_explanation_in_each(full):
    root = parsed(whole(full))
    found = {
        s.findtext("h2"): s.findtext("p") for s in root.iter("section") if s.find("h2") is not None
    }
    assert tuple(found) == SECTIONS
    assert all(len(text) > 20 for text in found.values())
    everything = " ".join(root.itertext())
    for row in opened(full).replacements():
        assert row.child in everything
    assert "Dashed lines are frozen anchors" in everything
    assert "our students" in everything
    drawn = charts_in(whole(full))
    for name in ("ratings", "centred", "skills", "family", "nash", "alpha-rank"):
        assert {f"{name}-teacher", f"{name}-student"} <= set(drawn)
    assert {"payoff", "generations", "gap", "anchors", "calibration"} <= set(drawn)
    assert all(chart["description"] for chart in drawn.values())


def test_the_same_league_gives_the_same_bytes_and_no_path_or_clock(full):
    first = whole(full)
    assert first == whole(full)
    assert str(full) not in first
    assert str(full.parent) not in first


def test_the_page_tells_both_colour_schemes_and_narrow_screens(full):
    html = whole(full)
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html
    assert "max-width: 600px" in html


def test_a_league_without_a_match_says_what_is_missing(tmp_path):
    League(tmp_path / "l", ["t0", "t1"], ["s0", "s1"]).close()
    root = parsed(whole(tmp_path / "l"))
    text = " ".join(root.itertext())
    assert "No match has been played yet" in text
    assert text.count("Not to be said yet: no match has been played yet.") == 5
    assert "Nobody has been replaced yet." in text
    assert not re.search(r"\b(nan|NaN|inf|None)\b", beside_the_library(whole(tmp_path / "l")))
    found = gather(opened(tmp_path / "l"))
    assert found.nash is None
    assert "no match has been played yet" in summary(found)


@pytest.mark.parametrize(("teachers", "students"), [(1, 1), (1, 5), (7, 2), (40, 3)])
def test_unequal_and_tiny_leagues_have_a_page(tmp_path, teachers, students):
    play(tmp_path / "l", teachers, students, 3)
    root = parsed(whole(tmp_path / "l"))
    cells = rows_of(charts_in(whole(tmp_path / "l"))["payoff"])
    assert len(cells) == min(32, teachers) * students
    if teachers > 32:
        text = " ".join(root.itertext())
        assert "The best 32 of 40 teachers are shown" in text
        assert "the 8 best of 40 living teachers" in text


def test_large_leagues_stay_small_on_disk(tmp_path):
    long = play(tmp_path / "long", 4, 4, 200, every=10, anchors=True)
    assert 20_000 < len(beside_the_library(whole(long))) < 800_000
    assert len(whole(long)) < 2_000_000
    wide = play(tmp_path / "wide", 32, 32, 6, every=3, grace_matches=1)
    html = whole(wide)
    parsed(html)
    assert len(beside_the_library(html)) < 800_000


def test_numbers_of_the_page_are_those_of_the_league(full):
    league = opened(full)
    text = " ".join(parsed(whole(full)).itertext())
    best = league.leaderboard("teacher")[0]
    assert best.member in text
    assert f"{best.mu:.1f}" in text
    found = gather(league)
    payoff = league.payoff()
    i, j = (
        payoff.teachers.index(found.grid.teachers[0]),
        payoff.students.index(found.grid.students[0]),
    )
    assert found.grid.solve_rate[0][0] == payoff.observed[i][j]


def test_blank_cells_stay_blank(full):
    found = gather(opened(full))
    never = sum(cell is None for row in found.grid.solve_rate for cell in row)
    cells = rows_of(charts_in(page(found))["payoff"])
    assert sum(cell["rate"] is None for cell in cells) == never
    assert never > 0


def test_a_planted_cycle_is_told_and_a_plain_league_is_not_accused(tmp_path):
    play(tmp_path / "cycle", 3, 3, 30, cycle=True, matcher="uniform")
    text = " ".join(parsed(whole(tmp_path / "cycle")).itertext())
    assert "One rating per member is not the whole story" in text
    play(tmp_path / "plain", 3, 3, 30, matcher="uniform")
    text = " ".join(parsed(whole(tmp_path / "plain")).itertext())
    assert "One rating per member is enough" in text


def test_operators_and_reasons_are_escaped(tmp_path):
    with League(tmp_path / "l", ["t0", "t1"], ["s0", "s1"]) as league:
        league.replace("t0", "t2", ["t1"], "<script>alert(1)</script>", 'a "b" & <c>')
    html = whole(tmp_path / "l")
    assert "<script>alert" not in html
    text = " ".join(parsed(html).itertext())
    assert "<script>alert(1)</script>" in text
    assert 'a "b" & <c>' in text


def test_names_of_directories_are_escaped_whatever_they_are(tmp_path):
    League(tmp_path / "run7" / "league", ["t0"], ["s0"]).close()
    assert "<h1>League run7/league</h1>" in whole(tmp_path / "run7" / "league")
    for name in ("a <b> & c", "bad-\udcff"):
        League(tmp_path / name, ["t0"], ["s0"]).close()
        html = whole(tmp_path / name)
        parsed(html)
        assert html.encode()
        assert summary(gather(opened(tmp_path / name))).encode()


@pytest.mark.parametrize("scheme", ["elo", "weng_lin", "trueskill"])
def test_every_rating_scheme_has_a_page(tmp_path, scheme):
    play(tmp_path / "l", 3, 3, 5, scheme=scheme)
    html = whole(tmp_path / "l")
    parsed(html)
    assert f"Rating scheme {scheme}" in html
    assert not re.search(r"\b(nan|NaN|inf|None)\b", beside_the_library(html))


def test_matches_that_count_nothing_are_told_from_none_at_all(tmp_path):
    with League(tmp_path / "l", ["t0", "t1"], ["s0", "s1"]) as league:
        for pair in league.pair(0):
            league.record(pair, Outcome(0, 0, 0, 0, 0, void=5))
        void = whole(tmp_path / "l")
        for pair in league.pair(1):
            league.record(pair, Outcome(6, 0, 0, 0, 0))
    text = " ".join(parsed(void).itertext())
    assert "void tasks" in text
    assert "no match counted from round 0 on" in text
    text = " ".join(parsed(whole(tmp_path / "l")).itertext())
    assert "of all rollouts solved" not in text
    assert run("report", tmp_path / "l", "--json").exit_code == 0


def test_a_failed_write_leaves_the_old_page(full, tmp_path, monkeypatch):
    target = tmp_path / "page.html"
    target.write_text("old")

    def fail(*paths):
        raise OSError("no space left")

    monkeypatch.setattr("league.events.files.os.replace", fail)
    result = run("report", full, "--html", target)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == ["league: no space left"]
    assert result.stdout == ""
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_what_cannot_be_seen_is_spelt_out_in_text_and_in_charts():
    assert visible("a\x00\x1b<b>\u202e") == "a<U+0000><U+001B><b><U+202E>"
    bad = "</script><b>\u202e\udcff"
    html = written("frame.html", {"payoff": heat_map([bad], ["s"], [[0.5]], [[1]], bad)})
    assert "</script><b>" not in html
    assert "\u202e" not in html
    assert html.encode()
    (row,) = rows_of(charts_in(html)["payoff"])
    assert row["teacher"] == "</script><b><U+202E><U+DCFF>"


def test_words():
    assert short("abcdefghij", 5) == "ab…ij"
    assert short("abc", 5) == "abc"
    assert number(-0.001) == "0.00"
    assert number(-1.5, 1) == "−1.5"
    assert number(None) == ""


def test_charts_are_altairs_own_and_are_saved(full, tmp_path):
    found = gather(opened(full))
    bands = rating_bands(found, "student").to_dict()
    members = {row["member"] for row in rows_of(bands) if "member" in row}
    assert {row.member for row in opened(full).leaderboard("student")} <= members
    assert bands["params"][0]["bind"] == "legend"
    save_charts({"bands": rating_bands(found, "student")}, tmp_path / "made" / "here")
    made = tmp_path / "made" / "here"
    assert "<svg" in (made / "bands.svg").read_text()
    assert (made / "bands.png").read_bytes().startswith(b"\x89PNG")


def test_every_chart_of_the_page_is_saved_by_the_verb(full, tmp_path):
    result = run("report", full, "--save", tmp_path / "charts")
    assert result.exit_code == 0, result.output
    names = {path.stem for path in (tmp_path / "charts").iterdir()}
    assert names == set(charts_of(gather(opened(full))))


def test_without_the_extra_the_verb_says_what_to_type(full, tmp_path, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("league.pages.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, "league.drawing.frame")
    monkeypatch.setitem(sys.modules, "altair", None)
    result = run("report", full, "--html", tmp_path / "page.html")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "pip install 'populab-league[report]'" in result.stderr
    assert run("report", full).exit_code == 0


def test_sparklines():
    assert sparkline([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]) == "▁▂▃▄▅▆▇█"
    assert sparkline([math.nan, 1.0, 1.0]) == " ▅▅"
    assert sparkline([]) == ""
    assert sparkline([math.nan]) == " "
    assert len(sparkline([float(i) for i in range(1000)], width=24)) == 24
    assert sparkline([0.0, 10.0], low=-10.0, high=10.0) == "▅█"


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_verb_prints_a_summary_writes_the_page_and_repeats_itself(full, tmp_path):
    target = tmp_path / "page.html"
    first = run("report", full, "--html", target)
    assert first.exit_code == 0, first.output
    assert "mu over rounds" in first.stdout
    assert "▁" in first.stdout
    assert target.read_text() == whole(full)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert run("report", full, "--html", target).stdout == first.stdout
    assert all(len(line) < 130 for line in run("report", full).stdout.splitlines())


def test_the_verb_prints_json(full):
    found = json.loads(run("report", full, "--json").stdout)
    assert found["rounds"] == 24
    assert len(found["board"]["teacher"]) == 4
    assert found["nash"]["value"] == gather(opened(full)).nash.value
    assert found["missing"] == {}


def test_json_of_an_untouched_league_is_whole(tmp_path):
    League(tmp_path / "l", ["t0"], ["s0"]).close()
    found = json.loads(run("report", tmp_path / "l", "--json").stdout)
    assert found["nash"] is None
    assert set(found["missing"]) == {"interaction", "nash", "alpha_rank", "diversity"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--html", "."), "it is a folder"),
        (("--html", "no/such/page.html"), "there is no folder"),
        (("--top", "0"), "top is 0"),
        (("--since", "-1"), "since is -1"),
    ],
)
def test_wrong_use_is_one_line(full, arguments, words):
    result = run("report", full, *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr


def test_the_page_never_takes_the_place_of_the_leagues_own_files(full):
    before = (full / "events.jsonl").read_bytes()
    result = run("report", full, "--html", full / "events.jsonl")
    assert result.exit_code == 2
    assert "belongs to a league" in result.stderr
    assert (full / "events.jsonl").read_bytes() == before


def test_a_report_of_nothing_played_since_then_says_so(full):
    text = " ".join(parsed(whole(full, since=1000)).itertext())
    assert "no match counted from round 1000 on" in text
