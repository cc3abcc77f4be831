"""Adapters as vLLM takes them: checked first, and written into a folder that is never left behind.

vLLM takes an adapter of a wrong shape without an error and answers wrongly, and one that is not
finite poisons the rows of other adapters through reused blocks of the cache.
"""

import fcntl
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import torch

from lora_evo import Adapter, AdapterConfig, Slot, save_adapter
from lora_evo.errors import EngineStopped, LoraEvoError
from lora_evo.model.exchange import Shapes, check_shapes

_PREFIX = "populab-adapters-"
_LOCK = "lock"
_UNSERVED = ("lm_head", "embed_tokens")


def check_adapter(name: str, adapter: Adapter, shapes: Shapes, max_rank: int) -> None:
    """Raise LoraEvoError for an adapter that vLLM cannot serve truly.

    That its values are finite is checked where it is written.
    """
    for path, slot in adapter.slots.items():
        if path.rpartition(".")[2] in _UNSERVED:
            raise LoraEvoError(
                f"adapter {name!r} changes {path}, which vLLM does not serve; use --engine hf, or "
                "train without it in target_modules"
            )
        if len(slot.A) > max_rank:
            raise LoraEvoError(
                f"adapter {name!r} has rank {len(slot.A)} in {path}, the engine was opened for "
                f"{max_rank} at most"
            )
    check_shapes(f"adapter {name!r}", adapter, shapes, "the base")


def zero_adapter(shapes: Shapes) -> Adapter:
    """An adapter that changes nothing, for the base's rows.

    Rows without an adapter read the last slot on a CPU, whatever is left in it; an adapter of zeros
    is exact on every device.
    """
    path = next(path for path in shapes if path.rpartition(".")[2] not in _UNSERVED)
    inputs, outputs = shapes[path]
    config = AdapterConfig.new(r=1, lora_alpha=1, target_modules=(path.rpartition(".")[2],))
    slot = Slot(torch.zeros(1, inputs), torch.zeros(outputs, 1), 1.0)
    return Adapter(config, {path: slot})


def say(line: str) -> None:
    """Tell the user on the error stream."""
    print(line, file=sys.stderr, flush=True)


class AdapterFolder:
    """Adapters as PEFT folders, one for every version; other processes have their own.

    places: where to write, the first that works; None: memory, then the temporary folder. A process
    that was killed leaves its folder; the next one that comes by removes it. note: called with a
    line when a place cannot be used.
    """

    def __init__(
        self, places: Sequence[Path] | None = None, note: Callable[[str], None] = say
    ) -> None:
        self._places = list(places or (Path("/dev/shm"), Path(tempfile.gettempdir())))
        self._note = note
        self._homes: list[tuple[Path, IO[str]]] = []
        self._home: Path | None = None
        """Where new versions go."""

    def write(self, label: str, adapter: Adapter) -> Path:
        """Save an adapter in a folder of its own and return it.

        When a place is full, this and all later versions go to the next; the others stay where they
        are. Raises EngineStopped when there is no next.
        """
        while True:
            try:
                if self._home is None:
                    self._home = self._open(self._places[0])
                save_adapter(adapter, self._home / label)
            except OSError as error:
                self._next_place(error)
            else:
                return self._home / label

    def remove(self, folder: Path) -> None:
        """Delete a version that is no longer read."""
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Delete everything."""
        for home, lock in self._homes:
            shutil.rmtree(home, ignore_errors=True)
            lock.close()
        self._homes, self._home = [], None

    def _open(self, place: Path) -> Path:
        sweep_dead(place)
        home = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        lock = (home / _LOCK).open("w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._homes.append((home, lock))
        return home

    def _next_place(self, error: OSError) -> None:
        place, why = self._places[0], error.strerror or str(error)
        if len(self._places) == 1:
            raise EngineStopped(
                f"cannot write an adapter for vLLM to {place}: {why}; make room there, or name "
                "another folder with TMPDIR"
            ) from error
        self._places.pop(0)
        self._home = None
        self._note(f"adapters for vLLM go to {self._places[0]}: {place} cannot be used ({why})")


def sweep_dead(place: Path) -> None:
    """Remove the folders of processes that are gone: their lock is free."""
    for home in place.glob(f"{_PREFIX}*"):
        with suppress(OSError), (home / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(home, ignore_errors=True)
