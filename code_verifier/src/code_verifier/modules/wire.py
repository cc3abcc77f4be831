"""The frames between the caller and a fork server of ordinary modules.

A request: length, `ORDER`, the order, the task. The order (marshal) is what the server needs to
know; the task (marshal) is read by the child, so that the server never holds a program and no
later child can find one of an earlier child's in the memory that it inherits.

The head of a reply: how a child ended, by numbers: ending, the call that ran (from 1 on),
processor seconds, bytes of the reason that follows.
"""

from __future__ import annotations

import marshal
import os
import struct

from code_verifier.jail.protocol import LENGTH, READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ORDER = struct.Struct("<I")
HEAD = struct.Struct("<BIdH")
ENDINGS = ("left", "cpu", "total", "idle", "memory", "flood", "raised", "crash", "fault")


def pack_request(order: dict[str, Any], task: dict[str, Any]) -> bytes:
    """The body of a request, which its length is to precede."""
    data = marshal.dumps(order)
    return ORDER.pack(len(data)) + data + marshal.dumps(task)


def receive_order() -> tuple[dict[str, Any], int] | None:
    """The order of the next request on standard input and the bytes of its task, which stay
    there; None at the end of the input."""
    head = receive_bytes(LENGTH.size + ORDER.size)
    if head is None:
        return None
    (length,), (size,) = LENGTH.unpack_from(head), ORDER.unpack_from(head, LENGTH.size)
    data = receive_bytes(size)
    return None if data is None else (marshal.loads(data), length - ORDER.size - size)


def receive_bytes(count: int) -> bytes | None:
    """So many bytes of standard input and no more; None when it ends before."""
    data = bytearray()
    while len(data) < count:
        more = os.read(0, min(READ, count - len(data)))
        if not more:
            return None
        data += more
    return bytes(data)


def send_reply(ending: str, call: int, spent: float, reason: str, data: memoryview) -> None:
    """Write one frame to standard output, without a copy of the data."""
    text = reason.encode("utf-8", "replace")
    head = HEAD.pack(ENDINGS.index(ending), call, spent, len(text)) + text
    for part in (LENGTH.pack(len(head) + len(data)) + head, data):
        done = 0
        while done < len(part):
            done += os.write(1, part[done : done + READ])
