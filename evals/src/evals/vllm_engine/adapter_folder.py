"""The folder that vLLM reads adapters from: in memory where that can be, and never left behind."""

import fcntl
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from evals.errors import EngineStopped
from lora_evo import Adapter, save_adapter

_PREFIX = "populab-adapters-"
_LOCK = "lock"


def memory_first() -> tuple[Path, ...]:
    """Where adapters are written: memory, then the temporary folder."""
    return Path("/dev/shm"), Path(tempfile.gettempdir())


def say(line: str) -> None:
    """Tell the user on the error stream."""
    print(line, file=sys.stderr, flush=True)


class AdapterFolder:
    """Adapters as PEFT folders, one for every version; other processes have theirs beside it.

    places: where to write, the first that works. A process that was killed leaves its folder; the
    next one that comes by removes it. note: called with a line when a place cannot be used.
    """

    def __init__(
        self, places: Sequence[Path] | None = None, note: Callable[[str], None] = say
    ) -> None:
        self._places = list(memory_first() if places is None else places)
        self._note = note
        self._homes: list[tuple[Path, IO[str]]] = []
        self._in_use = False
        """Whether the last home is where new versions go."""

    def write(self, label: str, adapter: Adapter) -> Path:
        """Save an adapter in a folder of its own and return it.

        When a place is full, this and all later versions go to the next; the others stay where they
        are. Raises EngineStopped when there is no next.
        """
        while True:
            folder = None
            try:
                folder = self._home() / label
                save_adapter(adapter, folder)
            except OSError as error:
                if folder is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                self._next_place(error)
            else:
                return folder

    def remove(self, folder: Path) -> None:
        """Delete a version that nobody reads any more."""
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Delete everything."""
        for home, lock in self._homes:
            shutil.rmtree(home, ignore_errors=True)
            lock.close()
        self._homes, self._in_use = [], False

    def _home(self) -> Path:
        if not self._in_use:
            place = self._places[0]
            sweep_dead(place)
            home = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
            lock = (home / _LOCK).open("w")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._homes.append((home, lock))
            self._in_use = True
        return self._homes[-1][0]

    def _next_place(self, error: OSError) -> None:
        place, why = self._places[0], error.strerror or str(error)
        if len(self._places) == 1:
            raise EngineStopped(
                f"cannot write an adapter for vLLM to {place}: {why}; make room there, or name "
                "another folder with TMPDIR"
            ) from error
        self._places.pop(0)
        self._in_use = False
        self._note(f"adapters for vLLM go to {self._places[0]}: {place} cannot be used ({why})")


def sweep_dead(place: Path) -> None:
    """Remove the folders of processes that are gone: nobody holds their lock."""
    for home in place.glob(f"{_PREFIX}*"):
        with suppress(OSError), (home / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(home, ignore_errors=True)
