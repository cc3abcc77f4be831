"""The child: one fresh process that parses, judges by policy, executes and reports once.

The report is one frame on one pipe: nonce, status byte, flag byte, length, UTF-8 text. After
the entry function returns, none of the program's code runs any more: the value is walked by
exact type, and the process leaves without finalisers.
"""

import ast
import builtins
import gc
import os
import struct
import sys
import types
from typing import Any, NoReturn

from code_verifier.errors import LiteralError
from code_verifier.jail import clock, modules, policy
from code_verifier.jail.seccomp import RESULT_FD
from code_verifier.literals import canonical, parse_arguments

STATUSES = ("ok", "syntax_error", "banned", "exception", "memory", "not_literal", "too_long")
HEADER = struct.Struct("<16sBBI")
_REASON_CHARS = 300


def serve(request: dict[str, Any], nonce: bytes) -> NoReturn:
    """Execute the request and report; never returns."""
    out_of_memory = HEADER.pack(nonce, STATUSES.index("memory"), 0, 0)
    unstable = False
    try:
        clock.reseed(nonce[::-1] + request["entropy"].encode())
        tree = ast.parse(request["program"])
        found = policy.refusal(tree)
        if found is not None:
            _report(nonce, "banned", unstable, found)
        unstable = policy.unstable(tree)
        args, kwargs = parse_arguments(request["input"], request["input_chars"])
        code = compile(tree, "<program>", "exec")
        namespace = _namespace()
        del tree
    except MemoryError:
        _leave(out_of_memory)
    except LiteralError as error:
        _report(nonce, error.status, unstable, str(error))
    except (SyntaxError, ValueError, RecursionError, OverflowError) as error:
        _report(nonce, "syntax_error", unstable, _syntax(error))
    try:
        sys.setrecursionlimit(request["recursion"])
        exec(code, namespace)
        entry = namespace.get("f")
        if entry is None:
            raise NameError("the program defines no function f")
        value = entry(*args, **kwargs)
        gc.disable()
        sys.setrecursionlimit(100_000 if sys.version_info < (3, 12) else 10_000)
    except MemoryError:
        _leave(out_of_memory)
    except BaseException as error:
        _report(nonce, "exception", unstable, _exception(error))
    try:
        text = canonical(value, request["output_chars"])
    except LiteralError as error:
        _report(nonce, error.status, unstable, str(error))
    except MemoryError:
        _leave(out_of_memory)
    _report(nonce, "ok", unstable, text)


def _namespace() -> dict[str, Any]:
    names = dict(vars(builtins))
    for name in policy.BANNED_NAMES:
        names.pop(name, None)
    plain_sys = modules.plain_sys()
    real_import = builtins.__import__

    def guarded_import(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> types.ModuleType:
        if type(name) is not str or level or name.partition(".")[0] not in modules.ALLOWED:
            raise ImportError(modules.reason(str(name)))
        return plain_sys if name == "sys" else real_import(name, None, None, fromlist)

    names["__import__"] = guarded_import
    return {"__name__": "program", "__builtins__": names}


def _syntax(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.msg} (line {error.lineno})" if error.lineno else str(error.msg)
    return f"{type(error).__name__}: {error}"


def _exception(error: BaseException) -> str:
    """Type and message, reading the message without calling the program's own methods."""
    gc.disable()
    kind = type(error)
    name = type.__dict__["__name__"].__get__(kind)
    # An exception class of the program's own may override how its text is made.
    if kind.__module__ == "builtins" and kind.__flags__ & (1 << 8 | 1 << 9) != 1 << 9:
        parts = [part for part in error.args if type(part) in (str, int, float)]
        message = ": ".join(str(part) for part in parts[:3])
        return f"{name}: {message}" if message else str(name)
    return str(name)


def _report(nonce: bytes, status: str, unstable: bool, text: str) -> NoReturn:
    if status != "ok":
        text = text[:_REASON_CHARS]
    payload = text.encode("utf-8", "backslashreplace")
    _leave(HEADER.pack(nonce, STATUSES.index(status), unstable, len(payload)) + payload)


def _leave(frame: bytes) -> NoReturn:
    view = memoryview(frame)
    while view:
        view = view[os.write(RESULT_FD, view) :]
    os._exit(0)
