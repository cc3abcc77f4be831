"""Programs that do not solve the problem and try to pass: forgeries, patches, odd objects."""

import tomllib
from pathlib import Path

import pytest
from evalplus_problems import HALF, SECRET, problem, row

from evals.code import evalplus_grader as grading
from evals.code.evalplus_grader import FunctionGrader
from evals.recipes import Limits

TASK = problem(SECRET)
_DATA = tomllib.loads((Path(__file__).parent / "data" / "cheats.toml").read_text())


def programs(part):
    room, line = _DATA["room"], _DATA["line"]
    return {n: text.replace("ROOM", room).replace("LINE", line) for n, text in _DATA[part].items()}


CHEATS = programs("programs")
for name, text in programs("patches").items():
    CHEATS[f"patched {name}"] = f"{text}\ndef secret(x): return [0, '']"
for name, text in programs("results").items():
    CHEATS[f"returns {name}"] = f"def secret(x): return {text}"
SPREAD = programs("spread")
HALVES = row("HumanEval/1006", "halves", "(x):\n    return [x / 2]\n",
             base_input=[[1], [3]], plus_input=[[5]])  # fmt: skip


@pytest.fixture(scope="module", params=[1 << 22, pytest.param(1 << 28, marks=pytest.mark.slow)])
def grader(request, tmp_path_factory):
    """Reports have little room, which some programs fill; in the slow suite as much as ever."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(grading._CALLS, "output_bytes", request.param)
        yield from opened_grader(tmp_path_factory.mktemp("expected"))


def opened_grader(cache):
    with FunctionGrader(cache=cache, limits=Limits(min_time_s=0.1)) as opened:
        assert statuses(opened, TASK.reference) == ["pass", "pass"]
        yield opened
        assert statuses(opened, TASK.reference) == ["pass", "pass"]


def statuses(grader, program, task=TASK):
    return [outcome.status for outcome in grader.grade(task, program)]


@pytest.mark.parametrize("name", CHEATS)
def test_no_cheat_passes(grader, name):
    assert set(statuses(grader, CHEATS[name])) <= {"fail", "timeout"}


@pytest.mark.parametrize("name", SPREAD)
def test_nothing_is_close_to_a_float_but_a_float(grader, name):
    for source in (HALF, HALVES):
        assert set(statuses(grader, SPREAD[name], problem(source))) <= {"fail", "timeout"}
