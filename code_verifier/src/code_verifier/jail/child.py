"""The child: one fresh process that executes one program and reports once.

After an entry function returns, none of its program's code runs any more: the value is walked by
exact type and written out, and the process leaves without finalisers.
"""

from __future__ import annotations

import builtins
import gc
import marshal
import os
import sys

from code_verifier.canonical import canonical
from code_verifier.errors import LiteralError, Status
from code_verifier.jail import modules
from code_verifier.jail.protocol import FRAME, MISSING, REASON_CHARS, RESULT_FD, pack_result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, NoReturn

_OWN_RECURSION = 10_000
_OWN_DIGITS = 4300
_settrace, _setprofile = sys.settrace, sys.setprofile


def seal(tier: int) -> None:
    """From here on nothing is imported; what a tier lacks is noted, but for the last one."""
    Finder.last = tier == modules.ALL
    sys.meta_path[:] = [Finder]


class Finder:
    """Notes that a module was looked for which this tier does not hold."""

    missed = False
    last = False

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> None:
        cls.missed = not cls.last


def prepare(tier: int) -> dict[str, Any]:
    """The names a program starts with; made before the fork, since a child is fresh anyway."""
    names = dict(vars(builtins))
    for name in modules.BANNED_NAMES:
        names.pop(name, None)
    program = type(sys)("program")
    plain = modules.plain_sys(program)
    real_import = builtins.__import__
    allowed, internal = modules.ALLOWED, modules.INTERNAL

    def guarded_import(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        if type(name) is str and not level:
            if name == "sys":
                return plain
            if name.partition(".")[0] in allowed or name in internal:
                return real_import(name, None, None, fromlist)
        raise ImportError(modules.reason(str(name)))

    names["__import__"] = guarded_import
    modules.guard(names)
    if tier == modules.ALL:
        modules.guard_print(names, plain)
    if tier > modules.NONE:
        modules.scrub(plain, names)
    sys.modules["program"] = program
    program.__dict__.clear()
    program.__dict__.update({"__name__": "program", "__builtins__": names})
    return program.__dict__


def serve(
    code: bytes, arguments: bytes, names: dict[str, Any], nonce: bytes, limits: dict[str, Any]
) -> NoReturn:
    """Execute and report; never returns. Raises MemoryError."""
    program = marshal.loads(code)
    args, kwargs = marshal.loads(arguments)
    gc.collect()  # so that the collector's turns do not depend on what the server did before
    result = _outcome(program, args, kwargs, names, limits)
    if Finder.missed:
        result = pack_result(MISSING, b"")
    view = memoryview(FRAME.pack(nonce, len(result)) + result)
    while view:
        view = view[os.write(RESULT_FD, view) :]
    os._exit(0)


def _outcome(
    program: Any, args: Any, kwargs: Any, names: dict[str, Any], limits: dict[str, Any]
) -> bytes:
    try:
        gc.enable()
        sys.setrecursionlimit(limits["recursion"])
        exec(program, names)
        entry = names.get("f")
        if entry is None:
            raise NameError("the program defines no function f")
        value = entry(*args, **kwargs)
        _settrace(None)
        _setprofile(None)
        gc.disable()
    except MemoryError:
        raise
    except BaseException as error:
        _settrace(None)
        _setprofile(None)
        return pack_result(Status.EXCEPTION, _exception(error).encode("utf-8", "backslashreplace"))
    sys.setrecursionlimit(_OWN_RECURSION)
    sys.set_int_max_str_digits(_OWN_DIGITS)
    try:
        return pack_result(Status.OK, canonical(value, limits["output_chars"]).encode())
    except LiteralError as error:
        return pack_result(error.status, str(error)[:REASON_CHARS].encode())


def _exception(error: BaseException) -> str:
    """Type and message of an exception, without calling any method of the program's own."""
    gc.disable()
    sys.setrecursionlimit(_OWN_RECURSION)
    sys.set_int_max_str_digits(_OWN_DIGITS)
    name = type.__dict__["__name__"].__get__(type(error))
    args = BaseException.__dict__["args"].__get__(error)
    parts = [str(part) for part in args[:3] if _is_plain(part)]
    message = ": ".join(parts)
    return (f"{name}: {message}" if message else str(name))[:REASON_CHARS]


def _is_plain(value: Any) -> bool:
    """By identity of types: comparing them would call a metaclass of the program's own."""
    kind = type(value)
    if kind is int:
        return bool(value.bit_length() < 256)
    return kind is str or kind is float or kind is bool or value is None
