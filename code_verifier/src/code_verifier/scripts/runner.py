"""Ordinary modules and scripts of unknown origin, run in fresh processes under the jail's walls.

Unlike the programs of `Sandbox`, these may import most of the standard library, numpy and
sortedcontainers, have threads and clocks, and leave out no name; what the kernel refuses them is
the same: files, the network and other processes. Values and output come back as data, which may be
forged.
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, Self

from code_verifier.errors import LiteralError, Status
from code_verifier.jail.imports import LIBRARIES
from code_verifier.jail.wire import CALLS, ORDINARY, SCRIPT, STANDARD
from code_verifier.pool import Order, Pool, ProcessLost, Profile, Reply
from code_verifier.scripts.values import describe, read_value, shown

_IDLE_S = 8.0
_GRACE_S, _GRACE_FACTOR = 180.0, 110.0
_MIB = 1 << 20
_MEMORY = 4096 * _MIB  # address space beyond that of the bare process
_RECURSION = 1000
_NAME_CHARS = 200
_WALL_FACTOR = 10.0  # of processor time, since a busy machine gives little of its time


CONTEST_MODULES = str.split(
    "string re datetime collections heapq bisect copy math random statistics itertools functools "
    "operator io sys json"
)
_CONTEST_NAMES = f"""
def _names():
    import builtins, importlib
    for name in {[*CONTEST_MODULES, "typing"]!r}:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", None) or [key for key in vars(module) if key[0] != "_"]
        for key in public:
            if not hasattr(builtins, key):
                globals()[key] = getattr(module, key)
    for name in {CONTEST_MODULES!r}:
        globals()[name] = importlib.import_module(name)
_names()
del _names
"""


class Value(NamedTuple):
    """A returned value.

    digest: equal for values that Python holds equal; "" for one that equals nothing.
    data: its JSON, for `read_value`; None when it is no data (`chars` is -1) or too long.
    floats: whether it is a float, or a list or tuple of floats only and not empty.
    """

    type_name: str
    digest: str
    data: str | None
    chars: int
    floats: bool
    cpu_s: float

    @property
    def text(self) -> str | None:
        """The value for a reader; None where there is no data."""
        try:
            return None if self.data is None else shown(read_value(self.data))
        except LiteralError:  # forged
            return self.data

    @classmethod
    def of(cls, value: object, draw: bool = False) -> Self:
        """Describe a value of this process as one that a program returned."""
        return cls(*describe(value, draw), 0.0)


@dataclass(frozen=True)
class Calls:
    """Values of the calls that returned, in order, and how the process ended.

    status: `ok` when all calls returned; `exception` when one or the module raised, or it lacks the
    function, or the process crashed; `timeout`, `memory`, `too_long` over a limit; `violation` when
    the process left without a whole report; `sandbox_error`. call: the one that ended it, from 1
    on; 0 for the module, and for the time of all calls together.
    """

    values: tuple[Value, ...]
    status: str
    call: int
    reason: str
    cpu_s: float


@dataclass(frozen=True)
class ScriptRun:
    """Output of a script. status: `exception` when it raised or crashed, and else as in `Calls`.
    exit_code: what it gave to `exit`, modulo 256; `os._exit` with another code than 0 is a
    `violation`."""

    output: bytes
    status: str
    reason: str
    cpu_s: float
    exit_code: int = 0


class ScriptRunner(AbstractContextManager["ScriptRunner"]):
    r"""Fork servers for ordinary programs; a context manager, and safe to use by many threads.

    slots: a program runs while it holds one of these; runners may share them. Raises
    SandboxUnavailable where the kernel's filter cannot be had, unless `allow_weak`.

        >>> with ScriptRunner() as runner:
        ...     runner.run("print(int(input()) * 2)", "21\n", cpu_s=1.0).output
        b'42\n'
    """

    CONTEST_NAMES = _CONTEST_NAMES
    """A prelude of contest programs: the names that LiveCodeBench's harness gives them, but for
    those of built-in functions."""

    def __init__(
        self, allow_weak: bool = False, slots: AbstractContextManager[object] | None = None
    ) -> None:
        self._pool = Pool(lambda: slots or nullcontext(), allow_weak)

    def close(self) -> None:
        """End all processes; a call that still waits for one raises SandboxUnavailable."""
        self._pool.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self,
        program: str,
        entry: str,
        inputs: Sequence[Sequence[object]],
        limits_s: Sequence[float],
        *,
        module_s: float,
        total_s: float,
        prelude: str = "",
        owner: str = "",
        recursion: int = _RECURSION,
        draw: bool = False,
        text_chars: int = 1 << 14,
        output_bytes: int = 32 * _MIB,
        deep: bool = False,
        test: str = "",
    ) -> Calls:
        """Values of `entry(*input)` for each input, in one process, up to the first exception.

        limits_s: processor seconds of each call; module_s: of the module; total_s: of it all, for
        a program that takes the others away. prelude: a trusted program that is executed before it
        in the same module. owner: where the module has a class of this name, `entry` is a method
        of an instance of it. recursion: the recursion limit. draw: iterators and views count as
        lists. Texts of more than `text_chars` are left out.
        deep: the stack may grow as the memory. test: a trusted module that defines `check`, which
        is called with the entry, in the program's own process, in place of the calls.
        """
        longest_s = max([module_s, *limits_s])
        task: dict[str, Any] = {"program": program, "prelude": prelude, "recursion": recursion}
        task |= {"entry": entry, "owner": owner, "draw": draw, "text_chars": text_chars}
        mark = token_hex(16) if test else ""
        task |= {"test": test, "mark": mark}
        task["inputs"] = marshal.dumps([tuple(item) for item in inputs])
        task["limits"] = [float(limit) for limit in limits_s]
        walls = _WALL_FACTOR * longest_s, _WALL_FACTOR * total_s, _IDLE_S
        order = Order(CALLS, module_s, total_s, *walls, output_bytes, deep=deep)
        reply = self._reply(order, task)
        status, reason, call = reply.status, reply.reason, reply.number
        values, end = read_report(reply.report, len(inputs), text_chars)
        if status == Status.OK:
            status, reason = end or (Status.OK, "no end")
            if status == Status.OK and reason != mark:  # which only the end of the test knows
                status, reason = Status.VIOLATION, "left without a whole report"
            reason = "" if status == Status.OK else reason
            call = len(values) + 1 if call and status == Status.EXCEPTION else call
        return Calls(tuple(values), status, call, reason, reply.cpu_s)

    def run(
        self,
        program: str,
        stdin: str,
        *,
        cpu_s: float,
        prelude: str = "",
        recursion: int = _RECURSION,
        output_bytes: int = 16 * _MIB,
        files: Mapping[str, bytes] | None = None,
    ) -> ScriptRun:
        """Output of the program as a script with this standard input; the rest as in `call`. files:
        what it may read and import, by name."""
        given = stdin.encode("utf-8", "surrogatepass")
        walls = _WALL_FACTOR * cpu_s, _WALL_FACTOR * cpu_s, _IDLE_S
        order = Order(SCRIPT, cpu_s, cpu_s, *walls, output_bytes, given)
        task: dict[str, Any] = {"program": program, "prelude": prelude, "recursion": recursion}
        task["files"] = dict(files or {})
        reply = self._reply(order, task)
        return ScriptRun(reply.report, reply.status, reply.reason, reply.cpu_s, reply.number % 256)

    def _reply(self, order: Order, task: dict[str, Any]) -> Reply:
        texts = [task["program"].encode("utf-8", "replace"), task["prelude"].encode()]
        texts += task.get("files", {}).values()
        libraries = []  # those that it names, since forking costs by what is loaded
        for name in LIBRARIES:
            spec = any(name.encode() in text for text in texts) and importlib.util.find_spec(name)
            if spec and spec.origin:
                libraries.append((name, str(Path(spec.origin).parents[1])))
        grace_s = _GRACE_S + _GRACE_FACTOR * (order.cpu_s + order.hard_s)
        try:
            profile = Profile(ORDINARY, _MEMORY, STANDARD, libraries=tuple(libraries))
            return self._pool.ask(profile, order, marshal.dumps(task), grace_s)
        except ProcessLost as error:
            reason = f"a fork server was lost: {error}"
            return Reply(Status.SANDBOX_ERROR, 0, 0, 0.0, 0.0, reason, b"")


_TEXT = rb'"(?:[^"\\\n]++|\\.)*+"'
_VALUE = re.compile(
    rb"\[" + _TEXT + rb', ?"[0-9a-f]{0,32}", ?(?:null|' + _TEXT + rb"), ?-?\d{1,12}, "
    rb"?(?:true|false), ?\d{1,9}\.\d{1,9}\]"
)
_END = re.compile(rb"\[" + _TEXT + rb", ?" + _TEXT + rb"\]")
_LINE_BYTES = 8192
"""Of a line beyond the text of its value, of which each character takes up to twelve."""


def read_report(
    data: bytes, most: int, text_chars: int = 1 << 14
) -> tuple[list[Value], tuple[str, str] | None]:
    """The values of a child's report, at most `most`, with the status and the reason that it ends
    with. It may be forged or cut: no line is parsed that is too long or of another form."""
    values: list[Value] = []
    start = 0
    while (stop := data.find(b"\n", start, start + 12 * text_chars + _LINE_BYTES)) >= 0:
        line, start = data[start:stop], stop + 1
        try:
            if len(values) < most and _VALUE.fullmatch(line):
                name, digest, text, chars, floats, spent = json.loads(line)
                values.append(Value(name[:_NAME_CHARS], digest, text, chars, floats, spent))
                continue
            status, reason = json.loads(line) if _END.fullmatch(line) else ("", "")
        except ValueError:
            break
        if status == Status.EXCEPTION or (status == Status.OK and len(values) == most):
            return values, (status, reason)
        break
    return values, None
