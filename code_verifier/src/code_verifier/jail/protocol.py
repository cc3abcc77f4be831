"""The frames between the caller and its confined processes, and between a child and its server.

Light on purpose: a fork server imports nothing that its children do not need.

caller -> process: length, body. First a configuration, then requests, all marshal.
examiner: request = a program, its inputs, characters of an input. Reply: RESULT and a byte of flags
with the code (or why it is refused), then, if it is not, for every input RESULT and a byte of flags
with the arguments (or why they are refused).
fork server: request = code and arguments. Reply: REPLY, RESULT and its text.
child -> server: FRAME (nonce, size of the body), RESULT and its text.
"""

from __future__ import annotations

import marshal
import os
import struct

from code_verifier.errors import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RESULT_FD = 3
REASON_CHARS = 300
LENGTH = struct.Struct("<I")
REPLY = struct.Struct("<d")  # milliseconds
RESULT = struct.Struct("<BI")  # status, bytes that follow
FRAME = struct.Struct("<16sI")

# Of an ordinary reply: status, number of the call or exit code, seconds, bytes of the reason.
HEAD = struct.Struct("<BIdH")

MISSING = "missing_module"
"""What a child reports that looked for a module which its server does not hold."""
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

# Flags: of a program that can reach a source of chance, and of arguments that hold a set; the other
# bits are the program's tier.
CHANCE, TIER_SHIFT = 1, 1
READ = 1 << 16


def pack_result(status: str, data: bytes) -> bytes:
    """One result: its status and its bytes."""
    return RESULT.pack(CODES[status], len(data)) + data


def unpack_results(data: bytes, start: int) -> list[tuple[str, bytes]] | None:
    """The results from `start` to the end of `data`; None when they do not fit exactly."""
    results = []
    while start < len(data):
        if len(data) - start < RESULT.size:
            return None
        code, size = RESULT.unpack_from(data, start)
        start += RESULT.size
        if code >= len(STATUSES) or len(data) - start < size:
            return None
        results.append((STATUSES[code], data[start : start + size]))
        start += size
    return results


def receive_config() -> dict[str, Any]:
    """The first frame; without one the caller is gone, and the process ends."""
    body = receive()
    if not body:
        os._exit(0)
    config: dict[str, Any] = marshal.loads(body)
    return config


def receive() -> bytes:
    """The body of the next frame on standard input; empty at its end."""
    head = read(LENGTH.size)
    return read(LENGTH.unpack(head)[0]) if head else b""


def read(count: int) -> bytes:
    """So many bytes of standard input and no more; none when it ends before."""
    data = bytearray()
    while len(data) < count:
        more = os.read(0, min(READ, count - len(data)))
        if not more:
            return b""
        data += more
    return bytes(data)


def send(body: bytes) -> None:
    """Write one frame to standard output."""
    write(1, LENGTH.pack(len(body)) + body)


def write(file: int, data: bytes | memoryview) -> None:
    """Write all of the data to a descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
