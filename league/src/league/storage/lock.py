"""One writer at a time, by `flock` on a file that is never deleted."""

import fcntl
import os
from pathlib import Path

from league.errors import LeagueLocked


class WriterLock:
    """Holds the lock of a league's directory until `release`, or until the process ends."""

    def __init__(self, path: Path) -> None:
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._handle, 32, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            self._handle = None
            raise LeagueLocked(
                f"{path.parent} is open for writing by process {holder or 'unknown'}; wait until "
                "it ends, or read with League(directory, read_only=True)"
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next writer in; harmless when called again."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = None
