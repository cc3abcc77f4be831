"""The examiner: parses programs and inputs of unknown origin, and never executes any.

A confined process of its own, so that a text which breaks Python's parser breaks nothing else.
It turns a program into compiled code and an input into plain data, both opaque to the caller,
which hands them to fork servers. It serves until its standard input ends.
"""

from __future__ import annotations

import ast
import gc
import itertools
import marshal
import os
import sys
import unicodedata  # the parser imports it for names beyond ASCII
import warnings
from typing import Any

from code_verifier.errors import LiteralError
from code_verifier.jail import confine, policy
from code_verifier.jail.protocol import (
    CODES,
    EXAMINE,
    EXAMINED,
    HASHING,
    SEPARABLE,
    TIER_SHIFT,
    UNSTABLE,
    pack_result,
    receive,
    send,
    unpack_inputs,
)
from code_verifier.literals.literal import parse_arguments

_TIDY = 1000
_FAILURES = (SyntaxError, ValueError, RecursionError, OverflowError, MemoryError)


def main() -> None:
    """Serve until standard input ends. The first frame is the configuration."""
    confine.reset_signals()
    body = receive()
    if body is None:
        return
    config: dict[str, Any] = marshal.loads(body)
    warnings.simplefilter("ignore")
    layers = confine.confine(config["jail_dir"], config["memory"])
    if config["filter"] is not None:
        program, memory = confine.load_filter(config["filter"])
        sys.stdin = sys.stdout = sys.stderr = None
        layers["seccomp"] = confine.install_filter(program)
        config["filter_memory"] = memory
    send(marshal.dumps(layers))
    unicodedata.normalize("NFKC", "")
    sys.addaudithook(_open_nothing)
    gc.collect()
    gc.freeze()
    gc.disable()  # trees have no cycles, and looking for some takes as long as parsing
    for turn in itertools.count(1):
        request = receive()
        if request is None:
            break
        send(_answer(request))
        if turn % _TIDY == 0:
            gc.collect()
    os._exit(0)


def _open_nothing(event: str, arguments: tuple[Any, ...]) -> None:
    """A SyntaxError looks for its line in the file `<program>`; the filter would kill for it."""
    if event == "open":
        raise FileNotFoundError(arguments[0])


def _answer(request: bytes) -> bytes:
    has_program, size, chars, count = EXAMINE.unpack_from(request)
    start = EXAMINE.size
    status, flags, reason, code = "ok", 0, "", b""
    if has_program:
        text = request[start : start + size].decode("utf-8", "surrogatepass")
        status, flags, reason, code = _examine(text)
    start += size
    inputs = unpack_inputs(request, start, count) if status == "ok" else []
    results = b"".join([_arguments(data, chars) for data in inputs])
    message = reason.encode("utf-8", "backslashreplace")
    head = EXAMINED.pack(CODES[status], flags, len(message), len(code), len(inputs))
    return head + message + code + results


def _examine(text: str) -> tuple[str, int, str, bytes]:
    try:
        tree = ast.parse(text.removeprefix("\ufeff"))
        found = policy.examine(tree)
        if found.refusal is not None:
            return "banned", 0, found.refusal, b""
        flags = UNSTABLE * found.unstable | HASHING * found.hashing
        flags |= SEPARABLE * found.separable | found.tier << TIER_SHIFT
        return "ok", flags, "", marshal.dumps(compile(tree, "<program>", "exec", dont_inherit=True))
    except _FAILURES as error:
        return "syntax_error", 0, _syntax(error), b""


def _arguments(data: bytes, chars: int) -> bytes:
    try:
        args, kwargs = parse_arguments(data.decode("utf-8", "surrogatepass"), chars)
        status = "unordered" if b"{" in data and _holds_set([args, kwargs]) else "ok"
        return pack_result(status, marshal.dumps((args, kwargs)))
    except LiteralError as error:
        return pack_result(error.status, str(error).encode("utf-8", "backslashreplace"))


def _holds_set(value: Any) -> bool:
    if isinstance(value, set):
        return len(value) > 1
    if isinstance(value, dict):
        return any(map(_holds_set, value)) or any(map(_holds_set, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_set, value))


def _syntax(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.msg} (line {error.lineno})" if error.lineno else str(error.msg)
    return f"{type(error).__name__}: {error}"
