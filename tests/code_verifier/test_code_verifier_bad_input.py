"""Bad files and bad options: a clear line, exit code 2, finished results kept."""

import codecs
import fcntl
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from code_verifier import Limits
from code_verifier.cli import main
from code_verifier.rows import jsonl
from code_verifier.rows.fields import Row
from code_verifier.rows.jsonl import FileError, open_rows

GOOD = {"id": "a", "program": "def f(x):\n    return x + 1", "input": "1"}
LINE = json.dumps(GOOD).encode() + b"\n"


def call(*args: object, input: bytes | None = None) -> Result:
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=input)
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check(tmp_path: Path, content: bytes, *options: object) -> tuple[Result, list[Any]]:
    """`check` of a file with this content; the result, and the rows written."""
    (tmp_path / "in").write_bytes(content)
    out = tmp_path / "out"
    out.unlink(missing_ok=True)
    result = call("check", tmp_path / "in", "--out", out, *options)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name not in ("in", "out")) == []
    return result, lines(out) if out.exists() else []


BAD_LINES = {
    b'{"program": "def f(): pass", "inp': "not JSON",
    b'[{"program": "x", "input": ""}]': "found list",
    b"17": "found int",
    b"null": "found NoneType",
    b'"text"': "found str",
    b'{"input": "1"}': "'program' or 'snippet' is missing; found 'input'",
    b'{"program": "def f(): pass"}': "'input' or 'inputs' is missing",
    b"{}": "found nothing",
    b'{"program": 7, "input": "1"}': "'program' is of type int",
    b'{"program": "x", "input": ["1"]}': "'input' is of type list",
    b'{"program": "x", "inputs": []}': "'inputs' is empty",
    b'{"program": "x", "inputs": "1"}': "'inputs' is of type str; expected a list of texts",
    b'{"program": "x", "input": "1", "id": {"a": 1}}': "'id' is of type dict",
    b'{"program": "x", "input": "1", "id": NaN}': "'id' is of type nan",
    b'{"program": "x", "input": "1", "id": -1e999}': "'id' is of type -inf",
    b'{"program": "x", "input": "1", "input": "2"}': "'input' appears twice",
    b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}": "nested too deep",
    b'{"id": ' + b"9" * 5_000 + b"}": "not usable JSON",
    b'{"program": "x\xff", "input": "1"}': "not UTF-8 (byte 15 is 0xff)",
    b'{"program": "x\x00", "input": "1"}': "it holds null bytes",
    b"\x00" * 64: "it holds null bytes",
    b'{"program": "x"} {"program": "y"}': "Extra data, column 18",
}


@pytest.mark.parametrize("bad", BAD_LINES, ids=list(BAD_LINES.values()))
def test_a_bad_line_in_the_middle(tmp_path: Path, bad: bytes) -> None:
    content = LINE + b"\r\n" + bad + b"\n" + LINE
    stopped, rows = check(tmp_path, content)
    assert stopped.exit_code == 2
    assert f"{tmp_path / 'in'}, line 3: " in stopped.stderr
    assert BAD_LINES[bad] in stopped.stderr
    assert len(stopped.stderr.splitlines()) == 1
    assert [row["output"] for row in rows] == ["2"]
    skipped, rows = check(tmp_path, content, "--on-error", "skip")
    assert skipped.exit_code == 0
    assert BAD_LINES[bad] in skipped.stderr
    assert [row["output"] for row in rows] == ["2", "2"]


BAD_ANSWERS: dict[str, dict[str, Any]] = {
    "'kind' is missing": {"answer": "1"},
    "unknown kind 'x'": {"kind": "x", "answer": "1"},
    "'output' is missing": {"kind": "code_o", "answer": "1"},
    "'answer' is missing": {"kind": "code_o", "output": "1"},
    "'program' or 'snippet' is missing": {"kind": "code_i", "output": "1", "answer": "1"},
    "'inputs' is missing": {"kind": "code_f", "answer": "1"},
    "'outputs' is missing": {"kind": "code_f", "inputs": ["1"], "answer": "1"},
    "1 inputs and 2 outputs": {
        "kind": "code_f",
        "inputs": ["1"],
        "outputs": ["1", "2"],
        "answer": "1",
    },
    "at least one hidden": {"kind": "code_f", "inputs": [], "outputs": [], "answer": "1"},
    "'visible' is of type str": {
        "kind": "code_f",
        "inputs": ["1"],
        "outputs": ["1"],
        "visible": "1",
        "answer": "1",
    },
    "is not a literal": {"kind": "code_o", "output": "open()", "answer": "1"},
}


@pytest.mark.parametrize("problem", BAD_ANSWERS)
def test_a_bad_row_of_answers(tmp_path: Path, problem: str) -> None:
    good = {"id": "g", "kind": "code_o", "output": "1", "answer": "1", "visible": None}
    rows = (good, {"id": "b", **BAD_ANSWERS[problem]}, good)
    (tmp_path / "in").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = call("grade", tmp_path / "in", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "line 2: " in result.stderr
    assert problem in result.stderr
    assert [row["score"] for row in lines(tmp_path / "out")] == [1.0]


def test_texts_no_program_can_hold_are_verdicts(tmp_path: Path) -> None:
    long = "#" + "x" * Limits().program_chars
    programs = ["def f(x): return '\ud800'", "\ud800", "def f(x):\x00 return 1", "", long]
    content = "".join(json.dumps({"program": text, "input": "1"}) + "\n" for text in programs)
    content += json.dumps({**GOOD, "input": "'\ud800'"}) + "\n"
    content += json.dumps({**GOOD, "input": "1\x00"}) + "\n"
    content += json.dumps({**GOOD, "id": "\ud800"}) + "\n"
    result, rows = check(tmp_path, content.encode())
    assert result.exit_code == 0, result.stderr
    assert len(rows) == 8
    assert rows[4]["status"] == "too_long"
    assert rows[7] == {**rows[7], "id": "\ud800", "status": "ok", "output": "2"}
    assert all(row["status"] not in ("ok", "sandbox_error") for row in rows[:7])


def test_a_line_too_long_is_passed_over_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE", 1_000)
    monkeypatch.setattr(jsonl, "_CHUNK", 100)
    huge = json.dumps({**GOOD, "program": "#" * 10_000}).encode()
    result, rows = check(tmp_path, LINE + huge + b"\n" + LINE, "--on-error", "skip")
    assert result.exit_code == 0
    assert "line 2: longer than 1000 bytes" in result.stderr
    assert [row["status"] for row in rows] == ["ok", "ok"]
    result, rows = check(tmp_path, LINE + huge)
    assert result.exit_code == 2
    assert len(rows) == 1


def test_files_as_other_tools_write_them(tmp_path: Path) -> None:
    crlf = LINE.replace(b"\n", b"\r\n")
    for content in (
        codecs.BOM_UTF8 + LINE + LINE,
        crlf * 2,
        (LINE * 2)[:-1],
        gzip.compress(LINE * 2),
    ):
        result, rows = check(tmp_path, content)
        assert result.exit_code == 0, result.stderr
        assert [row["output"] for row in rows] == ["2", "2"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    result, rows = check(tmp_path, LINE.decode().encode(encoding))
    assert result.exit_code == 2
    assert "UTF-16" in result.stderr
    assert rows == []


def test_broken_gzip_keeps_what_was_before(tmp_path: Path) -> None:
    body = "".join(
        json.dumps({**GOOD, "id": n, "note": os.urandom(99).hex()}) + "\n" for n in range(9)
    )
    result, _ = check(tmp_path, gzip.compress(body.encode())[:-20])
    assert result.exit_code == 2
    assert "gzip" in result.stderr


def test_standard_input_and_output(tmp_path: Path) -> None:
    result = call("check", "-", "--out", "-", "--json", input=LINE + b"{\n")
    assert result.exit_code == 2
    assert "standard input, line 2: not JSON" in result.stderr
    result = call("check", "-", "--out", "-", "--json", input=LINE)
    assert json.loads(result.stdout)["output"] == "2"
    assert json.loads(result.stderr)["rows"] == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--workers", value) for value in (0, -1, 10**9, "two")),
        *(("--wall-s", value) for value in ("nan", "inf", -1, 0, 1e300, "")),
        *(("--cpu-s", value) for value in ("nan", "-inf", 0)),
        *(("--memory-mb", value) for value in (0, -5, 10**12, 1.5)),
        *(("--output-chars", value) for value in (0, 10**12)),
        *(("--runs", value) for value in (0, 1, 99)),
        ("--on-error", "ignore"),
    ],
)
def test_options_out_of_range(tmp_path: Path, option: str, value: object) -> None:
    result, rows = check(tmp_path, LINE, option, value)
    assert result.exit_code == 2
    assert option in result.stderr
    assert rows == []


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "2"])
def test_tolerance_out_of_range(tmp_path: Path, value: str) -> None:
    (tmp_path / "in").write_bytes(b"")
    result = call("grade", tmp_path / "in", "--out", tmp_path / "out", "--tolerance", value)
    assert result.exit_code == 2
    assert "--tolerance" in result.stderr


@pytest.mark.parametrize(
    ("rows", "out", "message"),
    [
        ("in", "none/out", "there is no folder"),
        ("in", "folder", "it is a folder"),
        ("in", "in", "is the input itself"),
        ("in", "link", "is the input itself"),
        ("x.part", "x", "is the input itself"),
        ("in", "out.gz", "leave .gz out"),
        ("in", "/sys/out", "/sys/out.part: "),
        ("in", "/dev/full", "/dev/full: No space left on device"),
        ("none", "out", "No such file"),
        ("folder", "out", "is a folder"),
    ],
)
@pytest.mark.parametrize("command", ["check", "metrics"])
def test_paths_that_cannot_be(
    tmp_path: Path, command: str, rows: str, out: str, message: str
) -> None:
    (tmp_path / "in").write_bytes(LINE)
    (tmp_path / "x.part").write_bytes(LINE)
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    result = call(command, tmp_path / rows, "--out", tmp_path / out)
    assert result.exit_code == (1 if "No space" in message else 2), result.output
    assert message in result.stderr
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "in").read_bytes() == LINE


def test_results_of_before_stay_when_nothing_was_finished(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"{\n")
    (tmp_path / "out").write_text("old\n")
    assert call("check", tmp_path / "in", "--out", tmp_path / "out").exit_code == 2
    assert (tmp_path / "out").read_text() == "old\n"


def test_two_runs_into_one_file(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(LINE)
    with (tmp_path / "out.part").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        result = call("check", tmp_path / "in", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "another run is writing" in result.stderr


def read_while(path: Path, change: Any) -> list[Row]:
    """The rows of a file that is changed after its first row was read."""
    found: list[Row] = []
    with open_rows(path) as source:
        for row in source.rows(lambda _: None):
            if not found:
                change()
            found.append(row)
    return found


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path, other = tmp_path / "in", tmp_path / "other"

    def replace() -> None:
        other.write_bytes(LINE * 9)
        other.replace(path)

    def grow() -> None:
        with path.open("ab") as file:
            file.write(LINE * 100_000)

    changes = {
        "went from": grow,
        "went from ": lambda: os.truncate(path, len(LINE)),
        "was written to": lambda: os.utime(path, (1, 1)),
        "was replaced": replace,
        "or removed": path.unlink,
    }
    for message, change in changes.items():
        path.write_bytes(LINE * 3)
        with pytest.raises(FileError, match=message):
            read_while(path, change)
    path.write_bytes(LINE * 3)
    assert len(read_while(path, lambda: None)) == 3


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(LINE * 5_000)
    command = [sys.executable, "-m", "code_verifier", "metrics", str(tmp_path / "in"), "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"id": "a"')
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_bad_runs_leave_nothing_open(tmp_path: Path) -> None:
    check(tmp_path, b"{\n")
    before = len(os.listdir("/proc/self/fd"))
    for content in (b"{\n", b"\xff\xfe", gzip.compress(LINE)[:-5]):
        check(tmp_path, content)
    assert len(os.listdir("/proc/self/fd")) <= before
