"""The examiner: parses programs and inputs of unknown origin, and never executes any.

A confined process of its own, so that a text which breaks Python's parser breaks nothing else.
Each text has a budget of processor time: some take exponentially long to compile. What exceeds it
ends the process by SIGPROF.
It turns a program into compiled code and an input into plain data, both opaque to the caller,
which hands them to fork servers. It serves until its standard input ends.
"""

from __future__ import annotations

import ast
import gc
import itertools
import marshal
import os
import signal
import sys
import unicodedata  # the parser imports it for names beyond ASCII
import warnings
from typing import Any

from code_verifier.errors import LiteralError
from code_verifier.jail import confine, policy, protocol
from code_verifier.literals import parse_arguments
from code_verifier.syntax import FAILURES, describe

_TIDY = 1000
_BUDGET_S, _PER_BYTE_S = 0.25, 2e-5
"""Processor time for one text: several times what the densest one of its length needs."""


def main() -> None:
    """Serve until standard input ends. The first frame is the configuration."""
    confine.reset_signals()
    config = protocol.receive_config()
    warnings.simplefilter("ignore")
    layers = confine.confine(config["jail_dir"], config["memory"])
    if config["filter"] is not None:
        program, memory = confine.load_filter(config["filter"])
        sys.stdin = sys.stdout = sys.stderr = None
        layers["seccomp"] = confine.install_filter(program)
        config["filter_memory"] = memory
    protocol.send(marshal.dumps(layers))
    unicodedata.normalize("NFKC", "")
    sys.addaudithook(_open_nothing)
    gc.collect()
    gc.freeze()
    gc.disable()  # trees have no cycles, and looking for some takes as long as parsing
    for turn in itertools.count(1):
        request = protocol.receive()
        if request is None:
            break
        protocol.send(_answer(request))
        if turn % _TIDY == 0:
            gc.collect()
    os._exit(0)


def _open_nothing(event: str, arguments: tuple[Any, ...]) -> None:
    """A SyntaxError looks for its line in the file `<program>`; the filter would kill for it."""
    if event == "open":
        raise FileNotFoundError(arguments[0])


def _answer(request: bytes) -> bytes:
    has_program, size, chars, count = protocol.EXAMINE.unpack_from(request)
    start = protocol.EXAMINE.size
    status, flags, reason, code = "ok", 0, "", b""
    if has_program:
        text = request[start : start + size].decode("utf-8", "surrogatepass")
        signal.setitimer(signal.ITIMER_PROF, _BUDGET_S + _PER_BYTE_S * size)
        status, flags, reason, code = _examine(text)
    start += size
    inputs = protocol.unpack_inputs(request, start, count) if status == "ok" else []
    results = b"".join([_arguments(data, chars) for data in inputs])
    signal.setitimer(signal.ITIMER_PROF, 0)
    message = reason.encode("utf-8", "backslashreplace")
    head = protocol.EXAMINED.pack(
        protocol.CODES[status], flags, len(message), len(code), len(inputs)
    )
    return head + message + code + results


def _examine(text: str) -> tuple[str, int, str, bytes]:
    try:
        tree = ast.parse(text.removeprefix("\ufeff"))
    except FAILURES as error:
        return "syntax_error", 0, describe(error), b""
    try:
        found = policy.examine(tree)
        if found.refusal is not None:
            return "banned", 0, found.refusal, b""
        flags = protocol.CHANCE * found.chance | protocol.SEPARABLE * found.separable
        flags |= found.tier << protocol.TIER_SHIFT
        return "ok", flags, "", marshal.dumps(compile(tree, "<program>", "exec", dont_inherit=True))
    except MemoryError:
        return "memory", 0, "compiling the program takes too much memory", b""
    except FAILURES as error:
        return "syntax_error", 0, describe(error), b""


def _arguments(data: bytes, chars: int) -> bytes:
    signal.setitimer(signal.ITIMER_PROF, _BUDGET_S + _PER_BYTE_S * len(data))
    try:
        args, kwargs = parse_arguments(data.decode("utf-8", "surrogatepass"), chars)
        status = "unordered" if b"{" in data and _holds_set([args, kwargs]) else "ok"
        return protocol.pack_result(status, marshal.dumps((args, kwargs)))
    except LiteralError as error:
        return protocol.pack_result(error.status, str(error).encode("utf-8", "backslashreplace"))


def _holds_set(value: Any) -> bool:
    if isinstance(value, set):
        return len(value) > 1
    if isinstance(value, dict):
        return any(map(_holds_set, value)) or any(map(_holds_set, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_set, value))
