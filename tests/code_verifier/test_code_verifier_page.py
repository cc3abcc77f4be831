"""The page shows every part, carries all it needs, and lets no program speak HTML."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from code_verifier import RecordError, measure
from code_verifier.metrics.measurement import NUMBERS
from code_verifier.page.document import Gathered, render
from code_verifier.page.plots import Line, bars, curves, ticks
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
    assert outline.tags.count("svg") == 2 * len(NUMBERS) + 3
    assert outline.tags.count("details") == 3
    assert not {"script", "link", "img", "iframe", "object", "b>"} & set(outline.tags)
    assert not {"src", "href", "onload", "style"} & {name for name, _ in outline.attributes}
    assert "http" not in page
    assert "url(" not in page
    assert "&lt;/pre&gt;&lt;script&gt;" in page
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


def test_bars_hold_every_value_once() -> None:
    for values in ([1.0], [1.0, 2.0, 2.0], [0.0] * 99 + [1e6], [float(i) for i in range(1000)]):
        for whole in (True, False):
            drawn = bars(values, whole, [("median", values[0])], "x")
            counts = [int(n.replace(",", "")) for n in re.findall(r": ([\d,]+)</title>", drawn)]
            assert sum(counts) == len(values)
            assert "nan" not in drawn


def test_curves_of_one_point_and_of_constants() -> None:
    for points in ([(1.0, 0.0)], [(1.0, 5.0), (2.0, 5.0)], [(0.0, 1e9), (1e6, 0.25)]):
        drawn = curves([Line(points)], "step", "")
        assert "nan" not in drawn
        assert drawn.startswith("<svg")
    assert "<circle" in curves([Line([(1.0, 2.0)])], "step", "")


def test_ticks_are_round() -> None:
    assert ticks(0, 10) == [0, 5, 10]
    assert ticks(0.0, 1.0) == pytest.approx([0.0, 0.5, 1.0])
    assert ticks(-0.5, 0.5, whole=True) == [0]
    assert ticks(3, 1003, about=5) == [200, 400, 600, 800, 1000]


def test_saving_is_whole_or_not_at_all(tmp_path: Path) -> None:
    save_text("é\ud800", tmp_path / "page")
    assert (tmp_path / "page").read_bytes() == b"\xc3\xa9\\ud800"
    save_text("two", tmp_path / "page")
    assert [path.name for path in tmp_path.iterdir()] == ["page"]
    for bad in (tmp_path, tmp_path / "none" / "page"):
        with pytest.raises(RecordError, match="cannot write"):
            save_text("x", bad)
