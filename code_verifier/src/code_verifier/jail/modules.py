"""The standard-library modules that a program may import, and what it sees of the others.

A module that is deterministic only when used well (random with a seed, datetime arithmetic) is
on the list: the repeated executions decide, not the list. Fork servers come in three tiers by
what they preload, because forking costs by what is loaded: nothing, the common modules, all.

Allowed modules hold references to others (`random._os`, `collections._sys`), which are replaced by
stand-ins with the harmless part only. Like the policy this is no boundary: it turns most attempts
into plain exceptions early, and keeps frames, hooks and the list of all modules out of sight.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


COMMON = words("""
    __future__ bisect collections copy functools heapq itertools math operator re string typing
""")
ALLOWED = COMMON | words("""
    abc array ast base64 binascii bz2 calendar cmath codecs colorsys contextlib contextvars csv
    dataclasses datetime decimal difflib enum fnmatch fractions graphlib hashlib hmac html io
    ipaddress json keyword lzma ntpath numbers pathlib posixpath pprint queue random reprlib
    secrets shlex statistics struct sys textwrap time timeit token types unicodedata urllib uuid
    warnings weakref zlib
""")
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
SYS_NAMES = words("""
    maxsize maxunicode float_info int_info hash_info byteorder version version_info
    implementation platform intern getsizeof getrecursionlimit setrecursionlimit exit
    set_int_max_str_digits get_int_max_str_digits getrefcount exc_info exception flags hexversion
    api_version float_repr_style displayhook getdefaultencoding
""")
NONE, SOME, ALL = range(3)


def may_import(name: str) -> bool:
    """Whether programs may import the module of this dotted name."""
    if name.partition(".")[0] == "urllib":
        return name in ("urllib", "urllib.parse")  # urllib.request opens connections
    return name.partition(".")[0] in ALLOWED


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


def reason(name: str) -> str:
    """Why the import of `name` is refused."""
    return f"import of {name!r} is not allowed: only pure standard-library modules are"


BANNED_NAMES = words(
    "eval exec compile open input breakpoint help __import__ __builtins__ __loader__ __spec__"
)
BANNED_ATTRIBUTES = words("""
    __subclasses__ __globals__ __builtins__ __code__ __closure__ __import__ __loader__ __spec__
    __reduce__ __reduce_ex__ f_back f_globals f_locals f_builtins f_code tb_frame tb_next
    gi_frame gi_code cr_frame cr_code ag_frame ag_code
""")
"""Names that only an escape needs. See `policy`."""
_Module: type[ModuleType] = type(sys)
_HIDDEN = BANNED_ATTRIBUTES | words("""
    _getframe _current_frames _current_exceptions currentframe stack trace getouterframes
    getinnerframes settrace setprofile addaudithook modules path meta_path path_hooks
    start_new_thread exit_thread interrupt_main
""")
_OPENING = frozenset({"io", "_io", "codecs", "builtins"})  # whose `open` is the built-in one
_UNTOUCHED = ("importlib", "_frozen_importlib", "zipimport", "os", "posix", "code_verifier")
_KEPT = frozenset({"urandom", "fspath", "name", "PathLike"})  # of os


def _builtin_like(function: Any) -> Any:
    """The function bound to Ellipsis: a method takes no attributes, like a built-in function."""
    return function.__get__(...)


def guard(names: dict[str, Any]) -> None:
    """Have the names of a program look up no attribute that only an escape needs."""
    hidden = BANNED_ATTRIBUTES

    def refuse(name: Any) -> None:
        if isinstance(name, str) and str.__str__(name) in hidden:
            raise AttributeError(f"attribute {str.__str__(name)!r} is out of reach")

    def guarded(real: Any) -> Any:
        def checked(_: Any, object: Any, name: str, /, *value: Any) -> Any:
            refuse(name)
            return real(object, name, *value)

        checked.__name__ = checked.__qualname__ = real.__name__
        return _builtin_like(checked)

    for function in (getattr, hasattr, setattr, delattr):
        names[function.__name__] = guarded(function)
    if formatting := sys.modules.get("string"):
        formatting.__dict__["getattr"] = names["getattr"]  # for Formatter.get_field
    if operator := sys.modules.get("operator"):
        _guard_operator(operator, refuse)


def _guard_operator(module: Any, refuse: Callable[[Any], None]) -> None:
    real_attrgetter, real_methodcaller = module.attrgetter, module.methodcaller

    def attrgetter(*names: str) -> Any:
        for name in names:
            if isinstance(name, str):
                for part in str.split(name, "."):
                    refuse(part)
        return real_attrgetter(*names)

    def methodcaller(name: str, /, *args: Any, **kwargs: Any) -> Any:
        refuse(name)
        return real_methodcaller(name, *args, **kwargs)

    module.attrgetter, module.methodcaller = attrgetter, methodcaller


def guard_print(names: dict[str, Any], plain: ModuleType) -> None:
    """Have `print` write to the `sys.stdout` that programs see and may replace."""
    real_print = print

    def own_print(_: Any, /, *values: Any, file: Any = None, **options: Any) -> None:
        target = file if file is not None else plain.__dict__.get("stdout")
        if target is not None:
            real_print(*values, file=target, **options)

    own_print.__name__ = own_print.__qualname__ = "print"
    names["print"] = _builtin_like(own_print)


def plain_sys(program: ModuleType) -> ModuleType:
    """The harmless part of `sys`; its list of modules holds those that programs may import."""
    module = _Module("sys")
    for name in SYS_NAMES:
        if hasattr(sys, name):
            setattr(module, name, getattr(sys, name))
    for name in ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"):
        setattr(module, name, None)
    visible: dict[str, ModuleType] = {"program": program, "sys": module}
    for name, loaded in list(sys.modules.items()):
        if name.partition(".")[0] in ALLOWED and name != "sys" and isinstance(loaded, _Module):
            visible[name] = loaded
    module.__dict__.update(argv=[""], path=[], modules=visible)
    return module


def scrub(plain: ModuleType, names: dict[str, Any]) -> None:
    """Replace the modules that loaded modules hold by their harmless parts."""
    known: dict[str, ModuleType] = {"sys": plain, "builtins": _Module("builtins")}
    known["builtins"].__dict__.update(names)
    for name, module in list(sys.modules.items()):
        if not isinstance(module, _Module) or name in ("sys", "builtins"):
            continue
        if name.partition(".")[0] in _UNTOUCHED:
            continue
        space = module.__dict__
        for key in ("__loader__", "__spec__"):
            space[key] = None
        for key, value in list(space.items()):
            if isinstance(value, _Module) and value.__name__.partition(".")[0] not in ALLOWED:
                space[key] = known.get(value.__name__) or _part(value, known)
            elif isinstance(value, _Module) and value is sys:
                space[key] = plain


def _part(module: ModuleType, known: dict[str, ModuleType]) -> ModuleType:
    """A copy of a module without what it has hidden and without the modules it holds."""
    part = known[module.__name__] = _Module(module.__name__)
    for key, value in module.__dict__.items():
        if key in _HIDDEN or key.startswith("__") or isinstance(value, _Module):
            continue
        if module.__name__ in _OPENING and key in BANNED_NAMES:
            continue
        if module.__name__ in ("os", "posix") and key not in _KEPT:
            continue
        part.__dict__[key] = value
    if module.__name__ == "os":
        part.__dict__["path"] = _part(sys.modules["posixpath"], known)
    return part
