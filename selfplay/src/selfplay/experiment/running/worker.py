"""One run of an experiment as a process: `python -m ...running.worker HOME FOLDER NICE`.

It watches its standard input, a pipe that its parent holds open and never writes to: when the
parent ends, however it ends, the pipe closes and the run stops at once, with its checkpoints kept.
"""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from selfplay.console import one_line_errors, silence_transformers
from selfplay.errors import RunDirectoryError
from selfplay.experiment.design.plan_file import open_plan
from selfplay.experiment.design.runs import planned_runs, prepare
from selfplay.run.directory import lock
from selfplay.step.loop import resume, train
from selfplay.step.progress import Progress

GRACE_S = 20.0
"""Seconds that a run has to stop in order before it is ended."""


def main(home: Path, folder: str, nice: int) -> None:
    """Start the planned run of that folder, or go on with it."""
    threading.Thread(target=_watch_parent, daemon=True).start()
    _be_nice(nice)
    plan = open_plan(str(home / "plan.yaml"))
    run = next(r for r in planned_runs(plan) if str(r.folder) == folder)
    directory = home / run.folder
    _wait_until_free(directory)
    if prepare(run, home):
        resume(directory, Progress(quiet=True))
    else:
        train(run.config, directory, Progress(quiet=True))


def _be_nice(nice: int) -> None:
    os.nice(nice)
    # Linux may weigh whole sessions against each other; then the session's own niceness counts.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice))


def _watch_parent() -> None:
    # Not sys.stdin: its lock would be held while the interpreter ends.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE_S)
    os._exit(1)


def _wait_until_free(directory: Path) -> None:
    """Wait for a process of an earlier parent, which needs a moment to notice that it is alone."""
    until = time.monotonic() + GRACE_S
    while (directory / "run.lock").exists():
        try:
            lock(directory).close()
            return
        except RunDirectoryError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with one_line_errors():
        silence_transformers()
        main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
