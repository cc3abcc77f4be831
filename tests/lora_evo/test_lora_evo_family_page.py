"""The family as a graph, as a drawing in layers, and as a page."""

import itertools
import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("altair", reason="the page needs the extra `report`")
pytest.importorskip("vl_convert", reason="the page needs the extra `report`")

from lora_evo import (
    Lineage,
    Member,
    cross_directory,
    family,
    load_adapter,
    mutate_directory,
    save_adapter,
    tree,
)
from lora_evo.cli import main
from lora_evo.pages.family_page import family_page
from lora_evo.pages.layered import placement
from lora_evo.population.family import pedigree


def member(name, parents=(), *, content=None, generation=1, born=None, operator="average"):
    content = content or f"sha256:{name}"
    if not parents:
        return Member(name, content, None)
    record = Lineage(
        operator=operator, seed=1, strength=None, weights=None, parameters={},
        parents=tuple(f"sha256:{parent}" for parent in parents), generation=generation,
        content_hash=born or content, moments_valid=False, relative_change=0.5,
        truncation_loss=0.0, modules={}, versions={},
    )  # fmt: skip
    return Member(name, content, record)


def test_layers_follow_descent_and_recorded_generations():
    links = pedigree(
        [
            member("c", ["b", "a"], generation=2),
            member("b", ["a"]),
            member("a"),
            member("z", ["gone"], generation=5),
            member("y", ["z", "c"], generation=1),
        ]
    )
    assert links.layers == {"a": 0, "b": 1, "c": 2, "z": 5, "y": 6, "sha256:gone": 4}
    assert links.missing == ("sha256:gone",)
    assert links.parents["c"] == ("b", "a")


def test_equal_contents_belong_to_the_eldest_and_make_no_circle():
    twins = [member("a-copy", ["r"], content="sha256:r"), member("r")]
    links = pedigree(twins)
    assert links.parents == {"r": (), "a-copy": ("r",)}
    assert tree(twins).splitlines()[1].startswith("└── a-copy")
    circle = [member("x", ["y"]), member("y", ["x"], generation=2)]
    links = pedigree(circle)
    assert links.parents == {"x": ("sha256:y",), "y": ("x",)}
    assert "y" in tree(circle)
    assert len(Checked(family_page(circle)).boxes) == 3


def test_a_member_trained_since_is_still_the_parent_of_its_children():
    links = pedigree([member("a"), member("b", ["a"], content="sha256:now", born="sha256:b"),
                      member("c", ["b"], generation=2)])  # fmt: skip
    assert links.parents["c"] == ("b",)
    assert links.missing == ()


def test_a_line_of_two_thousand_generations_is_drawn():
    line = [member("0")]
    line += [member(str(n), [str(n - 1)], generation=n) for n in range(1, 2000)]
    assert len(tree(line).splitlines()) == 2000


@st.composite
def graphs(draw):
    size = draw(st.integers(1, 25))
    layers, parents = {}, {}
    for number in range(size):
        node = f"n{number}"
        above = draw(st.lists(st.sampled_from(sorted(layers)), max_size=3, unique=True)) if (
            layers
        ) else []  # fmt: skip
        layers[node] = max((layers[name] for name in above), default=-1) + 1
        layers[node] += draw(st.integers(0, 2))
        parents[node] = tuple(above)
    return layers, parents


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_no_two_boxes_touch_and_no_line_runs_through_a_box(graph):
    layers, parents = graph
    made = placement(layers, parents)
    assert set(made.nodes) == set(layers)
    assert min(made.nodes.values()) == pytest.approx(0)
    for layer in set(layers.values()):
        row = sorted(made.nodes[node] for node in layers if layers[node] == layer)
        assert all(b - a > 1 - 1e-9 for a, b in itertools.pairwise(row))
        for (_, where), bend in made.bends.items():
            if where == layer:
                assert all(abs(bend - place) > 0.65 - 1e-9 for place in row)
    for node, above in parents.items():
        for parent in above:
            for layer in range(layers[parent] + 1, layers[node]):
                assert (parent, layer) in made.bends


@settings(max_examples=20, deadline=None)
@given(graphs(), st.randoms())
def test_the_layout_depends_on_the_graph_alone(graph, random):
    layers, parents = graph
    names = list(layers)
    random.shuffle(names)
    assert placement({n: layers[n] for n in names}, {n: parents[n] for n in names}) == placement(
        layers, parents
    )


class Checked(HTMLParser):
    """Refuses pages that would fetch or run something; collects what is drawn."""

    def __init__(self, text):
        super().__init__()
        self.boxes, self.ways, self.open, self.data = [], [], [], False
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        held = dict(attributes)
        assert tag not in ("link", "img", "iframe", "object")
        assert not {"href", "src", "onload", "onclick", "style"} & set(held)
        if tag != "meta":
            self.open.append(tag)
        self.data = held.get("id") == "charts"
        if held.get("http-equiv"):
            assert held["content"].startswith("default-src 'none'; style-src 'sha256-")
            assert "unsafe" not in held["content"]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.data and self.open[-1:] == ["script"]:
            chart = json.loads(data)["charts"]["family"]
            self.size = chart["width"], chart["height"]
            rows = [row for rows in chart["datasets"].values() for row in rows]
            self.boxes = [SimpleNamespace(**row) for row in rows if "bottom" in row]
            ways = {row["way"]: row["parent"] for row in rows if "way" in row}
            self.ways = list(ways.values())


@pytest.fixture
def home(tmp_path, make_adapter, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2, 3):
        save_adapter(make_adapter(number, layers=1), tmp_path / f"r{number}")
    mutate_directory("svd_structured", "r1", "a", seed=1, strength=0.1)
    cross_directory("average", ["a", "r2"], "b", seed=2)
    mutate_directory("svd_structured", "r3", "c", seed=3)
    for file in (tmp_path / "r3").iterdir():
        file.unlink()
    (tmp_path / "r3").rmdir()
    save_adapter(load_adapter("r1"), "c", overwrite=True)
    return tmp_path


def test_the_page_shows_every_member_with_operator_change_and_parents(home):
    members = family(["."])
    page = Checked(family_page(members))
    stub = next(m for m in members if m.name == "c").lineage.parents[0]
    assert len(page.boxes) == len(members) + 1 == 6
    assert sorted(page.ways) == ["first", "first", "first", "further"]
    told = {box.name: box for box in page.boxes}
    assert set(told) == {"r1", "r2", "a", "b", "c", stub.partition(":")[2][:10]}
    assert told[stub.partition(":")[2][:10]].content == stub
    assert "root" in told["r1"].made
    assert told["a"].change.startswith("0.1,")
    assert told["b"].parents == "a, r2"
    assert "strength 0.15" in told["c"].settings
    assert told["c"].trained
    assert not told["a"].trained
    assert all(0 <= box.left < box.right < page.size[0] for box in page.boxes)
    assert all(0 <= box.top < box.bottom < page.size[1] for box in page.boxes)
    assert family_page(members) == family_page(list(reversed(members)))


def test_names_are_shown_as_text():
    page = family_page([member('</script><script>"&\x07\u202e', content="sha256:x")])
    assert "&lt;script&gt;&#34;&amp;&lt;U+0007&gt;&lt;U+202E&gt;" in page
    assert page.count("<script") == 2
    (box,) = Checked(page).boxes
    assert box.name == '</script><script>"&<U+0007><U+202E>'


def test_two_hundred_members():
    line = [member(f"s{n}") for n in range(8)]
    for number in range(192):
        above = [line[-8].name, line[-3].name] if number % 2 else [line[-5].name]
        line.append(member(f"child-{number}", above, generation=number // 8 + 1))
    page = Checked(family_page(line))
    assert len(page.boxes) == 200
    assert len({(box.left, box.top) for box in page.boxes}) == 200


def test_the_command_writes_the_page_whole_or_not_at_all(home):
    done = CliRunner().invoke(main, ["lineage", ".", "--html", "out/tree.html"])
    assert done.exit_code == 0, done.output
    assert done.stdout == "out/tree.html: 5 adapters\n"
    page = (home / "out" / "tree.html").read_text()
    Checked(page)
    assert str(home) not in page
    assert not re.search(r"https?:", re.sub(r"<script>.*?</script>", "", page, flags=re.S))
    assert [file.name for file in (home / "out").iterdir()] == ["tree.html"]
    both = CliRunner().invoke(main, ["lineage", ".", "--html", "out/tree.html", "--json"])
    assert both.stdout.startswith("[")
    failed = CliRunner().invoke(main, ["lineage", ".", "--html", "out"])
    assert failed.exit_code == 2
    assert "is a folder" in failed.stderr
