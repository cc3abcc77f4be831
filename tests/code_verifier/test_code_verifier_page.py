"""The page shows every part, carries all it needs, and lets no program speak HTML."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("altair", reason="the page needs the extra `report`")
pytest.importorskip("vl_convert", reason="the page needs the extra `report`")

from code_verifier import RecordError, measure
from code_verifier.cli import main
from code_verifier.metrics.measurement import NUMBERS
from code_verifier.report import Gathered, charts_of, curves, histogram, render, save_charts
from code_verifier.rows.results import save_text

EVIL = "def f(x):\n    return '</pre><script>alert(1)</script>\" onload=x' + x"
VOID = {"meta", "br"}


class Outline(HTMLParser):
    """Tags in order, with a check that they close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def gathered(programs: list[str], steps: list[float | None], name: str = "tasks") -> Gathered:
    found = [measure(program) for program in programs]
    examples = {item.structure: text for item, text in zip(found, programs, strict=True)}
    return Gathered(name, found, steps, examples)


def test_every_section_and_nothing_from_elsewhere() -> None:
    programs = [EVIL, EVIL, "def f(x):\n    if x:\n        return 2", "x = 1"] * 4
    page = render(gathered(programs, [float(i // 2) for i in range(16)], "<b>&.jsonl"), 3)
    outline = Outline(page)
    for title in ("Trends over the steps", "Coverage", "Distributions", "Most repeated structures"):
        assert f"<h2>{title}</h2>" in page
    charts = charts_in(page)
    assert len(charts) == 2 * len(NUMBERS) + 3
    assert {value for name, value in outline.attributes if name == "data-chart"} == set(charts)
    assert all(chart["description"] for chart in charts.values())
    assert outline.tags.count("details") == 3
    assert not {"link", "img", "iframe", "object", "b>"} & set(outline.tags)
    assert outline.tags.count("script") == 2
    policy = next(v for n, v in outline.attributes if n == "content" and v and "default-src" in v)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not {"src", "href", "onload", "style"} & {name for name, _ in outline.attributes}
    assert not re.search("https?:", own)
    assert "url(" not in own
    assert "&lt;/pre&gt;&lt;script&gt;" in own
    assert "<title>&lt;b&gt;&amp;.jsonl</title>" in page
    assert "<b>3</b><span>rows left out" in page
    assert render(gathered(programs, [float(i // 2) for i in range(16)], "<b>&.jsonl"), 3) == page


def test_without_steps_there_are_no_trends() -> None:
    for steps in ([None, None], [3.0, 3.0], [None, 3.0]):
        page = render(gathered(["x = 1", "import re"], list(steps)))
        assert "Trends" not in page
        assert "No structure occurs twice." in page


def test_no_program_at_all() -> None:
    page = render(Gathered("empty"), 2)
    Outline(page)
    assert "There is no program to show; 2 rows" in page


def test_one_program_and_huge_ones() -> None:
    Outline(render(gathered(["x = 1"], [None])))
    long = "def f(x):\n" + "".join(f"    x = x + {i}\n" for i in range(300)) + "    # \x1b\x00\n"
    page = render(gathered([long.replace("\x00", ""), "x=1"] * 30, [None] * 60))
    Outline(page)
    assert "\x1b" not in page
    assert "x = x + 200" not in page


def charts_in(page: str) -> dict[str, Any]:
    data = re.findall(
        r'<script type="application/json" id="charts">(.*?)</script>', page, re.DOTALL
    )
    found: dict[str, Any] = json.loads(data[0])["charts"]
    return found


def rows_of(chart: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for rows in chart["datasets"].values() for row in rows]


def test_bars_hold_every_value_once() -> None:
    for values in ([1.0], [1.0, 2.0, 2.0], [0.0] * 99 + [1e6], [float(i) for i in range(1000)]):
        for whole in (True, False):
            drawn = histogram(values, whole, [("median", values[0])], "x").to_dict()
            assert sum(row.get("programs", 0) for row in rows_of(drawn)) == len(values)
            assert "NaN" not in json.dumps(drawn)


def test_curves_of_one_point_and_of_constants() -> None:
    for points in ([(1.0, 0.0)], [(1.0, 5.0), (2.0, 5.0)], [(0.0, 1e9), (1e6, 0.25)]):
        drawn = curves({"line": points}, "step", "about").to_dict()
        assert "NaN" not in json.dumps(drawn)
        dots = [layer["mark"] for layer in drawn["layer"] if layer["mark"]["type"] == "point"]
        assert dots[0]["opacity"] == (len(points) == 1)


def test_what_cannot_be_seen_is_spelt_out() -> None:
    text = "def f(x):\n    return x  # \u202e gnp \u2066\n"
    page = render(gathered([text, text], [None, None]))
    assert "\u202e" not in page
    assert "# &lt;U+202E&gt; gnp &lt;U+2066&gt;" in page


def test_charts_are_saved(tmp_path: Path) -> None:
    found = charts_of(gathered(["x = 1", "x = 2", "def f(x):\n    return x"], [1.0, 2.0, 3.0]))
    save_charts({"growth": found["growth"], "loc": found["loc"]}, tmp_path / "charts")
    names = sorted(path.name for path in (tmp_path / "charts").iterdir())
    assert names == ["growth.png", "growth.svg", "loc.png", "loc.svg"]


def test_without_the_extra_a_line_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"program": "x = 1"}\n')
    monkeypatch.delitem(sys.modules, "code_verifier.page.frame")
    monkeypatch.setitem(sys.modules, "altair", None)
    words = ["metrics", str(tmp_path / "tasks.jsonl"), "--out", str(tmp_path / "out.jsonl")]
    told = CliRunner().invoke(main, [*words, "--html", str(tmp_path / "page.html")])
    assert told.exit_code == 2
    assert "pip install 'populab-code-verifier[report]'" in told.stderr
    assert len(told.stderr.splitlines()) == 1
    assert CliRunner().invoke(main, words).exit_code == 0


def test_saving_is_whole_or_not_at_all(tmp_path: Path) -> None:
    save_text("é\ud800", tmp_path / "page")
    assert (tmp_path / "page").read_bytes() == b"\xc3\xa9\\ud800"
    save_text("two", tmp_path / "page")
    assert [path.name for path in tmp_path.iterdir()] == ["page"]
    for bad in (tmp_path, tmp_path / "none" / "page"):
        with pytest.raises(RecordError, match="cannot write"):
            save_text("x", bad)
