"""Frames on standard input and output of a confined process."""

from __future__ import annotations

import os

from code_verifier.jail.protocol import LENGTH, READ


def receive() -> bytes | None:
    """The next frame's body, or None at the end of the input."""
    data = os.read(0, READ)
    while data:
        if len(data) >= LENGTH.size:
            size = LENGTH.size + LENGTH.unpack_from(data)[0]
            if len(data) >= size:
                return data[LENGTH.size : size]
        more = os.read(0, READ)
        if not more:
            return None
        data += more
    return None


def send(body: bytes) -> None:
    """Write one frame."""
    view = memoryview(LENGTH.pack(len(body)) + body)
    while view:
        view = view[os.write(1, view) :]
