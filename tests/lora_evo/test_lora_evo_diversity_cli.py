"""`lora-evo diversity` and `lora-evo distance`, from folders to tables, JSON and the page."""

import json
import re
import sys
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

pytest.importorskip("altair", reason="the page needs the extra `report`")
pytest.importorskip("vl_convert", reason="the page needs the extra `report`")

from lora_evo import cross_directory, distance, mutate_directory, save_adapter, verify
from lora_evo.cli import main
from lora_evo.commands.frame import counter
from lora_evo.pages.population_page import population_page
from lora_evo.population.diversity import diversity


@pytest.fixture
def home(tmp_path, make_adapter, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2, 3):
        save_adapter(make_adapter(seed, r=seed + 1), tmp_path / "pop" / f"m{seed}")
    return tmp_path


def call(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


class Checker(HTMLParser):
    """Fails on tags that do not close in order; gathers what could be fetched or run."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.tags, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def charts_in(text):
    data = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', text, re.S)
    return json.loads(data[0])["charts"]


def rows_of(chart):
    return [row for rows in chart["datasets"].values() for row in rows]


def test_a_folder_and_its_members_named_one_by_one_are_the_same(home):
    whole = call("diversity", "pop", "--json").stdout
    assert whole == call("diversity", "pop/m1", "pop/m2", "pop/m3", "--json").stdout
    found = json.loads(whole)
    assert found["names"] == ["m1", "m2", "m3"]
    assert len(found["closest"]) == 2
    assert found["overlaps"] is None
    assert found["module_types"]["q_proj"]["modules"] == 2
    assert 1 < found["effective_members"] <= 3


def test_the_table_shows_pairs_types_and_the_number_of_distinct_members(home):
    text = call("diversity", "pop").stdout
    assert "distinct in effect, mean distance" in text
    assert "part of distances" in text
    assert "overlap" not in text
    spaces = call("diversity", "pop", "--spaces").stdout
    assert "write to" in spaces
    assert "what they read" in spaces
    assert json.loads(call("diversity", "pop", "--spaces", "--json").stdout)["overlaps"]["rows"]


def test_many_members_are_shown_with_their_nearest_ones(home, make_adapter):
    for seed in range(20):
        save_adapter(make_adapter(seed, layers=1), home / "many" / f"x{seed:02d}")
    lines = call("diversity", "many").stdout.splitlines()
    assert max(map(len, lines)) < 100
    assert lines[1].split() == ["member", "norm", "mean", "distance", "nearest", "distance"]
    assert "20 members" in lines[-1]


def test_the_page_is_whole_self_contained_and_the_same_each_time(home):
    call("diversity", "pop", "--spaces", "--html", "new/page.html")
    text = (home / "new" / "page.html").read_text(encoding="utf-8")
    checked = Checker(text)
    assert checked.links == []
    assert checked.tags.count("script") == 2
    charts = charts_in(text)
    assert set(charts) == {"distances", "map", "types", "overlap-columns", "overlap-rows"}
    assert len(rows_of(charts["map"])) == 3
    assert all(chart["description"] for chart in charts.values())
    assert not re.search(r"https?:|url\(", re.sub(r"<script>.*?</script>", "", text, flags=re.S))
    assert "prefers-color-scheme: dark" in text
    call("diversity", "pop", "--spaces", "--html", "again.html")
    assert (home / "again.html").read_text(encoding="utf-8") == text
    assert call("diversity", "pop", "--html", "pop", code=2).stderr.startswith("lora-evo: ")


@pytest.mark.parametrize("size", [2, 15, 60])
def test_pages_of_any_size_show_every_pair(make_adapter, size):
    members = [make_adapter(seed // 2, layers=1) for seed in range(size)]
    names = [f"<b>&\"{seed}' a name that is rather long" for seed in range(size)]
    text = population_page(diversity(members, names))
    Checker(text)
    assert "<b>&" not in text
    charts = charts_in(text)
    assert len(rows_of(charts["map"])) == size
    assert {(row["row"], row["column"]) for row in rows_of(charts["distances"])} == {
        (one, two) for one in range(1, size + 1) for two in range(1, size + 1)
    }
    assert len(rows_of(charts["types"])) == 2


def test_charts_are_saved_and_without_the_extra_a_line_says_what_to_type(home, monkeypatch):
    call("diversity", "pop", "--save", "charts")
    names = sorted(path.name for path in (home / "charts").iterdir())
    kept = ("distances", "map", "types")
    assert names == sorted(f"{name}.{ending}" for name in kept for ending in ("svg", "png"))
    for module in ("frame", "population_charts"):
        monkeypatch.delitem(sys.modules, f"lora_evo.pages.{module}")
    monkeypatch.setitem(sys.modules, "altair", None)
    told = call("diversity", "pop", "--html", "page.html", code=2).stderr
    assert told.count("\n") == 1
    assert "pip install 'populab-lora-evo[report]'" in told
    call("diversity", "pop")


def test_populations_that_cannot_be_compared_end_in_one_line(home):
    assert "at least two" in call("diversity", "pop/m1", code=2).stderr
    assert "given twice" in call("diversity", "pop", "pop/m1", code=2).stderr
    (home / "empty").mkdir()
    assert "at least two" in call("diversity", "empty", code=2).stderr
    assert "not a folder" in call("diversity", "nowhere", code=2).stderr


def test_distance_by_type_by_module_and_as_json(home, make_adapter):
    one, two = make_adapter(1, r=2), make_adapter(2, r=3)
    found = json.loads(call("distance", "pop/m1", "pop/m2", "--json").stdout)
    assert found["distance"] == pytest.approx(distance(one, two), rel=1e-9)
    both = diversity([one, two], spaces=True)
    assert found["cosine"] == pytest.approx(both.cosines[0][1], abs=1e-9)
    assert found["norm_ratio"] == pytest.approx(both.norms[1] / both.norms[0])
    assert found["column_overlap"] == pytest.approx(both.overlaps.columns[0][1])
    assert found["row_overlap"] == pytest.approx(both.overlaps.rows[0][1])
    assert set(found["module_types"]) == {"q_proj", "v_proj"}
    assert len(found["modules"]) == 4
    lines = call("distance", "pop/m1", "pop/m2").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["type", "q_proj", "v_proj", "all"]
    lines = call("distance", "pop/m1", "pop/m2", "--modules").stdout.splitlines()
    assert len(lines) == 6
    assert lines[1].startswith("model.layers.0.self_attn.q_proj")


def test_distance_from_a_zero_update(home, make_adapter):
    save_adapter(make_adapter(1, r=2, zero=True), home / "zero")
    found = json.loads(call("distance", "zero", "pop/m1", "--json").stdout)
    assert found["distance"] == pytest.approx(2**0.5)
    assert found["cosine"] is found["norm_ratio"] is found["row_overlap"] is None
    assert "from zero" in call("distance", "zero", "pop/m1").stdout
    assert json.loads(call("distance", "zero", "zero", "--json").stdout)["distance"] == 0


def test_progress_counts_modules_on_a_terminal_only(monkeypatch, capsys):
    with counter("comparing") as progress:
        assert progress is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with counter("comparing") as progress:
        for done in range(1, 301):
            progress(done, 300)
    shown = capsys.readouterr().err
    assert "\x1b[Kcomparing: 300 of 300 modules" in shown
    assert shown.count("comparing") == 101
    assert shown.endswith("\r\x1b[K")


def test_births_and_verification_tell_their_progress(home):
    steps = []
    mutate_directory("svd_structured", "pop/m1", "c", seed=1, progress=lambda *at: steps.append(at))
    cross_directory(
        "slot_swap", ["pop/m1", "c"], "d", seed=1, progress=lambda *at: steps.append(at)
    )
    assert verify("d", ".", progress=lambda *at: steps.append(at)).identical
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)] * 3
