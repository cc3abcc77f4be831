"""Run something in a forked process that is killed at its k-th change of a folder.

A change is a file opened for writing, a write to it, an fsync, a folder made, a rename, a change of
permissions or length, and a removal. The process dies just before the change, of a write in its
middle: half of the bytes are in the file then.
"""

import io
import os
import signal
import sys
import traceback
from pathlib import Path

_EVENTS = {
    "os.rename": 2,
    "os.remove": 1,
    "os.rmdir": 1,
    "os.mkdir": 2,
    "os.chmod": 2,
    "os.truncate": None,
}
"""Audit events of changes, each with the place of a `dir_fd` among its arguments, if it has one."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def changes_until_death(act, folder: Path, k: int | None) -> int | None:
    """Fork, `act()` in the child, and kill it at its k-th change under `folder`.

    Returns None when it was killed, else the number of changes that it made; raises if it failed.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            count = _counted(folder, k)
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


def _counted(folder: Path, k: int | None):
    """Count changes from here on, in a process that does nothing else."""
    made = 0

    def change(path: str, last_words=lambda: None) -> None:
        nonlocal made
        if path.startswith(str(folder)):
            made += 1
            if made == k:
                last_words()
                os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple) -> None:
        if event in _EVENTS:
            path, place = arguments[0], _EVENTS[event]
            parent = -1 if place is None else arguments[place]
            if isinstance(path, str | bytes | os.PathLike):
                change(os.path.join(_opened(parent) if parent >= 0 else "", os.fsdecode(path)))
        elif event == "open" and arguments[2] & _WRITING and isinstance(arguments[0], str | bytes):
            change(os.fsdecode(arguments[0]))

    class Raw(io.FileIO):
        def write(self, data):
            change(_opened(self.fileno()), lambda: super(Raw, self).write(data[: len(data) // 2]))
            return super().write(data)

    plainly, synced, put = io.open, os.fsync, os.write

    def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, **more):
        if not set(mode) & set("wax+"):
            return plainly(file, mode, buffering, encoding, errors, newline, **more)
        binary = io.BufferedWriter(Raw(file, mode.replace("b", "").replace("t", "")))
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding, errors, newline)

    def sync(handle) -> None:
        change(_opened(handle))
        synced(handle)

    def write(handle, data):
        change(_opened(handle), lambda: put(handle, data[: len(data) // 2]))
        return put(handle, data)

    io.open, os.fsync, os.write = opened, sync, write
    sys.addaudithook(hook)
    return lambda: made


def _opened(handle: int) -> str:
    return os.readlink(f"/proc/self/fd/{handle}")
