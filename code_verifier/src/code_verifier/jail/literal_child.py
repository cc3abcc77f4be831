"""The child for functions of literals, behind the walls: call `f` of a compiled program, and report
its value as a canonical literal. `ordinary_child` has the others.

After the function has returned, no code of the program runs: the value is read by exact type, and
the process leaves without finalisers. It imports little, as `wire` does.
"""

import builtins
import gc
import marshal
import mmap
import os
import posix
import sys
from typing import Any, NoReturn

from code_verifier.canonical import canonical
from code_verifier.errors import LiteralError, Status
from code_verifier.jail import addresses, wire
from code_verifier.jail.imports import ALLOWED

OWN_RECURSION, OWN_DIGITS = 10_000, 4300
_REASON_CHARS = 300
_FRAMES = 5
"""Frames below those of a program, beyond the one that a script has."""
_settrace, _setprofile = sys.settrace, sys.setprofile
_get_depth, _set_depth = sys.getrecursionlimit, sys.setrecursionlimit
_program = type(sys)("program")


def prepare(modules: str) -> None:
    """Prepare the interpreter for programs, once, before the fork."""
    sys.set_int_max_str_digits(OWN_DIGITS)
    for name, value in list(vars(sys).items()):
        if type(value) is str and "/" in value:
            setattr(sys, name, "")  # where this Python lies
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ALLOWED and type(module) is type(sys):
            module.__dict__.update(__loader__=None, __spec__=None)  # how it was built
            for place in ("__file__", "__cached__", "__path__"):
                module.__dict__.pop(place, None)
    sys.version = sys.version.partition(" ")[0]
    sys.argv, sys.path = [""], []
    posix.environ.clear()  # os.environ's, too
    sys.meta_path[:] = [_Missing] if modules == wire.COMMON else []
    sys.getrecursionlimit = lambda: _get_depth() - _FRAMES
    sys.setrecursionlimit = lambda limit, /: _set_depth(limit + _FRAMES if limit > 0 else limit)
    sys.modules["program"] = _program
    _program.__dict__.clear()
    names = {"__name__": "program", "__builtins__": dict(vars(builtins))}
    _program.__dict__.update(names)


class _Missing:
    """A finder of modules that finds none, and notes that it was used."""

    looked = False

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> None:
        cls.looked = True


def function(task: bytes, room: mmap.mmap) -> NoReturn:
    """Call the `f` of a compiled program, and report."""
    program, limits = marshal.loads(task)
    failure: BaseException | None = None
    names = _program.__dict__
    try:
        code, call = map(_compile, marshal.loads(program), ("exec", "eval"))
        args, kwargs = eval(call, {"f": lambda *args, **kwargs: (args, kwargs)})
        sys.set_int_max_str_digits(limits["int_digits"])
        gc.freeze()  # so that the collector's turns depend on the program alone
        addresses.forget()
        gc.enable()
        _set_depth(limits["recursion"] + _FRAMES)
        exec(code, names)
        entry = names.get("f")
        if entry is None:
            raise NameError("the program defines no function f")
        value = entry(*args, **kwargs)
    except MemoryError:
        raise
    except BaseException as error:
        failure = error
    room[0] = addresses.seen()
    _settrace(None)
    _setprofile(None)
    gc.disable()
    _set_depth(OWN_RECURSION)
    sys.set_int_max_str_digits(OWN_DIGITS)
    if failure is not None:
        report = f"{Status.EXCEPTION}\n{reason_of(failure)}"
    else:
        try:
            report = f"{Status.OK}\n{canonical(value, limits['output_chars'])}"
        except LiteralError as error:
            report = f"{error.status}\n{str(error)[:_REASON_CHARS]}"
    if _Missing.looked:
        os._exit(wire.MISSED)
    data = report.replace("\0", " ").encode("utf-8", "backslashreplace")
    room[wire.ROOM : wire.ROOM + len(data)] = data
    os._exit(0)


def _compile(part: Any, mode: str) -> Any:
    return compile(part, "<program>", mode, dont_inherit=True) if type(part) is str else part


def reason_of(error: BaseException) -> str:
    """Return type and message of an exception, without calling any method of the program."""
    name = type.__dict__["__name__"].__get__(type(error))
    args = BaseException.__dict__["args"].__get__(error)
    message = ": ".join([str(part) for part in args[:3] if _is_plain(part)])
    return (f"{name}: {message}" if message else str(name))[:_REASON_CHARS]


def _is_plain(value: Any) -> bool:
    """By identity of types: comparing them would call a metaclass of the program."""
    kind = type(value)
    if kind is int:
        return bool(value.bit_length() < 256)
    return kind is str or kind is float or kind is bool or value is None
