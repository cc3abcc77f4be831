"""Standard-library modules a program may import: those that can be used purely.

A module that is deterministic only when used well (random with a seed, datetime arithmetic) is
on the list: the repeated executions decide, not the list. Fork servers come in three tiers by
what they preload, because forking costs by what is loaded: nothing, the common modules, all.
"""

from __future__ import annotations

import sys

_COMMON = """
    __future__ bisect collections copy functools heapq itertools math operator re string typing
"""
_ALLOWED = """
    abc array ast base64 binascii bz2 calendar cmath codecs colorsys contextlib contextvars csv
    dataclasses datetime decimal difflib enum fnmatch fractions graphlib hashlib hmac html io
    ipaddress json keyword lzma ntpath numbers pathlib posixpath pprint queue random reprlib
    secrets shlex statistics struct sys textwrap time timeit token types unicodedata urllib uuid
    warnings weakref zlib
"""
_WITH_COMMON = "collections.abc types weakref copyreg"
_HUGE_INTEGERS = {"_pylong"} & sys.stdlib_module_names
INTERNAL = frozenset({"_strptime", "copyreg", "locale", "_collections_abc"}) | _HUGE_INTEGERS
"""What C code imports by itself, through the program's own import function."""
_ALSO = "urllib.parse html.entities html.parser json.decoder _strptime encodings.idna locale"
_CODECS = """
    utf_8 utf_8_sig ascii latin_1 iso8859_1 iso8859_15 utf_7 utf_16 utf_16_le utf_16_be utf_32
    utf_32_le utf_32_be cp1252 cp1251 cp437 rot_13 hex_codec base64_codec punycode unicode_escape
    raw_unicode_escape idna zlib_codec bz2_codec quopri_codec iso8859_2 iso8859_5 koi8_r mac_roman
"""
_SYS_NAMES = """
    maxsize maxunicode float_info int_info hash_info byteorder version version_info
    implementation platform intern getsizeof getrecursionlimit setrecursionlimit exit
    set_int_max_str_digits get_int_max_str_digits getrefcount exc_info exception flags hexversion
    api_version float_repr_style displayhook getdefaultencoding
"""
SYS_NAMES = frozenset(_SYS_NAMES.split())
COMMON = frozenset(_COMMON.split())
ALLOWED = frozenset(_ALLOWED.split()) | COMMON
NONE, SOME, ALL = range(3)
TIERS = 3


def may_import(name: str) -> bool:
    """Whether programs may import the module of this dotted name."""
    if name.partition(".")[0] == "urllib":
        return name in ("urllib", "urllib.parse")  # the others reach out
    return name.partition(".")[0] in ALLOWED


def tier(imported: set[str]) -> int:
    """The least tier that has all of these top-level modules."""
    if not imported:
        return NONE
    return SOME if imported <= COMMON else ALL


def preload(tier: int) -> None:
    """Import what a tier holds, so that a child never needs the file system."""
    import importlib

    for name in _HUGE_INTEGERS:  # their division and their text, from Python 3.12 on
        importlib.import_module(name)
    if tier >= SOME:
        for name in sorted(COMMON) + _WITH_COMMON.split():
            importlib.import_module(name)
    if tier < ALL:
        return
    sys.modules["_datetime"] = None  # type: ignore[assignment]  # its clock cannot be replaced
    for name in sorted(ALLOWED - {"sys"}) + _ALSO.split():
        importlib.import_module(name)
    import codecs

    for codec in _CODECS.split():
        importlib.import_module(f"encodings.{codec}")
        codecs.lookup(codec)
    import hashlib

    for name in sorted(hashlib.algorithms_guaranteed):
        hashlib.new(name)  # OpenSSL reads its settings from a file at the first use


def reason(name: str) -> str:
    """Why the import of `name` is refused."""
    return f"import of {name!r} is not allowed: only pure standard-library modules are"
