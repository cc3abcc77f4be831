"""The fork server of strict programs, which are a function of literals: one child per request.

It preloads what programs may import; `protocol` has the frames. The child is a fresh process that
executes one program and reports once. After the entry function returns, none of the program's code
runs any more: the value is walked by exact type and written out, and the process leaves without
finalisers.
"""

from __future__ import annotations

import builtins
import gc
import marshal
import os
import select
import sys
import time
from os import urandom

from code_verifier.canonical import canonical
from code_verifier.errors import LiteralError, Status
from code_verifier.jail import addresses, confine, modules, nondeterminism, protocol, vdso
from code_verifier.jail.server import ForkServer, load_hashes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, NoReturn

_OF_CHILD = frozenset(
    (Status.OK, Status.EXCEPTION, Status.NOT_LITERAL, Status.TOO_LONG, protocol.MISSING)
)
"""What a child may report."""
_HIDDEN = ("code_verifier", "ctypes", "_ctypes", "marshal", "select", "signal")
_now = time.monotonic
_OWN_RECURSION = 10_000
_OWN_DIGITS = 4300
_settrace, _setprofile = sys.settrace, sys.setprofile


def main() -> None:
    """Serve until standard input ends. The first frame is the configuration."""
    confine.reset_signals()
    server = StrictServer(protocol.receive_config())
    protocol.send(marshal.dumps(server.layers))
    while request := protocol.receive():
        server.execute(request)


class StrictServer(ForkServer):
    """State of the server: everything its children start with."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.limits: dict[str, Any] = config["limits"]
        self.cpu_s = float(self.limits["cpu_s"])
        self.wall_s = float(self.limits["wall_s"])
        frame = protocol.FRAME.size + protocol.RESULT.size
        self.most = frame + 4 * self.limits["output_chars"] + 4096  # bytes of a whole frame
        scrambled = addresses.scramble(config["index"])
        nondeterminism.install_clocks(config["index"], self.wall_s)
        modules.preload(config["tier"])
        if config["tier"] == modules.ALL:
            load_hashes()
        nondeterminism.install_entropy(config["index"])
        sys.set_int_max_str_digits(self.limits["int_digits"])
        hidden = vdso.disable()
        super().__init__(config, self.limits["memory_mb"] * 2**20, _HIDDEN)
        self.layers["clocks"] = hidden and self.layers["seccomp"]
        self.layers["addresses"] = scrambled
        sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None  # type: ignore[misc]
        self.namespace = prepare(config["tier"])
        Finder.last = config["tier"] == modules.ALL
        sys.meta_path[:] = [Finder]
        self.poller = select.poll()
        self.poller.register(0, 0)  # hang-up only: the caller is gone
        gc.collect()
        gc.freeze()  # out of the collector's way, in the children too
        addresses.shuffle_memory(config["index"])

    def execute(self, request: bytes) -> None:
        """Fork a child for the request, and send its result."""
        code, arguments = marshal.loads(request)
        nonce = urandom(16)
        reader, writer = os.pipe()
        started = _now()

        def enter() -> None:
            if writer != protocol.RESULT_FD:
                os.dup2(writer, protocol.RESULT_FD)
            os.closerange(0, protocol.RESULT_FD)
            os.closerange(protocol.RESULT_FD + 1, 16)

        def run() -> None:
            serve(code, arguments, self.namespace, nonce, self.limits)

        pid = self.fork("strict", self.cpu_s, self.cpu_s, enter, run)
        os.close(writer)
        if pid < 0:
            os._exit(1)  # the caller makes a new server
        data, in_time = self._collect(reader, started + self.wall_s)
        wall_ms = (_now() - started) * 1000.0
        os.close(reader)
        if _is_answer(data, nonce):
            confine.kill_session(pid)
            self._send(wall_ms, data[protocol.FRAME.size :])
            os.waitpid(pid, 0)
            return
        kill = not in_time or _missing(data) <= 0
        status, reason, _, _ = self.reap(pid, kill, self.cpu_s)
        if len(data) > self.most or (in_time and data and status != Status.TIMEOUT):
            status, reason = Status.VIOLATION, "wrote to the result pipe itself"
        elif not in_time:
            status, reason = Status.TIMEOUT, f"ran longer than {self.wall_s:g} s"
        elif status == Status.TIMEOUT:
            reason = f"used more than {self.cpu_s:g} s of processor time"
        self._send(wall_ms, protocol.pack_result(status, reason.encode()))

    def _send(self, wall_ms: float, result: bytes) -> None:
        protocol.send(protocol.REPLY.pack(wall_ms) + result)

    def _collect(self, fd: int, deadline: float) -> tuple[bytes, bool]:
        """What the child wrote until it left, had written a frame or too much, or ran out of time,
        and whether that was in time."""
        self.poller.register(fd, select.POLLIN)
        data = b""
        try:
            while (left := deadline - _now()) > 0:
                events = self.poller.poll(left * 1000.0 + 1.0)
                if any(source == 0 for source, _ in events):
                    return data, False
                if events:
                    chunk = os.read(fd, protocol.READ)
                    data += chunk
                    if not chunk or len(data) > self.most or _missing(data) <= 0:
                        return data, len(data) <= self.most
            return data, False
        finally:
            self.poller.unregister(fd)


def _missing(data: bytes) -> int:
    """How many bytes a whole frame has beyond these; negative where these are more than one."""
    size = protocol.FRAME.size
    return size + (protocol.FRAME.unpack_from(data)[1] if len(data) >= size else 0) - len(data)


def _is_answer(data: bytes, nonce: bytes) -> bool:
    """Whether this is one whole frame with the right nonce, and a result as a child may give it."""
    if _missing(data) != 0 or data[:16] != nonce:
        return False
    results = protocol.unpack_results(data, protocol.FRAME.size) or []
    return len(results) == 1 and results[0][0] in _OF_CHILD


class Finder:
    """Imports nothing, and notes what was looked for that this tier lacks, but for the last one."""

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
        result = protocol.pack_result(protocol.MISSING, b"")
    protocol.write(protocol.RESULT_FD, protocol.FRAME.pack(nonce, len(result)) + result)
    os._exit(0)


def _outcome(
    program: Any, args: Any, kwargs: Any, names: dict[str, Any], limits: dict[str, Any]
) -> bytes:
    failure: BaseException | None = None
    try:
        gc.enable()
        sys.setrecursionlimit(limits["recursion"])
        exec(program, names)
        entry = names.get("f")
        if entry is None:
            raise NameError("the program defines no function f")
        value = entry(*args, **kwargs)
    except MemoryError:
        raise
    except BaseException as error:
        failure = error
    _settrace(None)
    _setprofile(None)
    gc.disable()
    sys.setrecursionlimit(_OWN_RECURSION)
    sys.set_int_max_str_digits(_OWN_DIGITS)
    if failure is not None:
        reason = _exception(failure).encode("utf-8", "backslashreplace")
        return protocol.pack_result(Status.EXCEPTION, reason)
    try:
        return protocol.pack_result(Status.OK, canonical(value, limits["output_chars"]).encode())
    except LiteralError as error:
        return protocol.pack_result(error.status, str(error)[: protocol.REASON_CHARS].encode())


def _exception(error: BaseException) -> str:
    """Type and message of an exception, without calling any method of the program's own."""
    name = type.__dict__["__name__"].__get__(type(error))
    args = BaseException.__dict__["args"].__get__(error)
    parts = [str(part) for part in args[:3] if _is_plain(part)]
    message = ": ".join(parts)
    return (f"{name}: {message}" if message else str(name))[: protocol.REASON_CHARS]


def _is_plain(value: Any) -> bool:
    """By identity of types: comparing them would call a metaclass of the program's own."""
    kind = type(value)
    if kind is int:
        return bool(value.bit_length() < 256)
    return kind is str or kind is float or kind is bool or value is None
