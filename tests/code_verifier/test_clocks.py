"""Clocks of the sandbox's own: good for measuring, useless for telling the time."""

from datetime import UTC, datetime

import pytest
from programs import python

from code_verifier import Limits, Sandbox
from code_verifier.jail.clocks import STARTS

DATES = [datetime.fromtimestamp(start, UTC) for start in STARTS]


def test_the_clocks_show_what_a_program_may_ask_for():
    assert {date.weekday() for date in DATES} == set(range(7))
    assert {date.month for date in DATES} == set(range(1, 13))
    for name in ("year", "day", "hour", "minute", "second"):
        assert len({getattr(date, name) for date in DATES}) == 16, name
    days = {(date.month, date.day) for date in DATES}
    assert {(1, 1), (2, 29), (12, 31)} <= days
    assert {0, 12} <= {date.hour for date in DATES}
    assert {1, 53} <= {date.isocalendar().week for date in DATES}
    assert any(date.day == 13 and date.weekday() == 4 for date in DATES)


@pytest.mark.parametrize(
    "read",
    [
        "datetime.datetime.now().microsecond % 2",
        "datetime.date.today().weekday() == 0",
        "datetime.date.today().day in (2, 8, 9)",
        "(datetime.date.today() + datetime.timedelta(days=1)).year == datetime.date.today().year",
        "datetime.datetime.now().hour == 12",
        "time.gmtime().tm_mon in (8, 9)",
        "time.gmtime().tm_yday > 365",
        "timeit.default_timer()",
    ],
)
def test_programs_that_depend_on_the_time_are_refused(sandbox, read):
    """Here on what few of the clocks show, Mondays only the last ones; the corpus has a program for
    each function."""
    verdict = sandbox.check(f"import time, datetime, timeit\ndef f():\n    return {read}", "")
    assert verdict.status == "nondeterministic", verdict


def test_sleeping_is_not_waited_for():
    program = "import time\ndef f(s):\n    a = time.time()\n    time.sleep(s)\n"
    program += "    return round(time.time() - a)"
    with Sandbox(workers=1, limits=Limits(wall_s=100_000.0)) as patient:
        assert patient.check(program, "86400").output == "86400"


@pytest.mark.parametrize(
    "program",
    [
        "import time\ndef f():\n    try:\n        time.sleep(60)\n    except BaseException: pass",
        "import time\ndef f():\n    end = time.time() + 60\n    while time.time() < end: pass",
        "import time\ndef f():\n    day = time.gmtime().tm_mday\n"
        "    while time.gmtime().tm_mday == day: pass",
    ],
    ids=["swallowed", "busy wait", "tomorrow"],
)
def test_waiting_past_the_limit_is_a_timeout(quick, program):
    verdict = quick.check(program, "")
    assert (verdict.status, verdict.output) == ("timeout", None), verdict


def test_the_callers_clocks_stay_real():
    script = (
        "import time\nfrom code_verifier import Sandbox\nbefore = time.time()\n"
        "with Sandbox(workers=1) as s:\n    s.run('import time\\ndef f(): time.sleep(1)', '')\n"
        "print(0 < time.time() - before, time.time.__module__)\n"
    )
    assert python("-c", script).split() == ["True", "time"]
