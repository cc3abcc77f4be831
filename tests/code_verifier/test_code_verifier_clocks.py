"""Clocks of the sandbox's own: good for measuring, useless for telling the time."""

import subprocess
import sys

import pytest

from code_verifier import Limits, Sandbox
from code_verifier.jail.nondeterminism import STARTS

BENIGN = [
    ("import time\ndef f():\n    a = time.time()\n    return time.time() >= a", "True"),
    (
        "import time\ndef f():\n    a = time.perf_counter()\n    sum(range(1000))\n"
        "    took = time.perf_counter() - a\n    return 0 <= took < 1",
        "True",
    ),
    (
        "import time\ndef f():\n    a = time.monotonic()\n    time.sleep(0.01)\n"
        "    return 0.01 <= time.monotonic() - a < 0.02",
        "True",
    ),
    (
        "import time\ndef f():\n    a = time.time()\n    for _ in range(5): time.sleep(0.1)\n"
        "    return 0.5 <= time.time() - a < 0.51",
        "True",
    ),
    (
        "import time\ndef f():\n    try:\n        time.sleep(-1)\n"
        "    except ValueError as e:\n        return str(e)",
        "'sleep length must be non-negative'",
    ),
    (
        "import time\ndef f():\n    return time.strftime('%Y-%m-%d', time.gmtime(86400))",
        "'1970-01-02'",
    ),
    (
        "import time\ndef f():\n    return time.asctime(time.gmtime(0))",
        "'Thu Jan  1 00:00:00 1970'",
    ),
    ("import time\ndef f():\n    return time.ctime(0)", "'Thu Jan  1 00:00:00 1970'"),
    ("import time\ndef f():\n    return tuple(time.localtime(3600))[:4]", "(1970, 1, 1, 1)"),
    ("import time\ndef f():\n    return time.mktime(time.gmtime(5))", "5.0"),
    (
        "import time\ndef f():\n    return time.strptime('2 Mar 2024', '%d %b %Y').tm_yday",
        "62",
    ),
    (
        "from datetime import datetime, timedelta\ndef f():\n"
        "    return str(datetime(2024, 2, 28) + timedelta(days=2))",
        "'2024-03-01 00:00:00'",
    ),
    (
        "from datetime import date as d\ndef f():\n    return (d(2024, 3, 1) - d(2024, 2, 1)).days",
        "29",
    ),
    (
        "import datetime\ndef f():\n    a = datetime.datetime.now()\n"
        "    return datetime.timedelta(0) <= datetime.datetime.now() - a",
        "True",
    ),
    (
        "import datetime\ndef f():\n"
        "    return datetime.datetime.fromtimestamp(0, datetime.timezone.utc).isoformat()",
        "'1970-01-01T00:00:00+00:00'",
    ),
    (
        "import timeit\ndef f():\n    a = timeit.default_timer()\n"
        "    return timeit.default_timer() - a > 0",
        "True",
    ),
    (
        "import time\ndef f():\n    end = time.monotonic() + 0.001\n    n = 0\n"
        "    while time.monotonic() < end: n += 1\n    return n > 10",
        "True",
    ),
    (
        "import time\ndef f():\n    calls = []\n    def timed(g):\n        def run(*a):\n"
        "            start = time.process_time()\n            out = g(*a)\n"
        "            calls.append(time.process_time() - start >= 0)\n            return out\n"
        "        return run\n    @timed\n    def g(x): return x * 2\n    return g(4), calls",
        "(8, [True])",
    ),
]


@pytest.mark.parametrize(("program", "output"), BENIGN)
def test_measuring_and_calendars_work(sandbox: Sandbox, program: str, output: str) -> None:
    verdict = sandbox.check(program, "")
    assert (verdict.status, verdict.output) == ("ok", output), verdict.reason


@pytest.mark.parametrize(
    "read",
    [
        "time.time()",
        "time.time_ns() % 2",
        "int(time.time()) % 7",
        "time.monotonic()",
        "time.perf_counter_ns()",
        "time.process_time()",
        "time.thread_time_ns()",
        "time.clock_gettime(0)",
        "time.clock_gettime(1)",
        "time.gmtime()[6]",
        "time.localtime()[3] < 12",
        "time.ctime()",
        "time.asctime()",
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
def test_what_hangs_on_the_time_is_refused(sandbox: Sandbox, read: str) -> None:
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


def test_clocks_of_two_executions_share_nothing() -> None:
    import time

    assert len(set(STARTS)) == len(STARTS) >= 8
    times = [time.gmtime(start) for start in STARTS]
    for field in ("tm_year", "tm_mon", "tm_mday", "tm_hour", "tm_min", "tm_sec", "tm_yday"):
        assert getattr(times[0], field) != getattr(times[1], field), field
    for parity in (
        [start % 2 for start in STARTS],
        [now.tm_hour < 12 for now in times],
        [now.tm_year % 2 for now in times],
        [now.tm_wday < 5 for now in times],
    ):
        assert len(set(parity)) == 2


def test_the_callers_clocks_stay_real() -> None:
    script = (
        "import time\nfrom code_verifier import Sandbox\nbefore = time.time()\n"
        "with Sandbox(workers=1) as s:\n    s.run('import time\\ndef f(): time.sleep(1)', '')\n"
        "print(0 < time.time() - before, time.time.__module__)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "time"], done.stderr
