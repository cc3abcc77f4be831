"""One format between the caller and a fork server, for every kind of program.

caller -> server, frames: the configuration; then for each request an order, which the server reads,
and a task, which the child reads: a fork server never holds a program, so that no later child can
find one of an earlier child's in the memory that it inherits.
server -> caller, frames: its layers; then for each request REPLY, a reason and the report: the
child's, or the reader's code.
child -> server: a report in memory that both map (ROOM), which costs no system call, and outlives a
child that is killed. Of a function: its status, a line feed, and the value or a reason. Of calls:
lines of JSON, one a value, and the last that says how it ended.

All but a child's report is marshal. Light on purpose: a fork server imports it before all else.
"""

from __future__ import annotations

import marshal
import os
import struct

from code_verifier.errors import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

READER, STRICT, ORDINARY = "reader", "strict", "ordinary"
"""What a process of the pool may be; only the last two fork."""
COMMON, ALL, STANDARD = "common", "all", "standard"
"""What a fork server has imported: the first two are strict ones."""
FUNCTION, CALLS, SCRIPT = "function", "calls", "script"
"""What a child may be: a function of literals, an ordinary module's calls, a script."""
NO_MEMORY, SPENT, RAISED, FULL, MISSED = 71, 72, 73, 74, 75
"""Exit codes of a child's own, behind 0 for a whole report or the end of a script."""
READ = 1 << 16
ROOM = 4096
"""Where the report begins in the memory that a child shares: before it, which call runs, and the
name of the exception that ended a script."""
LENGTH = struct.Struct("<I")
REPLY = struct.Struct("<BBIddH")
"""Status; flags of a program that was read; number of the call or exit code; processor seconds;
milliseconds; bytes of the reason."""
CHANCE, MORE = 1, 2
"""Flags: it can reach a source of chance, or imports more than the common modules."""
MISSING = "missing_module"
"""Status of a child that looked for a module which its server does not hold."""
REASON_BYTES = 1 << 12
STATUSES = (
    Status.OK,
    Status.SYNTAX_ERROR,
    Status.BANNED,
    Status.EXCEPTION,
    Status.TIMEOUT,
    Status.MEMORY,
    Status.NOT_LITERAL,
    Status.TOO_LONG,
    Status.VIOLATION,
    Status.SANDBOX_ERROR,
    MISSING,
)
CODES = {name: number for number, name in enumerate(STATUSES)}


def frame(body: bytes) -> bytes:
    """A frame: its length, and the body."""
    return LENGTH.pack(len(body)) + body


def receive() -> bytes:
    """The body of the next frame on standard input; empty at its end."""
    head = _read(LENGTH.size)
    return _read(LENGTH.unpack(head)[0]) if head else b""


def receive_config() -> dict[str, Any]:
    """The first frame; without one the caller is gone, and the process ends."""
    body = receive()
    if not body:
        os._exit(0)
    config: dict[str, Any] = marshal.loads(body)
    return config


def _read(count: int) -> bytes:
    """So many bytes of standard input and no more; none when it ends before."""
    data = os.read(0, count)
    if len(data) == count:
        return data
    parts = [data]
    left = count - len(data)
    while left:
        parts.append(os.read(0, min(READ, left)))
        if not parts[-1]:
            return b""
        left -= len(parts[-1])
    return b"".join(parts)


def write(file: int, *parts: bytes | memoryview) -> None:
    """Write all of the parts to a descriptor, without a copy of them."""
    views = [memoryview(part) for part in parts]
    while views:
        count = os.writev(file, views) if views[1:] else os.write(file, views[0])
        while views and count >= len(views[0]):
            count -= len(views.pop(0))
        if views:
            views[0] = views[0][count:]
    # Released, since memory that a child shared is unmapped next.
    for view in views:
        view.release()
