"""Run something in a forked process that is killed at its k-th change of a file or directory.

Opening a file for writing, making, renaming, truncating and removing are seen by the interpreter's
audit events, which tell of each just before it happens. Writing and syncing by file number have
none, so `os.write`, `os.pwrite` and `os.fsync` are replaced in the child; a write counts twice,
once when half of its bytes are in the file. What Python buffers arrives a whole block at a time.
"""

import os
import signal
import sys
import traceback
from pathlib import Path

_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def changes_until_death(act, directory: Path, k: int | None) -> tuple[int | None, int]:
    """Fork, `act(done)` in the child, and kill it just before its k-th change below `directory`.

    Returns the number of changes that it made, None when it was killed, and how often it called
    `done()`. Raises AssertionError if it failed.
    """
    read, write = os.pipe()
    calls, call = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            put = os.write
            made = _counted(directory, k)
            act(lambda: put(call, b"."))
            put(write, str(made()).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(write)
    os.close(call)
    with os.fdopen(read) as pipe, os.fdopen(calls) as done:
        made, finished = pipe.read(), len(done.read())
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None, finished
    if status:
        raise AssertionError(f"the process failed with status {status} before change {k}")
    return int(made), finished


def _counted(directory: Path, k: int | None):
    home, made = str(directory), 0
    write, pwrite, fsync = os.write, os.pwrite, os.fsync

    def change():
        nonlocal made
        made += 1
        if made == k:
            os.kill(os.getpid(), signal.SIGKILL)

    def write_in_two(handle, content):
        change()
        half = write(handle, content[: len(content) // 2])
        change()
        return half + write(handle, content[half:])

    def hook(event, arguments):
        if event in _CHANGES or (event == "open" and arguments[2] & _WRITING):
            path = arguments[0]
            if isinstance(path, int) or os.fsdecode(path).startswith(home):
                change()

    os.write = write_in_two
    os.pwrite = lambda *given: (change(), pwrite(*given))[1]
    os.fsync = lambda handle: (change(), fsync(handle))[1]
    sys.addaudithook(hook)
    return lambda: made
