"""Clocks of the sandbox's own: good for measuring, useless for telling the time."""

import pytest
from programs import python

from code_verifier import Limits, Sandbox


@pytest.mark.parametrize(
    "read",
    [
        "time.time_ns() % 2",
        "int(time.time()) % 7",
        "time.gmtime()[6]",
        "time.localtime()[3] < 12",
        "time.strftime('%p')",
        "time.strftime('%j')",
        "datetime.date.today().weekday()",
        "datetime.datetime.now().hour < 12",
        "datetime.datetime.utcnow().year % 2",
        "datetime.datetime.now().microsecond % 2",
        "datetime.datetime.now(datetime.timezone.utc).month",
        "datetime.datetime.today().day > 15",
        "timeit.default_timer()",
    ],
)
def test_programs_that_depend_on_the_time_are_refused(sandbox: Sandbox, read: str) -> None:
    verdict = sandbox.check(f"import time, datetime, timeit\ndef f():\n    return {read}", "")
    assert verdict.status == "nondeterministic", verdict


def test_sleeping_is_not_waited_for() -> None:
    program = "import time\ndef f(s):\n    a = time.time()\n    time.sleep(s)\n"
    program += "    return round(time.time() - a)"
    with Sandbox(workers=1, limits=Limits(wall_s=100_000.0)) as patient:
        assert patient.check(program, "86400").output == "86400"


@pytest.mark.parametrize(
    "program",
    [
        "import time\ndef f():\n    time.sleep(3600)",
        "import time\ndef f():\n    for _ in range(10**6): time.sleep(0.1)",
        "import time\ndef f():\n    try:\n        time.sleep(60)\n    except BaseException: pass",
        "import time\ndef f():\n    while True: time.sleep(0)",
        "import time\ndef f():\n    end = time.time() + 60\n    while time.time() < end: pass",
        "import time\ndef f():\n    day = time.gmtime().tm_mday\n"
        "    while time.gmtime().tm_mday == day: pass",
        "import datetime\ndef f():\n    now = datetime.datetime.now\n    end = now()\n"
        "    end += datetime.timedelta(minutes=1)\n    while now() < end: pass",
    ],
    ids=["sleep", "naps", "swallowed", "no sleep", "busy wait", "tomorrow", "datetime"],
)
def test_waiting_past_the_limit_is_a_timeout(quick: Sandbox, program: str) -> None:
    verdict = quick.check(program, "")
    assert (verdict.status, verdict.output) == ("timeout", None), verdict


def test_the_callers_clocks_stay_real() -> None:
    script = (
        "import time\nfrom code_verifier import Sandbox\nbefore = time.time()\n"
        "with Sandbox(workers=1) as s:\n    s.run('import time\\ndef f(): time.sleep(1)', '')\n"
        "print(0 < time.time() - before, time.time.__module__)\n"
    )
    assert python("-c", script).split() == ["True", "time"]
