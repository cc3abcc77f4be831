"""Adapters as vLLM takes them: checked first, and written into a folder that is never left behind.

vLLM takes an adapter of a wrong shape without an error and answers wrongly, and one that is not
finite poisons the rows of other adapters through reused blocks of the cache.
"""

import fcntl
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeAlias

import torch

from lora_evo import Adapter, AdapterConfig, Slot, save_adapter
from lora_evo.errors import EngineStopped, LoraEvoError

Shapes: TypeAlias = Mapping[str, tuple[int, int]]
"""(inputs, outputs) of the base's linear layers by path."""
_PREFIX = "populab-adapters-"
_LOCK = "lock"
_UNSERVED = ("lm_head", "embed_tokens")


def check_adapter(name: str, adapter: Adapter, shapes: Shapes, max_rank: int) -> None:
    """Raise LoraEvoError for an adapter that vLLM cannot serve truly."""
    for path, slot in adapter.slots.items():
        if path.rpartition(".")[2] in _UNSERVED:
            raise LoraEvoError(
                f"adapter {name!r} changes {path}, which vLLM does not serve; use --engine hf, or "
                "train without it in target_modules"
            )
        if path not in shapes:
            raise LoraEvoError(f"adapter {name!r} has factors of {path}, which the base has not")
        found = (slot.A.shape[1], slot.B.shape[0])
        if found != shapes[path]:
            raise LoraEvoError(
                f"adapter {name!r} maps {found[0]} to {found[1]} features in {path}, the base has "
                f"{shapes[path][0]} to {shapes[path][1]} there"
            )
        if len(slot.A) > max_rank:
            raise LoraEvoError(
                f"adapter {name!r} has rank {len(slot.A)} in {path}, the engine was opened for "
                f"{max_rank} at most"
            )
        if not bool(torch.isfinite(slot.A).all() and torch.isfinite(slot.B).all()):
            raise LoraEvoError(
                f"adapter {name!r} is not finite in {path}: it has diverged; go back to an earlier "
                "version, with a lower learning rate"
            )


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
        """Delete a version that is no longer read."""
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
    """Remove the folders of processes that are gone: their lock is free."""
    for home in place.glob(f"{_PREFIX}*"):
        with suppress(OSError), (home / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(home, ignore_errors=True)
