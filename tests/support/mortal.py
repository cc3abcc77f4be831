"""Run something in a forked process that is killed at its k-th change of a directory.

What counts as a change: opening a file for writing, making, renaming and removing; the audit events
of the interpreter tell of each just before it happens, whichever library does it.
"""

import os
import signal
import sys
import traceback
from pathlib import Path

_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def changes_until_death(act, directory: Path, k: int | None) -> int | None:
    """Fork, `act()` in the child, and kill it just before its k-th change under `directory`.

    Returns None when it was killed, else the number of changes that it made; raises if it failed.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            count = _counted(directory, k)
            act()
            os.write(write, str(count()).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        made = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    if status:
        raise AssertionError(f"the process failed with status {status} before change {k}")
    return int(made)


def _counted(directory: Path, k: int | None):
    home, pid = str(directory), os.getpid()
    made = 0

    def hook(event, arguments):
        nonlocal made
        if os.getpid() != pid or not _changes(event, arguments):
            return
        path = arguments[0]
        if isinstance(path, bytes | str | os.PathLike) and os.fsdecode(path).startswith(home):
            made += 1
            if made == k:
                os.kill(pid, signal.SIGKILL)

    sys.addaudithook(hook)
    return lambda: made


def _changes(event, arguments) -> bool:
    return event in _CHANGES or (event == "open" and bool(arguments[2] & _WRITING))
