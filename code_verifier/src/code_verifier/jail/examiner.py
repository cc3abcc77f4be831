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
import marshal
import os
import signal
import sys
import unicodedata  # the parser imports it for names beyond ASCII
import warnings
from typing import Any

from code_verifier.errors import LiteralError, Status
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
    ast.unparse(ast.Constant(0))  # a module of its own since Python 3.14
    layers = confine.confine(config["jail_dir"], config["memory"])
    if config["filter"] is not None:
        sys.stdin = sys.stdout = sys.stderr = None
        layers["seccomp"] = confine.install_filter(confine.load_filter(config["filter"]))
    protocol.send(marshal.dumps(layers))
    unicodedata.normalize("NFKC", "")
    sys.addaudithook(_open_nothing)
    gc.collect()
    gc.freeze()
    gc.disable()  # trees have no cycles, and looking for some takes as long as parsing
    for turn, request in enumerate(iter(protocol.receive, b""), 1):
        protocol.send(_answer(request))
        if turn % _TIDY == 0:
            gc.collect()
    os._exit(0)


def _open_nothing(event: str, arguments: tuple[Any, ...]) -> None:
    """A SyntaxError looks for its line in the file `<program>`; the filter would kill for it."""
    if event == "open":
        raise FileNotFoundError(arguments[0])


def _answer(request: bytes) -> bytes:
    text, inputs, chars = marshal.loads(request)
    results = [_examine(text)]
    if results[0][0] == Status.OK:
        results += [_arguments(input, chars) for input in inputs]
    signal.setitimer(signal.ITIMER_PROF, 0)
    return b"".join(protocol.pack_result(*result) for result in results)


def _start_budget(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    signal.setitimer(signal.ITIMER_PROF, _BUDGET_S + _PER_BYTE_S * size)


def _examine(text: str) -> tuple[str, bytes]:
    """Status; flags and code, or why the program is refused."""
    _start_budget(text)
    try:
        tree = ast.parse(text.removeprefix("\ufeff"))
    except FAILURES as error:
        return Status.SYNTAX_ERROR, _bytes(describe(error))
    try:
        refusal, flags = policy.examine(tree)
        if refusal is not None:
            return Status.BANNED, _bytes(refusal)
        code = compile(tree, "<program>", "exec", dont_inherit=True)
        return Status.OK, bytes([flags]) + marshal.dumps(code)
    except MemoryError:
        return Status.MEMORY, b"compiling the program takes too much memory"
    except FAILURES as error:
        return Status.SYNTAX_ERROR, _bytes(describe(error))


def _arguments(input: str, chars: int) -> tuple[str, bytes]:
    """Status; flags and arguments, or why they are refused."""
    _start_budget(input)
    try:
        args, kwargs = parse_arguments(input, chars)
        unordered = "{" in input and _holds_set([args, kwargs])
        return Status.OK, bytes([protocol.CHANCE * unordered]) + marshal.dumps((args, kwargs))
    except LiteralError as error:
        return error.status, _bytes(str(error))


def _bytes(reason: str) -> bytes:
    return reason.encode("utf-8", "backslashreplace")


def _holds_set(value: Any) -> bool:
    """Whether the value is or holds a set, which a program may also add to."""
    if isinstance(value, set):
        return True
    if isinstance(value, dict):
        return any(_holds_set(part) for pair in value.items() for part in pair)
    return isinstance(value, list | tuple) and any(map(_holds_set, value))
