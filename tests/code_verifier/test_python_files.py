"""`code-verifier metrics` on Python files and folders, and on what is not quite one."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from json_lines import read_rows
from pages import Page

from code_verifier import measure
from code_verifier.cli import main
from code_verifier.metrics import MEANINGS
from code_verifier.user_files import read_program

PROGRAM = "class A:\n    def m(self):\n        return 1 if self else 2\n\n\nprint(A() or 3)\n"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def metrics(*args):
    result = CliRunner().invoke(main, ["metrics", *map(str, args)])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def write(**files):
    """Write files whose names have `__` for a slash; what has no ending is a Python file."""
    for name, content in files.items():
        path = Path(name.replace("__", "/"))
        path = path if path.suffix else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def measured(*paths):
    """The rows of paths by their ids."""
    result = metrics(*paths, "--out", "rows.jsonl")
    assert result.exit_code == 0, result.output
    return {row["id"]: row for row in read_rows(Path("rows.jsonl"))}


def test_a_row_a_file_in_the_order_of_names():
    write(src__b=PROGRAM, src__a="x = 1", src__deep__c="def f(): pass", alone="y = 2")
    Path("src/notes.txt").write_text("not Python")
    Path("tasks.jsonl").write_text('{"program": "z = 3"}\n{"id": "t", "program": "z = 4"}\n')
    rows = measured("src", "alone.py", "tasks.jsonl")
    names = ["src/a.py", "src/b.py", "src/deep/c.py", "alone.py", "tasks.jsonl:1", "t"]
    assert list(rows) == names
    expected = measure(PROGRAM)
    assert (rows["src/b.py"]["cyclomatic"], expected.cyclomatic) == (4, 4)
    assert rows["src/b.py"]["structure"] == expected.structure
    assert list(measured("alone.py")) == ["alone.py"]
    assert list(measured("tasks.jsonl")) == [1, "t"]


def test_the_summary_and_the_page_are_of_all_files():
    one = "def f(x):\n    return x\n"
    write(src__a=PROGRAM, src__b=one * 2, src__c=one * 2, src__d=one * 4, src__bad="def f(")
    result = metrics("src", "--out", "rows.jsonl", "--html", "page.html", "--json")
    summary = json.loads(result.stdout)
    assert (summary["programs"], summary["unparsed"], summary["structures"]) == (4, 1, 3)
    assert summary["metrics"]["cyclomatic"]["p100"] == 4
    text = Path("page.html").read_text()
    page = Page(text)
    assert page.count("figure") == len(MEANINGS)
    for words in ("How large and how complex", "4 programs, 3 structures", "1 more could not be"):
        assert words in page.text
    assert 'src="http' not in text
    charts = json.loads(text.partition('id="charts">')[2].partition("</script>")[0])
    assert list(charts) == list(MEANINGS)
    (bars,) = charts["functions"]["datasets"].values()
    assert {bar["value"]: bar["programs"] for bar in bars} == {"1": 1, "2": 2, "4": 1}
    assert metrics("src/a.py", "--out", "-").stderr.startswith("1 program, 1 structure, 0 not")


def test_each_file_counts_once_however_often_it_is_named():
    write(src__a="x = 1")
    assert list(measured("src", "./src/a.py", "src", Path("src").resolve())) == ["src/a.py"]


def test_folders_of_others_are_left_out():
    write(a="x = 1")
    for folder in (".git", ".hidden/deep", "__pycache__", "env/lib", "sub/.tox"):
        Path(folder).mkdir(parents=True)
        Path(folder, "b.py").write_text("x = 2")
    Path("env/pyvenv.cfg").touch()
    Path("sub/up").symlink_to("..")
    Path("name.py").mkdir()
    Path("name.py/inside.py").write_text("x = 3")
    assert list(measured(".")) == ["a.py", "name.py/inside.py"]
    assert list(measured(".git", "env/lib")) == [".git/b.py", "env/lib/b.py"]


DECODED = {
    "byte order mark": (b"\xef\xbb\xbfx = 1\n", "x = 1\n"),
    "cookie on line 2": ("#!/bin/sh\n# coding: cp1252\nx = '€'\n".encode("cp1252"), "'€'"),
    "empty": (b"", ""),
}
REASONS = {
    b"def f(:\n": "the program is not Python: invalid syntax (line 1)",
    b"x = 1\n" * 500_000: "expected at most 1048576",
    b"x = 1\ny = 2\nz = '\xe9'\n": "'utf-8' codec can't decode byte 0xe9",
    "x = 1\n".encode("utf-16"): "invalid or missing encoding declaration",
    b"# coding: nothing\n": "unknown encoding: nothing",
    b"x = " + b"-" * 20_000 + b"1\n": "nested too deeply",
}


def test_files_are_decoded_as_python_does():
    for number, (data, expected) in enumerate(DECODED.values()):
        write(**{f"src__good{number}": data})
        assert expected in read_program(Path(f"src/good{number}.py"))
    write(**{f"src__bad{number}": data for number, data in enumerate(REASONS)})
    rows = list(measured("src").values())
    bad, good = rows[: len(REASONS)], rows[len(REASONS) :]
    assert all(set(row) == {"id", "structure", *MEANINGS} for row in good)
    for row, reason in zip(bad, REASONS.values(), strict=True):
        assert set(row) == {"id", "error"}
        assert reason in row["error"]
        assert "\n" not in row["error"]


def test_what_cannot_be_read_is_a_row_with_the_reason():
    write(src__good="x = 1")
    Path("src/loop.py").symlink_to("loop.py")
    Path("src/broken.py").symlink_to("nowhere.py")
    Path("src/endless.py").symlink_to("/dev/zero")
    os.mkfifo("src/pipe.py")
    errors = {name: row.get("error") for name, row in measured("src").items()}
    assert errors == {
        "src/broken.py": "cannot be read: No such file or directory",
        "src/endless.py": "cannot be read: it is not a regular file",
        "src/good.py": None,
        "src/loop.py": "cannot be read: Too many levels of symbolic links",
        "src/pipe.py": "cannot be read: it is not a regular file",
    }
    assert measured("src/pipe.py")["src/pipe.py"]["error"]


def test_names_that_are_no_text_or_tags():
    name = os.fsdecode(b"caf\xe9.py")
    Path(name).write_text(PROGRAM)
    Path("in.jsonl").write_text(json.dumps({"id": "</script><b>", "program": PROGRAM}))
    result = metrics(".", "in.jsonl", "--out", "rows.jsonl", "--html", "page.html")
    assert result.exit_code == 0, result.output
    assert [row["id"] for row in read_rows(Path("rows.jsonl"))] == [name, "</script><b>"]
    text = Path("page.html").read_text()
    assert "caf" in text
    assert "</script><b>" not in text
    assert "</script><b>" in Page(text).text


def test_nothing_is_executed_or_imported():
    write(a="open('executed', 'w')\nraise SystemExit(3)", conftest="import a")
    assert set(measured(".")) == {"a.py", "conftest.py"}
    assert not Path("executed").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["a.py", "nope", "--out", "o"], "nope: No such file or directory"),
        (["empty", "--out", "o"], "empty holds no Python file (.py), nor do folders below it"),
        ([".", "--out", "o", "--html", "a.py"], "a.py is the input itself"),
        ([".", "--out", "o", "--html", "./o"], "--out and --html are both o; expected two files"),
        (["a.py", "--out", "o", "--html", "no/page"], "there is no folder no; type: mkdir -p no"),
        (["a.py", "--out", "o", "--html", "empty"], "it is a folder; name a file"),
        (["tool", "--out", "o"], "the name of a Python file must end in .py"),
    ],
)
def test_wrong_usage_is_one_line(args, message):
    write(a="x = 1", tool__x="")
    shutil.rmtree("tool")
    Path("tool").write_text("#!/usr/bin/env python3\nprint(1)\n")
    Path("empty").mkdir()
    result = metrics(*args)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert Path("a.py").read_text() == "x = 1"
    assert not Path("o").exists()
