"""Rows from files, from evalplus' cache and from the hub, and what is said where they are not."""

import gzip
import hashlib
import json
import re
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from json_lines import read_rows

from evals import Data, EvalsError
from evals.catalog import load_official
from evals.data import OFFICIAL, cache_folder, load_source, read_file, remarks

ROWS = [{"question": "1 + 1?", "answer": "#### 2"}, {"question": "2^70?", "answer": str(2**70)}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


@pytest.mark.parametrize(
    "data",
    [
        LINES, LINES.rstrip(), b"\xef\xbb\xbf" + LINES, LINES.replace(b"\n", b"\r\n\n"),
        gzip.compress(LINES, mtime=0), json.dumps(ROWS, indent=1).encode(),
        gzip.compress(json.dumps(ROWS).encode(), mtime=0),
    ],
)  # fmt: skip
def test_files_are_known_by_content(tmp_path, data):
    path = tmp_path / "rows.txt"
    path.write_bytes(data)
    found = read_file(path)
    assert found.rows == ROWS
    assert found.content_hash == f"sha256 of the file: {hashlib.sha256(data).hexdigest()}"


def test_large_numbers_and_mixed_lists_stay_what_they_are(tmp_path):
    path = tmp_path / "plus.jsonl"
    row = {"task_id": "HumanEval/900", "plus_input": [[10**40, "a", [1.5, None]], [True]]}
    path.write_text(json.dumps(row))
    assert read_file(path).rows == [row]
    path.write_text(json.dumps(ROWS[0], indent=2))
    assert read_file(path).rows == ROWS[:1]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"), (b" \n\n", "is empty"), (b"[]", "holds no rows"),
        (LINES[:-20], "line 2: not JSON"), (b"{}\nx\n{}", "line 2: not JSON"),
        (b"[1]", "item 1: found int, expected an object"),
        (b'{"a": 1}\n[2]', "line 2: found list, expected an object"),
        (gzip.compress(LINES, mtime=0)[:-9], "broken gzip"),
        (b"\x80\x04\x95pickle", "neither JSON nor gzip nor parquet"),
        (b"[" * 100_000, "not JSON"), (b'{"a": 1' + b"0" * 5000 + b"}\n{}", "line 1: not JSON"),
    ],
)  # fmt: skip
def test_broken_files_are_refused_in_one_line(tmp_path, data, said):
    path = tmp_path / "broken.jsonl"
    path.write_bytes(data)
    with pytest.raises(EvalsError, match=said) as caught:
        read_file(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_counts_are_compared_with_the_official_ones():
    odd = "2 rows, which is not an official number: 1319 (GSM8K test)"
    assert remarks("gsm8k", 2) == (odd,)
    assert remarks("livecodebench", 880) == ("880 rows: release_v5, to January 2025",)


def test_unknown_releases_are_named():
    with pytest.raises(EvalsError, match=r"release_v9.*release_v1, release_v2"):
        load_source("livecodebench", release="release_v9")
    with pytest.raises(EvalsError, match="the hub has: none"):
        load_source("gsm8k", release="main")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def put(name, module, monkeypatch):
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(
    ("library", "name"), [("evalplus", "humaneval_plus"), ("datasets", "math500")]
)
def test_without_a_library_it_says_what_to_type(library, name, home, monkeypatch):
    put(library, None, monkeypatch)
    typed = re.escape(f"type: {sys.executable} -m pip install {library}")
    with pytest.raises(EvalsError, match=f"{typed}$"):
        load_source(name)


def test_evalplus_fetches_the_file_or_says_why_not(home, monkeypatch, capsys):
    def offline():
        print("Downloading")
        raise OSError("Name or service not known\nmore")

    def online():
        cache_folder("evalplus").mkdir(parents=True)
        (cache_folder("evalplus") / "HumanEvalPlus-v0.1.10.jsonl").write_bytes(LINES)

    put("evalplus", ModuleType("evalplus"), monkeypatch)
    put("evalplus.data", SimpleNamespace(get_human_eval_plus=offline), monkeypatch)
    with pytest.raises(EvalsError, match=r"not known\); .*--data HumanEvalPlus.jsonl.gz$"):
        load_source("humaneval_plus")
    put("evalplus.data", SimpleNamespace(get_human_eval_plus=online), monkeypatch)
    assert load_source("humaneval_plus").rows == ROWS
    put("evalplus.data", None, monkeypatch)
    assert load_source("humaneval_plus").rows == ROWS  # from its cache
    assert capsys.readouterr().out == ""


class FakeDatasets(ModuleType):
    """As much of `datasets` as is used, with rows or an error of our own."""

    def __init__(self, answer):
        super().__init__("datasets")
        self.answer = answer
        self.asked = []

    def disable_progress_bars(self):
        """There are none."""

    def load_dataset(self, path, config, split, revision):
        self.asked.append((path, config, split, revision))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_hub_rows_are_plain_and_hashed(monkeypatch):
    rows = [{"question_id": "1", "contest_date": datetime(2024, 8, 1), "tests": [{"n": 1}]}]
    fake = FakeDatasets(rows)
    put("datasets", fake, monkeypatch)
    found = load_source("livecodebench", release="release_v6")
    assert fake.asked == [("lighteval/code_generation_lite", "release_v6", "test", None)]
    assert found.rows[0]["contest_date"] == "2024-08-01T00:00:00"
    line = json.dumps(found.rows[0], sort_keys=True) + "\n"
    digest = hashlib.sha256(line.encode()).hexdigest()
    assert found.content_hash == f"sha256 of the rows: {digest}"


_FILE = Path(__file__).parent / "data" / "math_cards.jsonl"
CARDS = {card["benchmark"]: card["row"] for card in read_rows(_FILE)}
"""The columns that the hub's cards name."""


@pytest.mark.parametrize("name", CARDS)
def test_rows_with_the_columns_of_the_hub_load(name, tmp_path, monkeypatch):
    fake = FakeDatasets([CARDS[name]])
    put("datasets", fake, monkeypatch)
    hub = OFFICIAL[name].hub
    (question,) = load_official(name, Data()).questions
    split = hub.get("split", "test")
    assert fake.asked == [(hub["path"], hub.get("config"), split, hub["revision"])]
    assert question.problem.measured == (name == "minerva_math")
    assert question.level == (2 if name == "math500" else 0)
    own = {"aime24": "60", "math500": "test/algebra/1.json", "olympiadbench": "1606"}
    assert question.id == own.get(name, "0")
    assert len(hub["revision"]) == 40
    assert (question.fields["question"], question.problem.text) == ("?", "7")
    monkeypatch.undo()
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(CARDS[name]) + "\n")
    assert load_official(name, Data(file)).questions == (question,)
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist([CARDS[name]]), file)
    assert load_official(name, Data(file)).questions == (question,)


def test_published_rows_are_known_by_their_fingerprint(tmp_path, monkeypatch):
    item = {"problem_idx": 0, "problem": "?", "ground_truth": "1200"}
    text = json.dumps(item, sort_keys=True, separators=(",", ":")) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    known = replace(OFFICIAL["gsm8k"], counts={1: "one row"}, digest=digest)
    monkeypatch.setitem(OFFICIAL, "gsm8k", known)
    path = tmp_path / "rows.jsonl"
    for answer, note in (("1,200", "are the published ones"), ("1,300", "are not the published")):
        path.write_text(json.dumps({"id": "a", "question": "? ", "answer": f"#### {answer}"}))
        assert note in load_official("gsm8k", Data(path)).notes[-1]


def test_a_hub_that_gives_nothing_is_named_in_one_line(monkeypatch):
    put("datasets", FakeDatasets(ValueError("Couldn't reach it\ntry another")), monkeypatch)
    with pytest.raises(EvalsError, match=r"Couldn't reach it; .*--data aime25.jsonl$") as caught:
        load_source("aime25")
    assert "\n" not in str(caught.value)


def test_parquet_needs_pyarrow_and_may_be_broken(tmp_path, monkeypatch):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and no more PAR1")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(EvalsError, match="to read parquet"):
            read_file(broken)
    pytest.importorskip("pyarrow.parquet")
    with pytest.raises(EvalsError, match="broken parquet"):
        read_file(broken)
