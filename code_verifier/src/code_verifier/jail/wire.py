"""The format between the caller and a fork server, for every kind of program.

caller -> server, frames: the configuration; then for each request an order, which the server reads,
and a task, which the child reads: a fork server never holds a program, so that a child cannot find
an earlier child's program in the memory that it inherits.
server -> caller, frames: its layers; then for each request REPLY, a reason and the report: the
child's, or the reader's code.
child -> server: a report in memory that both map (ROOM), which needs no system call, and outlives a
killed child. Of a function: its status, a line feed, and the value or a reason. Of calls: a line of
JSON for each value, and a last one with status and reason.

All but a child's report is marshalled. The module imports little: a fork server imports it first.
"""

from __future__ import annotations

import os
import struct

from code_verifier.errors import Status

READER, STRICT, ORDINARY = "reader", "strict", "ordinary"
"""Kinds of processes of the pool; only the last two fork."""
COMMON, ALL, STANDARD = "common", "all", "standard"
"""Lists of modules that a fork server has imported; the first two are for strict ones."""
FUNCTION, CALLS, SCRIPT = "function", "calls", "script"
"""Kinds of children: a function of literals, an ordinary module's calls, a script."""
LOADING = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "NIX_LD", "NIX_LD_LIBRARY_PATH")
"""Variables of the environment by which some builds of Python find their own files."""
NO_MEMORY, SPENT, RAISED, FULL, MISSED = 71, 72, 73, 74, 75
"""Exit codes of a child, besides 0 for a whole report or the end of a script."""
READ = 1 << 16
ROOM = 4096
"""Start of the report in the memory that a child shares; before it are the number of the call, and
the name of the exception that ended a script."""
LENGTH = struct.Struct("<I")
REPLY = struct.Struct("<BBIddH")
"""Status; flags of a compiled program; number of the call, of a function or exit code; processor
seconds; milliseconds; bytes of the reason."""
CHANCE, MORE, TEXTS = 1, 2, 4
"""Flags: the program can reach a source of chance, imports more than the common modules, or
converts values to text."""
UNSEEN, SEEN, UNKNOWN = 0, 1, 2
"""Number of a function: whether it has seen an address, which only the layer `addresses` knows."""
MISSING = "missing_module"
"""Status of a child that imports a module which its server does not hold."""
REASON_BYTES = 1 << 12
STATUSES = (*(word for name, word in vars(Status).items() if name.isupper()), MISSING)
CODES = {name: number for number, name in enumerate(STATUSES)}


def frame(body: bytes) -> bytes:
    """Return a frame: its length, and the body."""
    return LENGTH.pack(len(body)) + body


def receive() -> bytes:
    """Return the body of the next frame on standard input; empty at its end."""
    head = _read(LENGTH.size)
    return _read(LENGTH.unpack(head)[0]) if head else b""


def _read(count: int) -> bytes:
    """Exactly `count` bytes of standard input; none if it ends before."""
    data = bytearray()
    while len(data) < count:
        part = os.read(0, min(READ, count - len(data)))
        if not part:
            return b""
        data += part
    return bytes(data)


def write(file: int, *parts: bytes | memoryview) -> None:
    """Write all parts to a descriptor, without copying them."""
    views = [memoryview(part) for part in parts]
    while views:
        count = os.writev(file, views) if views[1:] else os.write(file, views[0])
        while views and count >= len(views[0]):
            count -= len(views.pop(0))
        if views:
            views[0] = views[0][count:]
