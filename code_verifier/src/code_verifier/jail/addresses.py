"""Addresses of objects, which differ in each execution of a check.

The kernel places memory at random, but in whole pages and not everywhere: the interpreter's own
objects are at fixed places of its program file, so that their hashes, and the order of a set of
them, depend on how Python was built. Addresses that a program sees are therefore scrambled, by a
factor of the execution:

- the hash of objects without a hash function: types, functions, None, Ellipsis, plain instances;
- `id`, which is still different for different objects, and the number of a thread;
- the address in a text, as in `<function f at 0x7...>`, which still is the object's `id`.

Machine code that replaces the interpreter's functions does so, in about a nanosecond; its source is
`addresses.S`. That of `id` and of texts also notes that the program has seen an address. The free
places inside the pages are shuffled, too.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
from _contextvars import ContextVar

from code_verifier.jail import wire
from code_verifier.jail.walls import all_types, libc, succeeds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_CODE = {
    "x86_64": {
        "MARK": "49bb SEEN 41c60301",
        "MIX": "48b8 FACTOR 480fafd0 48c1e214 48c1ea14 4889d0 48c1e816 4831c2 48b8 TOP 4809c2",
        "hash": "f30f1efa 4883ec08 48b8 OLD ffd0 4883c408 4889c2 MIX 4889d0 48c1e804 c3",
        "none": "f30f1efa 48b8 NONE c3",
        "id": "f30f1efa MARK 4889f2 48c1ea04 MIX 4889d7 48b8 INTEGER ffe0",
        "text": "f30f1efa MARK 488b12 488b12 48c1ea04 MIX 48be FORMAT 49bb PRINT 31c0 41ffe3",
        "kinds": "f30f1efa c70205000000 b801000000 c3",
    },
    "aarch64": {
        "MARK": "49000058 03000014 SEEN 2a008052 2a010039",
        "MIX": "49000058 03000014 FACTOR 427c099b 42ac40d3 425842ca 420854b2",
        "hash": "5f2403d5 fd7bbfa9 49000058 03000014 OLD 20013fd6 fd7bc1a8 "
        "e20300aa MIX 40fc44d3 c0035fd6",
        "none": "5f2403d5 40000058 c0035fd6 NONE",
        "id": "5f2403d5 MARK 22fc44d3 MIX e00302aa 49000058 20011fd6 INTEGER",
        "text": "5f2403d5 MARK 420040f9 420040f9 42fc44d3 MIX 41000058 03000014 FORMAT "
        "49000058 20011fd6 PRINT",
        "kinds": "5f2403d5 a9008052 490000b9 20008052 c0035fd6",
    },
}
"""Machine code, where a word of capitals is another part, or eight bytes of that value."""
_FACTOR, _TOP = 6_364_136_223_846_793_005, 7 << 44
_NONE = 0x9E3779B97F4A7C11
_FORMAT = b"%#lx"
_HEAD = object.__basicsize__
_HASH, _METHOD, _WRAPPED = _HEAD + 104, _HEAD, _HEAD + 32
"""Where a type holds its hash function, a built-in function its description, and a method such as
`object.__hash__` the function that it stands for."""
_READ_WRITE, _READ_EXECUTE, _PRIVATE_ANONYMOUS = 3, 5, 0x22
_sight = ctypes.c_ubyte(wire.UNKNOWN)


def scramble(index: int) -> bool:
    """Scramble the addresses that execution `index` sees; return whether all are scrambled, as a
    child finds out first.

    Only at the start of a process: existing sets and dicts of types or functions break.
    """
    machine = os.uname().machine
    is_known = machine in _CODE and hasattr(libc, "register_printf_specifier")
    return is_known and succeeds(_replace, machine, index) and _replace(machine, index)


def seen() -> int:
    """Return whether an address was seen since `forget`, in a word of `wire`."""
    return _sight.value


def forget() -> None:
    """Forget that an address was seen."""
    if _sight.value == wire.SEEN:
        _sight.value = wire.UNSEEN


def routine(machine: str, name: str, values: Mapping[str, int]) -> bytes:
    """Return the machine code of this name in `addresses.S`, with these values."""
    code = b""
    for word in _CODE[machine][name].split():
        if word in values:
            code += values[word].to_bytes(8, "little")
        else:
            inner = word in _CODE[machine]
            code += routine(machine, word, values) if inner else bytes.fromhex(word)
    return code


def _replace(machine: str, index: int) -> bool:
    """Replace the functions of the interpreter; return whether all the new ones work."""
    factor = pow(_FACTOR, index + 1, 2**64)
    values = {"FACTOR": factor, "TOP": _TOP, "SEEN": ctypes.addressof(_sight)}
    values |= {"NONE": (7 * index + 3) * _NONE % 2**44}  # each of the last hexadecimal digits
    values |= {"INTEGER": _place(ctypes.pythonapi.PyLong_FromVoidPtr)}
    values |= {"FORMAT": id(_FORMAT) + bytes.__basicsize__ - 1, "PRINT": _place(libc.fprintf)}
    code = bytearray()

    def add(name: str, **more: int) -> int:
        """Add this code, and return where it begins."""
        begin = len(code)
        code.extend(routine(machine, name, values | more))
        code.extend(bytes(-len(code) % 16))
        return begin

    hashed = (object, type(len), type("".__len__), type(_place.__get__(0)), ContextVar)
    hashes = {old: add("hash", OLD=old) for old in {_hash(kind).value for kind in hashed}}
    none, own_id, text, kinds = add("none"), add("id"), add("text"), add("kinds")
    start = _executable(bytes(code))
    if not start:
        return False
    example = object()
    old_hash, old_id = hash(example), id(example)
    _replace_hashes({old: start + place for old, place in hashes.items()}, start + none)
    threads = (getattr(_thread, name, id) for name in ("get_ident", "_get_main_thread_ident"))
    for place in [_word(id(function) + _METHOD).value for function in (id, *threads)]:
        _word(place + ctypes.sizeof(ctypes.c_size_t)).value = start + own_id
    functions = (ctypes.c_void_p(start + place) for place in (text, kinds))
    if libc.register_printf_specifier(ord("p"), *functions) != 0:
        return False

    def mixed(number: int) -> int:
        number = number * factor % 2**44
        return number ^ number >> 22 | _TOP

    _sight.value = wire.UNSEEN
    place = mixed(old_id >> 4)
    works = hash(example) == mixed(old_hash) >> 4 and id(example) == place
    works = works and repr(example) == f"<object object at {place:#x}>" and seen() == wire.SEEN
    if not works:
        _sight.value = wire.UNKNOWN
    return works


def _replace_hashes(places: Mapping[int, int], none: int) -> None:
    """Replace hash functions of types by their places, and that of None."""
    for kind in all_types():
        slots = [_hash(kind)]
        if type(method := vars(kind).get("__hash__")) is type(object.__hash__):
            slots.append(_word(id(method) + _WRAPPED))
        for slot in slots:
            if kind is type(None) and sys.version_info < (3, 12):  # later a constant
                slot.value = none
            else:
                slot.value = places.get(slot.value, slot.value)


def _executable(code: bytes) -> int:
    """The address of a copy of the code that can be executed, but not written; 0 if refused."""
    libc.mmap.restype = ctypes.c_void_p
    size = ctypes.c_size_t(len(code))
    start = libc.mmap(None, size, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, ctypes.c_long(0))
    if start == ctypes.c_void_p(-1).value:
        return 0
    ctypes.memmove(start, code, len(code))
    executable = libc.mprotect(ctypes.c_void_p(start), size, _READ_EXECUTE) == 0
    return int(start) if executable else 0


def _word(place: int) -> ctypes.c_size_t:
    return ctypes.c_size_t.from_address(place)


def _hash(kind: type) -> ctypes.c_size_t:
    return _word(id(kind) + _HASH)


def _place(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_MAKERS: tuple[tuple[Callable[[int], Any], int], ...] = (
    (lambda number: number + 0.5, 100),  # also NaN, whose hash is its address
    *((lambda number, size=size: bytes(size), 16) for size in range(24, 480, 16)),
    *((lambda number, size=size: bytes(size), 3) for size in range(600, 4200, 400)),
)
_held: list[list[Any]] = []


def shuffle_memory(index: int) -> None:
    """Leave holes for small objects in an order that depends on `index`."""
    state = 2_654_435_761 * (index + 1) % 2**32
    for make, count in _MAKERS:
        objects: list[Any] = [make(number) for number in range(count)]
        for place in range(count - 1, 0, -1):  # Fisher-Yates
            state = (1_664_525 * state + 1_013_904_223) % 2**32
            other = (state >> 8) % (place + 1)
            objects[place], objects[other] = objects[other], objects[place]
        size = count // 3 + index % 3
        for place in range(size, count):
            objects[place] = None
        _held.append(objects[:size])
    # The hash of NaN is its address. Those whose last bits fit the execution come first.
    nans = [float("nan") for _ in range(64)]
    nans.sort(key=lambda nan: ((hash(nan) >> 1) - 5 * index) % 16)
    for module in filter(None, map(sys.modules.get, ("math", "cmath"))):
        module.nan = nans.pop(0)  # type: ignore[attr-defined]
