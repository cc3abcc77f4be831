"""The command, on good files and bad ones: one clear line, exit codes, finished results kept."""

import codecs
import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner
from closed_streams import run_without, same_without_streams
from full_disk import on_full_disk
from json_lines import read_rows
from meanwhile import executing_fails
from programs import python
from stopping import stops_and_gives_back

from code_verifier import Limits, cores, parallel
from code_verifier.cli import _Commands, main
from code_verifier.metrics import MEANINGS
from code_verifier.user_files import MAX_LINE, open_results

GOOD = {"id": "a", "program": "def f(x):\n    return x + 1", "input": "1"}
AZR = {"snippet": "def f(x):\n    return math.floor(x)", "input": "1.5", "imports": ["import math"]}
MANY = {"snippet": "def f(x):\n    return x", "inputs": ["1", "'a'"], "imports": []}
LINE = json.dumps(GOOD).encode() + b"\n"


def call(*args, input=None):
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=input)
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def write(path, *rows):
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return path


def read(tmp_path, content, *words):
    """A command on a file with this content: the result, and the rows written."""
    (tmp_path / "in").write_bytes(content)
    out = tmp_path / "out"
    out.unlink(missing_ok=True)
    result = call(*words, tmp_path / "in", "--out", out)
    assert {path.name for path in tmp_path.iterdir()} <= {"in", "out"}
    return result, read_rows(out) if out.exists() else []


def test_check_keeps_the_order_and_reads_azr_rows(tmp_path):
    rows = write(tmp_path / "in", GOOD, "", AZR, MANY, {**GOOD, "program": "f("})
    result = call("check", rows, "--out", tmp_path / "out", "--workers", 2, "--json")
    assert result.exit_code == 0, result.output
    found = read_rows(tmp_path / "out")
    assert [row["status"] for row in found] == ["ok", "ok", "ok", "syntax_error"]
    assert [row["output"] for row in found] == ["2", "1", "[1, 'a']", None]
    assert [row["id"] for row in found] == ["a", 3, 4, "a"]
    assert list(found[0]) == ["id", "status", "output", "reason", "wall_ms", "runs"]
    assert json.loads(result.stdout) == {"rows": 4, "status": {"ok": 3, "syntax_error": 1}}


def test_grade(tmp_path):
    square = "def f(x):\n    return x * x"
    rows = write(
        tmp_path / "in",
        {"id": 1, "kind": "code_o", "output": "4", "answer": "4"},
        {"id": 2, "kind": "code_i", "program": square, "output": "4", "answer": "-2"},
        {"id": 3, "kind": "code_f", "inputs": ["1", "3"], "outputs": ["1", "9"], "answer": square},
        {"id": 4, "kind": "code_o", "output": "4", "answer": "4.0"},
    )
    command = ("grade", rows, "--out", tmp_path / "out", "--workers", 1)
    result = call(*command)
    assert result.exit_code == 0, result.output
    found = read_rows(tmp_path / "out")
    assert [row["score"] for row in found] == [1.0, 1.0, 1.0, 0.0]
    assert (found[2]["passed"], found[2]["total"]) == (2, 2)
    call(*command, "--python-equality")
    assert read_rows(tmp_path / "out")[3]["score"] == 1.0


def test_metrics(tmp_path):
    twin = {"program": "def f(y):\n    return y + 2"}
    rows = write(tmp_path / "in", GOOD, twin, AZR, {"id": 9, "program": "def f("})
    result = call("metrics", rows, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    first, second, azr, broken = read_rows(tmp_path / "out")
    assert set(first) == {"id", "structure", *MEANINGS}
    assert (first["id"], second["id"], azr["id"]) == ("a", 2, 3)
    assert (azr["imports"], azr["loc"]) == (1, 3)
    assert set(broken) == {"id", "error"}
    assert json.loads(result.stdout)["metrics"]["loc"]["p50"] == 2.0
    assert "ast_depth" in call("metrics", rows, "--out", tmp_path / "out").stdout


def test_empty_files(tmp_path):
    rows = write(tmp_path / "in")
    for command in (["check"], ["grade"], ["metrics", "--html", tmp_path / "page"]):
        result = call(*command, rows, "--out", tmp_path / "out")
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith(f"error: {rows} holds no rows; expected one JSON object")
        assert [path.name for path in tmp_path.iterdir()] == ["in"]


BAD_LINES = {
    b'{"program": "def f(): pass", "inp': "not JSON",
    b'[{"program": "x", "input": ""}]': "found list",
    b'{"input": "1"}': "'program' or 'snippet' is missing; found 'input'",
    b'{"program": 7, "input": "1"}': "'program' is of type int",
    b'{"program": "x", "inputs": []}': "'inputs' is empty",
    b'{"program": "x", "input": "1", "id": NaN}': "'id' is nan",
    b'{"program": "x", "input": "1", "input": "2"}': "'input' appears twice",
    b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}": "nested too deep",
    b'{"id": ' + b"9" * 5_000 + b"}": "not usable JSON",
    b'{"program": "x\xff", "input": "1"}': "not UTF-8 (byte 15 is 0xff)",
    b'{"program": "' + b"#" * MAX_LINE + b'"}': f"longer than {MAX_LINE} bytes",
}


@pytest.mark.parametrize("bad", BAD_LINES, ids=list(BAD_LINES.values()))
def test_a_bad_line_in_the_middle_ends_the_work(tmp_path, bad):
    words = ("check", "--workers", 1) if b'"inputs"' in bad else ("metrics",)
    stopped, rows = read(tmp_path, LINE + b"\r\n" + bad + b"\n" + LINE, *words)
    assert stopped.exit_code == 2
    assert f"error: {tmp_path / 'in'}, line 3: " in stopped.stderr
    assert BAD_LINES[bad] in stopped.stderr
    assert len(stopped.stderr.splitlines()) == 1
    assert [row["id"] for row in rows] == ["a"]


def test_grade_counts_what_it_could_not_grade_and_stops_at_a_bad_row(tmp_path, monkeypatch):
    executing_fails(monkeypatch, b"seven")
    task = {"kind": "code_f", "inputs": ["1"], "outputs": ["1"]}
    answers = ("def f(x, seven=7):\n    return x", "def f(x):\n    return x", "def f(")
    rows = write(tmp_path / "in", *({**task, "answer": answer} for answer in answers))
    result = call("grade", rows, "--out", tmp_path / "out", "--workers", 1, "--json")
    assert result.exit_code == 1, result.output
    found = [(row["status"], row["score"]) for row in read_rows(tmp_path / "out")]
    assert found == [("sandbox_error", None), ("ok", 1.0), ("syntax_error", 0.0)]
    assert json.loads(result.stdout) == {"rows": 3, "score": {"0.0": 1, "1.0": 1}, "ungraded": 1}
    assert "1 of 3 rows could not be graded" in result.stderr
    write(rows, {**task, "answer": "def f("}, {**task, "inputs": [], "answer": "def f("})
    result = call("grade", rows, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "line 2: a task has 0 inputs and 1 outputs" in result.stderr
    assert [row["score"] for row in read_rows(tmp_path / "out")] == [0.0]


def test_texts_no_program_can_hold_are_verdicts(tmp_path):
    long = "#" + "x" * Limits().program_chars
    programs = ["def f(x): return '\ud800'", "\ud800", "def f(x):\x00 return 1", "", long]
    rows = [{"program": text, "input": "1"} for text in programs]
    rows += [{**GOOD, "input": "'\ud800'"}, {**GOOD, "input": "1\x00"}, {**GOOD, "id": "\ud800"}]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    result, found = read(tmp_path, content.encode(), "check")
    assert result.exit_code == 0, result.stderr
    assert found[4]["status"] == "too_long"
    assert found[7] == {**found[7], "id": "\ud800", "status": "ok", "output": "2"}
    assert all(row["status"] not in ("ok", "sandbox_error") for row in found[:7])
    result = call("metrics", tmp_path / "in", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr


def test_files_as_other_tools_write_them(tmp_path):
    for content in (
        codecs.BOM_UTF8 + LINE + LINE,
        LINE.replace(b"\n", b"\r\n") * 2,
        (LINE * 2)[:-1],
        gzip.compress(LINE * 2),
    ):
        result, rows = read(tmp_path, content, "metrics")
        assert result.exit_code == 0, result.stderr
        assert [row["loc"] for row in rows] == [2, 2]
    result, _ = read(tmp_path, gzip.compress(os.urandom(999).hex().encode())[:-20], "metrics")
    assert result.exit_code == 2
    assert "broken gzip" in result.stderr


def test_standard_input_and_output():
    result = call("check", "-", "--out", "-", "--json", input=LINE + b"{\n")
    assert result.exit_code == 2
    assert "standard input, line 2: not JSON" in result.stderr
    result = call("check", "-", "--out", "-", "--json", input=LINE)
    assert json.loads(result.stdout)["output"] == "2"
    assert json.loads(result.stderr)["rows"] == 1


@pytest.mark.parametrize("option", ["--workers=0", "--wall-s=nan", "--memory-mb=0", "--runs=1"])
def test_options_out_of_range(tmp_path, option):
    result, rows = read(tmp_path, LINE, "check", option)
    assert (result.exit_code, rows) == (2, [])
    assert "rror: " in result.stderr


@pytest.mark.parametrize(
    ("rows", "out", "message"),
    [
        ("in", "none/out", "there is no folder"),
        ("in", "link", "is the input itself"),
        ("in", "/sys/out", "/sys/out."),
        ("in", "/dev/full", "/dev/full: No space left on device; free some space on this disk"),
        ("none", "out", "No such file"),
    ],
)
def test_paths_that_cannot_be(tmp_path, rows, out, message):
    (tmp_path / "in").write_bytes(LINE)
    (tmp_path / "link").symlink_to("in")

    before = sorted(tmp_path.iterdir())
    result = call("metrics", tmp_path / rows, "--out", tmp_path / out)
    assert result.exit_code == (1 if "No space" in message else 2), result.output
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "in").read_bytes() == LINE


def test_two_commands_may_write_one_file(tmp_path):
    """Each writes a draft of its own: the one that ends last has its name."""
    (tmp_path / "in").write_bytes(LINE)
    with open_results(tmp_path / "out", []) as write:
        write({"id": "slow"})
        python("-m", "code_verifier", "metrics", tmp_path / "in", "--out", tmp_path / "out")
        assert '"id": "a"' in (tmp_path / "out").read_text()
    assert (tmp_path / "out").read_text() == '{"id": "slow"}\n'
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


@pytest.mark.parametrize("words", [("check",), ("chekc",), ("grade", "x", "--ot"), ("--no",)])
def test_wrong_usage_is_one_line_that_names_the_help(words):
    result = call(*words)
    (line,) = result.stderr.splitlines()
    assert (result.exit_code, line.startswith("error: ")) == (2, True)
    assert line.endswith(" --help")


def test_results_of_before_stay_when_nothing_was_finished(tmp_path):
    (tmp_path / "in").write_bytes(b"{\n")
    (tmp_path / "out").write_text("old\n")
    assert call("check", tmp_path / "in", "--out", tmp_path / "out").exit_code == 2
    assert (tmp_path / "out").read_text() == "old\n"


def test_a_reader_that_goes_away(tmp_path):
    (tmp_path / "in").write_bytes(LINE * 5_000)
    command = [sys.executable, "-m", "code_verifier", "metrics", str(tmp_path / "in"), "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b'{"id": "a"')
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 1), (signal.SIGKILL, -9)]
)
def test_a_stopped_job_keeps_its_rows(tmp_path, number, code):
    endless = "def f(x):\n    while x > 199: pass\n    return x"
    rows = ({"id": n, "program": endless, "input": str(n)} for n in range(400))
    write(tmp_path / "in", *rows)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "code_verifier", "check", tmp_path / "in", "--out", out]
    process = subprocess.Popen(
        [*command, "--wall-s", "3600"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    part = tmp_path / f"out.{process.pid}.part"
    while process.poll() is None and not (part.exists() and part.read_text().count("\n") > 3):
        time.sleep(0.01)
    if number == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, number)  # as Ctrl-C does: the sandbox's processes get it too
    _, stderr = process.communicate()
    assert process.returncode == code
    killed = number == signal.SIGKILL
    assert stderr == ("" if killed else "error: interrupted; finished results are kept\n")
    assert out.exists() != killed
    found = read_rows(part if killed else out)
    assert 3 < len(found) < 400
    assert [(row["id"], row["output"]) for row in found] == [(n, str(n)) for n in range(len(found))]


def test_a_full_disk_keeps_the_finished_rows_and_no_part_of_one(tmp_path):
    program = r"""
import json
from code_verifier.cli import main

sys.argv[1:] = ["metrics", str(home.parent / "rows"), "--out", str(home / "out")]
try:
    main()
except SystemExit as end:
    assert end.code == 1
found = [json.loads(line) for line in (home / "out").read_text().splitlines()]
assert [row["id"] for row in found] == list(range(1, len(found) + 1))
assert 10 < len(found) < 300
assert sorted(path.name for path in home.iterdir()) == ["ballast", "out"]
"""
    write(tmp_path / "rows", *[{"program": GOOD["program"]}] * 300)
    on_full_disk(tmp_path / "disk", 16, program)


def test_signals_stop_a_command_and_are_given_back():
    stops_and_gives_back(_Commands)


def test_rows_that_no_answer_can_solve_are_named(tmp_path):
    good = {"id": "good", "test_list": ["assert f(1) == 2"], "code": "def f(x): return x + 1"}
    bad = good | {"id": "bad", "code": "def f(x): return x"}
    zeros = bad | {"id": 0}, bad | {"id": None, "task_id": 0}  # and not 5 and 6, as lines
    empty = {"id": "empty"}, {"test_list": ["assert f(1)"]}
    rows = write(tmp_path / "in", good, bad, *empty, *zeros)
    result = call("check-rows", rows)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "bad: not solved: test 1: not true: 'assert f(1) == 2'"
    assert lines[1].startswith("empty: unreadable: no tests")
    assert [line.partition(":")[0] for line in lines[2:5]] == ["0", "0", "6 rows"]
    result = call("check-rows", write(rows, good), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stderr) == {"rows": 1, "status": {"solved": 1}}


CODE_I = {"kind": "code_i", "program": GOOD["program"], "output": "2", "input": "1", "answer": "1"}
TESTS = {"test_list": ["assert f(1) == 2"], "code": GOOD["program"]}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (GOOD, ("check", "--out", "out")),
        (CODE_I, ("grade", "--out", "out")),
        (CODE_I, ("check-rows",)),
        (TESTS, ("check-rows",)),
        (None, ("serve", "--port", 0)),
    ],
)
def test_a_sandbox_that_fails_on_every_program_ends_the_command_before_its_work(
    row, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    executing_fails(monkeypatch)
    rows = [write(tmp_path / "in", row, row)] if row else []
    result = call(*words, *rows)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: a test ")
    assert result.stderr.endswith("fork server was lost: it ended; type `code-verifier doctor`\n")
    assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in"][: len(rows)]


@pytest.mark.parametrize("lost", [5, 6])
def test_rows_that_are_not_judged_stand_apart(lost, tmp_path, monkeypatch):
    executing_fails(monkeypatch, b"seven")
    programs = ["def f(x, seven=7):\n    return x + 1"] * lost + [GOOD["program"]] * (10 - lost)
    rows = write(tmp_path / "in", *(CODE_I | {"program": program} for program in programs))
    out, one = ("--out", tmp_path / "out"), ("--workers", 1)
    commands = (("check", *out, *one), "checked", "ok"), (("grade", *out, *one), "graded", "1.0")
    for words, done, name in (*commands, (("check-rows", *one), "checked", "solved")):
        result = call(*words, rows)
        assert result.exit_code == 1
        assert f"10 rows, {lost} not judged\n  {name}  {10 - lost}  100.0 %\n" in result.stdout
        start = f"error: {lost} of 10 rows could not be {done}: the sandbox failed ("
        assert result.stderr.startswith(start)
        assert "fork server was lost: it ended)" in result.stderr
        assert result.stderr.count("\n") == 1
        assert ("these are no results" in result.stderr) == (lost == 6)


def test_closed_streams_change_neither_the_work_nor_the_exit_code(tmp_path):
    rows, out = write(tmp_path / "in", GOOD), tmp_path / "out"
    same_without_streams("code_verifier", "metrics", rows, "--out", out)
    assert [row["id"] for row in read_rows(out)] == ["a"]
    same_without_streams("code_verifier", "check", tmp_path / "none", "--out", out, code=2)


def test_rows_that_a_closed_stream_should_carry_are_refused_in_one_line(tmp_path):
    rows, out = write(tmp_path / "in", GOOD), tmp_path / "out"
    done = run_without("<&-", "code_verifier", "check", "-", "--out", out)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "standard input holds no rows" in done.stderr
    done = run_without(">&-", "code_verifier", "check", rows, "--out", "-")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "standard output is closed; name a file" in done.stderr


def test_a_link_is_followed_and_stays(tmp_path):
    rows, real, link = write(tmp_path / "in", GOOD), tmp_path / "real", tmp_path / "deep" / "link"
    real.write_text("old")
    link.parent.mkdir()
    link.symlink_to("../real")
    for _ in range(2):
        assert call("metrics", rows, "--out", link).exit_code == 0
        assert link.is_symlink()
        assert read_rows(real)[0]["id"] == "a"
        real.unlink()  # the next one has no target yet


@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_name_of_255_bytes_can_be_written(tmp_path, letter):
    rows = write(tmp_path / "in", GOOD)
    name = letter * (255 // len(letter.encode()))
    result = call("metrics", rows, "--out", tmp_path / name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert sorted(os.listdir(tmp_path)) == sorted(["in", name])


def test_a_file_that_cannot_be_read_is_named():
    result = call("metrics", "/proc/self/mem", "--out", "-")
    assert (result.exit_code, result.stderr) == (1, "error: /proc/self/mem: Input/output error\n")


def test_one_core_is_one_worker():
    program = "import os\nos.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])\n"
    program += "from code_verifier.sandbox import shared_sandbox\nprint(shared_sandbox().workers)"
    assert python("-c", program) == "1\n"


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        (
            "3:cpuset:/\n2:cpu,cpuacct:/a\n0::/\n",
            {"cpu/a/cpu.cfs_quota_us": "300000", "cpu/a/cpu.cfs_period_us": "100000"},
            3,
        ),
        ("2:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        (None, {}, 64),
    ],
)
def test_a_container_has_the_cores_of_its_share(tmp_path, monkeypatch, membership, files, expected):
    monkeypatch.setattr(parallel, "_MEMBERSHIP", tmp_path / "cgroup")
    monkeypatch.setattr(parallel, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    if membership is not None:
        (tmp_path / "cgroup").write_text(membership)
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text + "\n")
    assert cores() == expected
