"""The reader: a confined process that compiles programs and reads inputs, and executes nothing.

A child of a fork server could do this, but would take four times as long, because it copies three
hundred pages of memory. Each text has a budget of processor time, because some take exponentially
long to compile; a text that exceeds it ends the process by SIGPROF, and a text that breaks Python's
parser breaks only this process. The caller passes the compiled code to fork servers, unread.
"""

import ast
import gc
import marshal
import signal
import unicodedata
from functools import lru_cache
from types import CodeType
from typing import Any

from code_verifier.errors import LiteralError, Status
from code_verifier.jail import policy, walls, wire
from code_verifier.literals import arguments_of, parse_call
from code_verifier.syntax import FAILURES, FILE_NAME, describe

_TIDY = 1000
_BUDGET_S, _PER_BYTE_S = 0.25, 2e-5
"""Processor time for a program with its input, several times the need of the slowest texts."""


def serve(config: dict[str, Any]) -> None:
    """Answer requests until standard input ends. A request is a program and its input; the reply is
    their flags and both compiled, the input as a call, or why they are refused."""
    unicodedata.normalize("NFKC", "")  # loads tables that the parser needs for non-ASCII names
    layers = walls.confine(config["jail_dir"], config["memory"])
    filter = config["filters"].get("reader")
    walls.forget(wire.LOADING)
    walls.hide_modules(())
    layers["seccomp"] = bool(filter) and walls.install_filter(walls.load_filter(filter))
    wire.write(1, wire.frame(marshal.dumps(layers)))
    gc.collect()
    gc.freeze()
    gc.disable()  # trees have no cycles, and a collection takes as long as parsing
    turn = 0
    while wire.receive():
        text, input, chars = marshal.loads(wire.receive())
        size = len(text) + len(input)
        signal.setitimer(signal.ITIMER_PROF, _BUDGET_S + 4 * _PER_BYTE_S * size)
        status, flags, data = _read(text, input, chars)
        signal.setitimer(signal.ITIMER_PROF, 0)
        is_code = status == Status.OK
        reason = b"" if is_code else data.encode("utf-8", "backslashreplace")[: wire.REASON_BYTES]
        head = wire.REPLY.pack(wire.CODES[status], flags, 0, 0.0, 0.0, len(reason)) + reason
        wire.write(1, wire.frame(head + (data if is_code else b"")))
        if (turn := turn + 1) % _TIDY == 0:
            gc.collect()


def _read(text: str, input: str, chars: int) -> tuple[str, int, Any]:
    """Status; flags; the program and the call, compiled, or a reason."""
    status, flags, code = _compile(text)
    if status != Status.OK:
        return status, 0, code
    try:
        call = parse_call(input, chars)
        flags |= wire.CHANCE * _holds_set(arguments_of(call))
    except LiteralError as error:
        return error.status, 0, str(error)
    call_code = compile(ast.Expression(call), FILE_NAME, "eval", dont_inherit=True)
    return Status.OK, flags, marshal.dumps((code, _sent(call_code, f"f(\n{input}\n)")))


@lru_cache(maxsize=1)  # one program may come with many inputs
def _compile(text: str) -> tuple[str, int, Any]:
    """Status; flags; the code or the text of `_sent`, or a reason."""
    text = text.removeprefix("\ufeff")
    try:
        tree = ast.parse(text, FILE_NAME)
        refusal, flags = policy.examine(tree)
        if refusal is not None:
            return Status.BANNED, 0, refusal
        code = compile(tree, FILE_NAME, "exec", dont_inherit=True)
    except MemoryError:
        return Status.MEMORY, 0, "reading the program takes too much memory"
    except FAILURES as error:
        return Status.SYNTAX_ERROR, 0, describe(error)
    return Status.OK, flags, _sent(code, text)


def _sent(code: CodeType, text: str) -> CodeType | str:
    """The code; or its text, which the child compiles, if a constant is a set: marshal sorts the
    members, and a program can see their order."""
    return text if _holds_frozenset(code) else code


def _holds_frozenset(part: object) -> bool:
    return type(part) is frozenset or any(map(_holds_frozenset, getattr(part, "co_consts", ())))


def _holds_set(value: Any) -> bool:
    """Whether the value is or holds a set, whose order is a source of chance."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    parts = value if isinstance(value, list | tuple) else ()
    return isinstance(value, set) or any(map(_holds_set, parts))
