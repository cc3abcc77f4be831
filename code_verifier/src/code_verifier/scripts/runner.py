"""Run untrusted modules and scripts in fresh processes behind the jail's walls.

Unlike the programs of `Sandbox`, these may import most of the standard library and, if installed,
numpy and sortedcontainers, and use threads, clocks and all names. The kernel refuses them the same:
files, the network and other processes. Values and output come back as data, which may be forged.
"""

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

from code_verifier.errors import LiteralError, SandboxUnavailable, Status
from code_verifier.jail.imports import LIBRARIES
from code_verifier.jail.wire import CALLS, ORDINARY, SCRIPT, STANDARD
from code_verifier.pool import Pool
from code_verifier.process import DOCTOR, Order, ProcessLost, Profile, Reply
from code_verifier.values import describe, read_value, shown

_IDLE_S = 8.0
_GRACE_S, _GRACE_FACTOR = 180.0, 110.0
_MIB = 1 << 20
_MEMORY = 4096 * _MIB  # address space beyond that of the bare process
_RECURSION = 1000
_NAME_CHARS = 200
_WALL_FACTOR = 10.0  # real time for each second of processor time, as the machine may be busy

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

    digest: the same for values that are equal in Python; "" for one that equals nothing. data: JSON
    for `read_value`; None when the value is no data (`chars` is -1) or too long. floats: whether it
    is a float, or a list or tuple of floats that is not empty.
    """

    type_name: str
    digest: str
    data: str | None
    chars: int
    floats: bool
    cpu_s: float

    @property
    def text(self) -> str | None:
        """The value for a reader; None without data."""
        try:
            return None if self.data is None else shown(read_value(self.data))
        except LiteralError:  # forged
            return self.data

    @classmethod
    def of(cls, value: object, draw: bool = False) -> Self:
        """Describe a value of this process as if a program had returned it."""
        return cls(*describe(value, draw), 0.0)


@dataclass(frozen=True)
class Calls:
    """Values of the calls that returned, in order, and the end of the process.

    status: `ok` when all calls returned; `exception` when a call or the module raised, the module
    lacks the function, or the process crashed; `timeout`, `memory`, `too_long` beyond a limit;
    `violation` when the process left without a whole report; `sandbox_error`. call: number of the
    call that ended it, from 1; 0 for the module, and for the time of all calls together.
    """

    values: tuple[Value, ...]
    status: str
    call: int
    reason: str
    cpu_s: float


@dataclass(frozen=True)
class ScriptRun:
    """Output of a script. status: `exception` when it raised or crashed, else as in `Calls`.
    exit_code: the argument of `exit`, modulo 256; `os._exit` with another code than 0 is a
    `violation`."""

    output: bytes
    status: str
    reason: str
    cpu_s: float
    exit_code: int = 0


class ScriptRunner(AbstractContextManager["ScriptRunner"]):
    r"""Fork servers for ordinary programs; a context manager that threads may share.

    slots: a semaphore that a program holds while it runs; runners may share it. Raises
    SandboxUnavailable if the kernel has no filter of system calls, unless `allow_weak`.

        >>> with ScriptRunner() as runner:
        ...     runner.run("print(int(input()) * 2)", "21\n", cpu_s=1.0).output
        b'42\n'
    """

    CONTEST_NAMES = _CONTEST_NAMES
    """The prelude of contest programs: the names that LiveCodeBench's harness defines, without
    those of built-in functions."""

    def __init__(
        self, allow_weak: bool = False, slots: AbstractContextManager[object] | None = None
    ) -> None:
        self._pool = Pool(lambda: slots or nullcontext(), allow_weak)

    def close(self) -> None:
        """End all processes; a call that still waits for one raises SandboxUnavailable."""
        self._pool.close()

    def self_test(self) -> None:
        """Run a script whose output is known. Raises SandboxUnavailable, with the cause, if it does
        not come."""
        script = self.run("print(int(input()) * 2)", "21\n", cpu_s=10.0)
        if script.output != b"42\n":
            raise SandboxUnavailable(
                f"a test script ended with {script.status}: {script.reason}; {DOCTOR}"
            )

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
        """Return the values of `entry(*input)` for each input, in one process, up to the first
        exception.

        limits_s: processor seconds of each call; module_s: of the module; total_s: of the process,
        in case a program removes the other limits. prelude: a trusted program that is executed
        first in the same module. owner: if the module has a class of this name, `entry` is a method
        of an instance. recursion: the recursion limit. draw: iterators and views count as lists.
        text_chars: longer texts are left out. deep: the stack may grow like the memory. test: a
        trusted module that defines `check`, which is called with the entry, in the program's
        process, in place of the calls.
        """
        mark = token_hex(16) if test else ""
        task: dict[str, Any] = {"entry": entry, "owner": owner, "test": test, "mark": mark}
        task |= {"recursion": recursion, "draw": draw, "text_chars": text_chars}
        task["inputs"] = marshal.dumps([tuple(item) for item in inputs])
        task["limits"] = [float(limit) for limit in limits_s]
        walls = _WALL_FACTOR * max([module_s, *limits_s]), _WALL_FACTOR * total_s, _IDLE_S
        order = Order(CALLS, module_s, total_s, *walls, output_bytes, deep=deep)
        reply = self._reply(order, program, prelude, **task)
        status, reason, call = reply.status, reply.reason, reply.number
        values, end = read_report(reply.report, len(inputs), text_chars)
        if status == Status.OK:
            status, reason = end or (Status.OK, "no end")
            if status == Status.OK and reason != mark:  # only the end of the test knows the mark
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
        """Return the output of the program as a script with this standard input. files: by name;
        the program may read and import them. Other arguments are as in `call`."""
        walls = _WALL_FACTOR * cpu_s, _WALL_FACTOR * cpu_s, _IDLE_S
        data = stdin.encode("utf-8", "surrogatepass")
        order = Order(SCRIPT, cpu_s, cpu_s, *walls, output_bytes, data)
        task = {"files": dict(files or {}), "recursion": recursion}
        reply = self._reply(order, program, prelude, **task)
        return ScriptRun(reply.report, reply.status, reply.reason, reply.cpu_s, reply.number % 256)

    def _reply(self, order: Order, program: str, prelude: str, **task: Any) -> Reply:
        task |= {"program": program.removeprefix("\ufeff"), "prelude": prelude}
        texts = [program.encode("utf-8", "replace"), prelude.encode()]
        texts += [task.get("test", "").encode(), *task.get("files", {}).values()]
        libraries = []  # only those that it names, because a larger process forks more slowly
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
"""Most bytes of a line besides the text of its value, where a character takes up to twelve."""


def read_report(
    data: bytes, most: int, text_chars: int = 1 << 14
) -> tuple[list[Value], tuple[str, str] | None]:
    """Return the values of a child's report, at most `most`, with the status and the reason at its
    end. It may be forged or cut: lines that are too long or have another form are not parsed."""
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
