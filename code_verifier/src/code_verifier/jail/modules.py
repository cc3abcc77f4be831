"""Standard-library modules a program may import: those that can be used purely.

A module that is deterministic only when used well (random with a seed, datetime arithmetic) is
on the list: the repeated executions decide, not the list.
"""

import codecs
import importlib
import sys
import types

_ALLOWED = """
    __future__ abc array ast base64 binascii bisect calendar cmath codecs collections colorsys
    contextlib contextvars copy csv dataclasses datetime decimal difflib enum fnmatch fractions
    functools graphlib hashlib heapq hmac html io ipaddress itertools json keyword math numbers
    operator pprint queue random re reprlib shlex statistics string struct sys textwrap time token
    types typing unicodedata uuid warnings weakref zlib
"""
_ALSO = "collections.abc html.entities html.parser json.decoder _strptime encodings.idna locale"
_CODECS = "utf_8 ascii latin_1 utf_16 utf_32 cp1252 rot_13 hex_codec"
_SYS_NAMES = """
    maxsize maxunicode float_info int_info hash_info byteorder version version_info
    implementation platform intern getsizeof getrecursionlimit setrecursionlimit exit
    set_int_max_str_digits get_int_max_str_digits getrefcount
"""
ALLOWED = frozenset(_ALLOWED.split())


def preload() -> None:
    """Import everything importable, so that a child never needs the file system."""
    sys.modules["_datetime"] = None  # type: ignore[assignment]  # its clock cannot be shifted
    for name in sorted(ALLOWED - {"sys"}) + _ALSO.split():
        importlib.import_module(name)
    for codec in _CODECS.split():
        importlib.import_module(f"encodings.{codec}")
        codecs.lookup(codec)


def plain_sys() -> types.ModuleType:
    """The harmless part of `sys`, under its own name."""
    module = types.ModuleType("sys")
    for name in _SYS_NAMES.split():
        setattr(module, name, getattr(sys, name))
    for name in ("stdin", "stdout", "stderr"):
        setattr(module, name, None)
    module.__dict__["argv"] = [""]
    module.__dict__["path"] = []
    module.__dict__["modules"] = {}
    return module


def reason(name: str) -> str:
    """Why the import of `name` is refused."""
    return f"import of {name!r} is not allowed: only pure standard-library modules are"
