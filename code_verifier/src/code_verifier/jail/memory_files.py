"""The files of an ordinary program: its streams, and in memory those of the request and those that
it writes.

Other relative names fail as in an empty folder; the kernel refuses the rest.
"""

import asyncio.selector_events
import builtins
import errno
import importlib.util
import io
import os
import posixpath
import selectors
import stat
import sys
import threading
from importlib.abc import SourceLoader
from typing import Any

_open, _stat, _fstat, _listdir, _remove = open, os.stat, os.fstat, os.listdir, os.remove
_STREAMS = {"/dev/stdin": 0, "/dev/fd/0": 0, "/proc/self/fd/0": 0}
_STREAMS |= {"/dev/stdout": 1, "/dev/fd/1": 1, "/proc/self/fd/1": 1}


class Nowhere(io.RawIOBase):
    """A stream that discards everything and is empty. number: its descriptor."""

    def __init__(self, number: int) -> None:
        self.number = number

    def fileno(self) -> int:
        return self.number

    def readable(self) -> bool:
        return self.number == 0

    def writable(self) -> bool:
        return self.number != 0

    def readinto(self, buffer: Any, /) -> int:
        return 0

    def write(self, data: Any, /) -> int:
        return len(data)


def stream(number: int, raw: io.RawIOBase) -> Any:
    """Return the standard stream of this number over `raw`, with the attributes of Python's."""
    buffer = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
    text: Any = io.TextIOWrapper(buffer, encoding="utf-8", errors="surrogateescape", newline=None)
    raw.name = f"<{('stdin', 'stdout', 'stderr')[number]}>"  # type: ignore[attr-defined]
    text.mode = "w" if number else "r"
    return text


class _Writable(io.BytesIO):
    """A file that may be written; a flush stores its content."""

    def __init__(self, files: dict[str, bytes], path: str) -> None:
        super().__init__(files[path])
        self.files, self.path = files, path

    def flush(self) -> None:
        self.files[self.path] = self.getvalue()

    def close(self) -> None:
        if not self.closed:
            self.flush()
        super().close()


class _Files(SourceLoader):
    """The files of a program by their absolute names, and the functions that read and write
    them."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files: dict[str, bytes] = {}
        self.folders: dict[str, set[str]] = {"/": set()}
        for name, data in files.items():
            self.put(_absolute(name), data)

    def put(self, name: str, data: bytes) -> None:
        """Store a file by its absolute name, and its folders."""
        self.files[name] = data
        while name != "/":
            folder, last = posixpath.split(name)
            self.folders.setdefault(folder, set()).add(last)
            name = folder

    def open(self, file: Any, mode: str = "r", *more: Any, **keywords: Any) -> Any:
        """Open a file, as the built-in function does."""
        if isinstance(file, int):
            return _open(file, mode, *more, **keywords)
        name = _absolute(file)
        if name in _STREAMS:
            return _open(_STREAMS[name], mode, *more, **keywords | {"closefd": False})
        exists, makes = name in self.files, set(mode) & set("wax")
        if not exists and not (makes and posixpath.dirname(name) in self.folders):
            if _is_absolute(file):
                return _open(file, mode, *more, **keywords)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        if exists and "x" in mode:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
        if not exists or "w" in mode:
            self.put(name, b"")
        writes = makes or "+" in mode
        raw: Any = _Writable(self.files, name) if writes else io.BytesIO(self.files[name])
        raw.seek(0, os.SEEK_END if "a" in mode else os.SEEK_SET)
        raw.name = file
        if "b" in mode:
            return raw if writes else io.BufferedReader(raw)
        names = ("encoding", "errors", "newline")
        options = {key: keywords[key] for key in names if key in keywords}
        text: Any = io.TextIOWrapper(raw, *more[1:4], **options)
        text.mode = mode
        return text

    def remove(self, path: Any, *more: Any, **keywords: Any) -> None:
        """`os.remove` and `os.unlink`."""
        name = _absolute(path)
        if name not in self.files:
            self.stat(path)  # which raises, where a name is relative
            _remove(path, *more, **keywords)
        del self.files[name]
        folder, last = posixpath.split(name)
        self.folders[folder].discard(last)

    def stat(self, path: Any, *more: Any, **keywords: Any) -> Any:
        """`os.stat` and `os.lstat`."""
        if isinstance(path, int):
            return _stat(path, *more, **keywords)
        name = _absolute(path)
        if name in self.files:
            return _result(stat.S_IFREG | 0o444, len(self.files[name]))
        if name in self.folders:
            return _result(stat.S_IFDIR | 0o555, 0)
        if _is_absolute(path):
            return _stat(path, *more, **keywords)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def fstat(self, descriptor: int) -> os.stat_result:
        """`os.fstat`, without the system call for paths that the C library uses."""
        if descriptor != 0:
            return _fstat(descriptor)
        place = os.lseek(0, 0, os.SEEK_CUR)
        size = os.lseek(0, 0, os.SEEK_END)
        os.lseek(0, place, os.SEEK_SET)
        return _result(stat.S_IFREG | 0o444, size)

    def listdir(self, path: Any = ".") -> list[Any]:
        """`os.listdir`, also of the current folder, which may be empty."""
        if _absolute(path) in self.folders and (self.files or not _is_absolute(path)):
            return sorted(self.folders[_absolute(path)])
        return _listdir(path)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Modules and packages among the files, as a finder of `sys.meta_path`."""
        exists = self.get_filename(name) in self.files
        return importlib.util.spec_from_loader(name, self) if exists else None

    def get_filename(self, fullname: str) -> str:
        """The file of a module or a package."""
        place = f"/{fullname.replace('.', '/')}"
        return f"{place}.py" if f"{place}.py" in self.files else f"{place}/__init__.py"

    def get_data(self, path: str) -> bytes:
        return self.files[_absolute(path)]


class _Waiting:
    """A selector for event loops of asyncio: it waits for a time, or until a thread wakes it."""

    def __init__(self) -> None:
        self.woken = threading.Event()

    def select(self, timeout: float | None = None) -> list[Any]:
        self.woken.wait(timeout)
        self.woken.clear()
        return []

    def close(self) -> None:
        """Nothing is open."""


def install_event_loop() -> None:
    """Make asyncio work without descriptors, which the kernel refuses."""
    module: Any = selectors
    module.DefaultSelector = _Waiting
    loop: Any = asyncio.selector_events.BaseSelectorEventLoop
    loop._make_self_pipe = loop._close_self_pipe = lambda self: None
    loop._write_to_self = lambda self: self._selector.woken.set()


def install(files: dict[str, bytes]) -> None:
    """Replace the functions for files by those of files in memory, by name."""
    place: Any = _Files(files)
    builtins.open = io.open = place.open
    io.open_code = lambda path: place.open(path, "rb")
    os.stat, os.lstat, os.fstat, os.listdir = place.stat, place.stat, place.fstat, place.listdir
    os.remove = os.unlink = place.remove
    os.getcwd = lambda: "/"
    sys.meta_path.insert(0, place)


def _is_absolute(path: Any) -> bool:
    return os.fsdecode(path).startswith("/")


def _absolute(path: Any) -> str:
    return posixpath.normpath(posixpath.join("/", os.fsdecode(path)))


def _result(mode: int, size: int) -> os.stat_result:
    return os.stat_result((mode, 1, 0, 1, 0, 0, size, 0, 0, 0))
