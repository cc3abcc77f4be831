"""Jobs that are interrupted, killed, resumed and watched."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from code_verifier.cli import main

COMMAND = [sys.executable, "-m", "code_verifier"]
SLOW = "def f(x):\n    for _ in range(1_000_000):\n        pass\n    return x"


def row(number: int, program: str = SLOW) -> str:
    return json.dumps({"id": number, "program": program, "input": str(number)}) + "\n"


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def call(*args: object) -> Result:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert "Traceback" not in result.output
    return result


def wait_for(true: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen within a minute")


def started(tmp_path: Path, rows: int = 400) -> tuple["subprocess.Popen[str]", Path]:
    """A `check` in a process group of its own, with its first rows written."""
    (tmp_path / "in").write_text("".join(map(row, range(rows))))
    part = tmp_path / "out.part"
    process = subprocess.Popen(
        [*COMMAND, "check", tmp_path / "in", "--out", tmp_path / "out", "--wall-s", "60"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: part.exists() and part.read_text().count("\n") > 3)
    return process, part


def check_prefix(rows: list[Any]) -> None:
    assert 3 < len(rows) < 400
    assert [(r["id"], r["status"], r["output"]) for r in rows] == [
        (number, "ok", str(number)) for number in range(len(rows))
    ]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 1), (signal.SIGHUP, 1)]
)
def test_an_interrupted_job_keeps_its_rows_and_resumes(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process, part = started(tmp_path)
    os.killpg(process.pid, number)  # as Ctrl-C does: the sandbox's processes get it too
    _, told = process.communicate(timeout=120)
    assert process.returncode == code
    assert told == "interrupted; finished results are kept\n"
    assert not part.exists()
    finished = lines(tmp_path / "out")
    check_prefix(finished)
    (tmp_path / "in").write_text("".join(map(row, range(len(finished) + 3))))
    result = call("check", tmp_path / "in", "--out", tmp_path / "out", "--resume", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == len(finished) + 3
    rows = lines(tmp_path / "out")
    assert rows[:-3] == finished
    assert [r["output"] for r in rows] == [str(n) for n in range(len(finished) + 3)]


def test_a_killed_job_leaves_its_rows_in_the_part(tmp_path: Path) -> None:
    process, part = started(tmp_path)
    process.kill()
    process.communicate(timeout=120)
    assert not (tmp_path / "out").exists()
    finished = lines(part)
    check_prefix(finished)
    with part.open("a") as file:
        file.write('{"id": 99, "stat')  # a row that was being written
    (tmp_path / "in").write_text("".join(map(row, range(len(finished) + 1))))
    result = call("check", tmp_path / "in", "--out", tmp_path / "out", "--resume")
    assert result.exit_code == 0, result.stderr
    assert lines(tmp_path / "out")[:-1] == finished
    assert not part.exists()
    part.write_text("{}\n")
    result = call("check", tmp_path / "in", "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "is dropped" in result.stderr
    assert len(lines(tmp_path / "out")) == len(finished) + 1


QUICK = "def f(x):\n    return x"


def test_resuming_does_not_run_finished_rows_again(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("".join(row(n, QUICK) for n in range(4)))
    (tmp_path / "out").write_text('{"id": 0, "status": "ok"}\n{"id": 1, "status": "mark"}\n')
    result = call("check", tmp_path / "in", "--out", tmp_path / "out", "--resume", "--json")
    assert result.exit_code == 0, result.stderr
    assert [r["status"] for r in lines(tmp_path / "out")] == ["ok", "mark", "ok", "ok"]
    assert json.loads(result.stdout) == {"rows": 4, "status": {"mark": 1, "ok": 3}}
    again = call("check", tmp_path / "in", "--out", tmp_path / "out", "--resume")
    assert again.exit_code == 0
    assert len(lines(tmp_path / "out")) == 4


def test_resuming_passes_skipped_rows_by(tmp_path: Path) -> None:
    """All rows have one id, so that only whether they are bad can tell them apart."""
    bad = {"id": 7, "kind": "code_o", "output": "not literal", "answer": "1"}
    good = {**bad, "output": "1"}
    rows = [bad, good, "{", bad, good, {"id": 7}, good, bad]
    text = "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows)
    (tmp_path / "in").write_text(text)
    options = ("--out", tmp_path / "out", "--on-error", "skip")
    assert call("grade", tmp_path / "in", *options).exit_code == 0
    whole = (tmp_path / "out").read_text()
    assert whole.count("\n") == 3
    for kept in range(4):
        (tmp_path / "out").write_text("".join(whole.splitlines(keepends=True)[:kept]))
        result = call("grade", tmp_path / "in", *options, "--resume")
        assert result.exit_code == 0, result.stderr
        assert len(result.stderr.splitlines()) == 5
        assert (tmp_path / "out").read_text() == whole


@pytest.mark.parametrize(
    ("finished", "message"),
    [
        ('{"id": 5, "status": "ok"}\n', "has the id 5, but the input has 0"),
        ('{"id": "0", "status": "ok"}\n', "has the id '0', but the input has 0"),
        ('{"id": 0}\n{"id": 1}\n{"id": 2}\n', "the input has nothing more"),
        ('{"id": 0}\n{"id"\n', "line 2: not JSON"),
        ('{"status": "ok"}\n', "line 1: not a row of results"),
    ],
)
def test_what_cannot_be_resumed_stays_as_it_is(tmp_path: Path, finished: str, message: str) -> None:
    (tmp_path / "in").write_text(row(0, QUICK) + row(1, QUICK))
    for name in ("out", "out.part"):
        (tmp_path / name).write_text(finished)
        result = call("check", tmp_path / "in", "--out", tmp_path / "out", "--resume")
        assert result.exit_code == 2
        assert message in result.stderr
        assert (tmp_path / name).read_text() == finished
        assert sorted(p.name for p in tmp_path.iterdir()) == ["in", name]
        (tmp_path / name).unlink()
    result = call("check", tmp_path / "in", "--out", "-", "--resume")
    assert result.exit_code == 2
    assert "leave --resume out" in result.stderr


def watched(*args: object) -> str:
    """What a command writes to a terminal as its standard error."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, args)], stderr=theirs, stdout=subprocess.PIPE, text=True
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:  # the terminal's other end is closed
        pass
    os.close(ours)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert output.startswith("30 rows")
    return seen.decode()


def test_progress_on_a_terminal_only(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("".join(map(row, range(29))) + row(29, "def f(x): return y"))
    job = ("check", tmp_path / "in", "--out", tmp_path / "out")
    seen = watched(*job)
    assert "check" in seen
    assert "30/30" in seen
    assert "/s, 96.7 % ok" in seen
    assert watched(*job, "--quiet") == ""
    bad = tmp_path / "bad"
    bad.write_text((tmp_path / "in").read_text() + "{\n")
    seen = watched("check", bad, "--out", tmp_path / "out", "--on-error", "skip")
    assert f"\033[K{bad}, line 31: not JSON" in seen
    assert "30/31" in seen
    assert call(*job).stderr == ""
