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

STATUSES = (
    *("ok", "syntax_error", "banned", "exception", "memory", "not_literal", "too_long"),
    "sandbox_error",
)
HEADER = struct.Struct("<16sBBI")
_REASON_CHARS = 300
_OWN_RECURSION = 10_000


def serve(request: dict[str, Any], nonce: bytes, entropy: bytes) -> NoReturn:
    """Execute the request and report; never returns."""
    out_of_memory = HEADER.pack(nonce, STATUSES.index("memory"), 0, 0)
    unstable = False
    try:
        clock.reseed(entropy)
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
        sys.setrecursionlimit(_OWN_RECURSION)
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
    """Type and message of an exception, without calling any method of the program's own."""
    gc.disable()
    sys.setrecursionlimit(_OWN_RECURSION)
    name = type.__dict__["__name__"].__get__(type(error))
    args = BaseException.__dict__["args"].__get__(error)
    parts = [str(part) for part in args[:3] if _is_plain(part)]
    message = ": ".join(parts)
    return f"{name}: {message}" if message else str(name)


def _is_plain(value: object) -> bool:
    if type(value) is int:
        return value.bit_length() < 256
    return type(value) in (str, float, bool, type(None))


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
