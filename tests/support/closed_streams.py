"""A command whose standard streams are closed by whoever starts it."""

import subprocess
import sys


def run_without(streams: str, module: str, *words: object):
    """Run a package's command after a shell has closed some streams, such as `<&- 2>&-`."""
    command = [sys.executable, "-m", module, *map(str, words)]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def same_without_streams(module: str, *words: object, code: int = 0) -> None:
    """Check that a command ends with this code, whichever stream is closed; one that fails, without
    the stream that its error is for, and without all."""
    for streams in (*(("<&-", ">&-") if code == 0 else ()), "2>&-", "<&- >&- 2>&-"):
        done = run_without(streams, module, *words)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (streams, done)
