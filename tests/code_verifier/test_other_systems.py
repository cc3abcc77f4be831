"""On Windows and macOS: what needs no sandbox works, and what needs one says so."""

from elsewhere import elsewhere, worked


def test_what_runs_no_program_works():
    program = r"""
from code_verifier import *
program = "def f(x):\n    return x + 1"
assert measure(program).loc == 2
assert code_blocks("```python\n1\n```")[0].text == "1"
assert (parse_literal("[1]"), canonical({1: 2}), cores()) == ([1], "{1: 2}", os.cpu_count())
assert grade(Task("code_o", "", output="[1, 2]"), "[1,2]").score == 1.0
"""
    assert worked(program) == ""


def test_commands_that_run_no_program_work(tmp_path):
    (tmp_path / "a.py").write_text("print(1)\n")
    program = """
from code_verifier.cli import main
main(["metrics", sys.argv[1], "--out", sys.argv[2]])
"""
    assert worked(program, tmp_path / "a.py", tmp_path / "out").startswith("1 program")
    assert (tmp_path / "out").read_bytes().count(b"\n") == 1


def test_commands_that_run_programs_are_refused_in_one_line(tmp_path):
    (tmp_path / "in").write_text('{"program": "def f(x): return x", "input": "1"}\n')
    program = "from code_verifier.cli import main\nmain(sys.argv[1:])"
    for words in (("check", tmp_path / "in", "--out", tmp_path / "out"), ("doctor",)):
        done = elsewhere(program, *words, platform="darwin")
        line = "error: the sandbox needs Linux, and this is darwin; run it in a Linux container"
        assert done.stderr.startswith(line)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert not (tmp_path / "out").exists()
