"""What a signal does to a command line, and what a command line does to its caller's signals."""

import os
import signal
import threading
import time
from typing import Any

import click
from click.testing import CliRunner

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def stops_and_gives_back(group: type[click.Group]) -> None:
    """Check that TERM and HUP end a command of the group with one line and exit code 1, that the
    caller's handlers hold again afterwards, and that a thread may run it."""
    for number in SIGNALS:  # Ray's handlers, of another test, end the process
        signal.signal(number, signal.SIG_DFL)
    numbers: list[int] = []

    def work() -> None:
        for number in numbers:
            os.kill(os.getpid(), number)
            time.sleep(60.0)

    main = group(commands={"work": click.Command("work", callback=work)})
    before = [signal.getsignal(number) for number in SIGNALS]
    for number in SIGNALS:
        numbers[:] = [number]
        result = CliRunner().invoke(main, ["work"])
        assert result.exit_code == 1
        assert result.stderr.startswith("error: interrupted")
        assert [signal.getsignal(number) for number in SIGNALS] == before
    numbers.clear()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(CliRunner().invoke(main, ["work"])))
    thread.start()
    thread.join()
    assert not isinstance(results[0].exception, ValueError)
    assert results[0].exit_code == 0
