"""The fork server: preloads what programs may import, then forks one child per request.

Frames on standard input and output: 4 bytes of length (little-endian), then JSON. The first
frame out says which layers of protection are active. End of input ends the server, and a child
never outlives it.
"""

import ctypes
import gc
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from typing import Any, NoReturn

from code_verifier.jail import child, clock, modules, seccomp

_LENGTH = struct.Struct("<I")
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 4, 38, 22
_NOBODY = 65534
_NO_MEMORY = 71
_READ = 1 << 16
_libc = ctypes.PyDLL(None, use_errno=True)


def main(index: int, jail_dir: str) -> None:
    """Serve until standard input ends. `index` selects clock shift; `jail_dir` is empty."""
    modules.preload()
    clock_now = time.monotonic
    clock.shift(index)
    base_space = _address_space()
    layers = _confine(jail_dir)
    program = seccomp.build()
    layers["seccomp"] = program is not None and _try_filter(program)
    if not layers["seccomp"]:
        program = None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin = sys.stdout = sys.stderr = None
    gc.collect()
    gc.freeze()
    _send({"layers": layers, "python": sys.version.split()[0]})
    while (request := _receive()) is not None:
        _send(_execute(request, program, base_space, clock_now))


def _confine(jail_dir: str) -> dict[str, bool]:
    """Give up what the server and its children will not need."""
    layers = {"other_user": os.geteuid() != 0, "empty_root": False, "no_new_privs": False}
    try:
        os.chdir(jail_dir)
        if os.geteuid() == 0:
            os.chroot(".")
            layers["empty_root"] = True
    except OSError:
        pass
    if os.geteuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
            layers["other_user"] = True
        except OSError:
            pass
    layers["no_new_privs"] = _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_DUMPABLE, 0)
    return layers


def _try_filter(program: seccomp.Program) -> bool:
    """Whether a child under the filter still lives to leave by itself."""
    pid = _libc.fork()
    if pid == 0:
        os._exit(0 if _prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(program)) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _execute(
    request: dict[str, Any], program: seccomp.Program | None, base: int, now: Any
) -> dict[str, Any]:
    nonce, entropy = os.urandom(16), os.urandom(16)
    reader, writer = os.pipe()
    started = now()
    server = os.getpid()
    pid = _libc.fork()
    if pid == 0:
        _become_child(request, nonce, entropy, writer, program, base, server)
    os.close(writer)
    if pid < 0:
        os.close(reader)
        return {"status": "sandbox_error", "text": "the fork server could not fork"}
    limit = child.HEADER.size + 4 * request["output_chars"] + 4096
    data, in_time = _collect(reader, started + request["wall_s"], limit, now)
    wall_ms = (now() - started) * 1000.0
    os.close(reader)
    complete = _complete(data)
    if not in_time or complete:
        _kill(pid)
    status = os.waitpid(pid, 0)[1]
    if complete and data[:16] == nonce:
        _, code, unstable, _ = child.HEADER.unpack_from(data)
        text = data[child.HEADER.size :].decode("utf-8", "replace")
        if code < len(child.STATUSES):
            name = child.STATUSES[code]
            if name == "memory":
                text = f"used more than {request['memory_mb']} MiB of memory"
            return {"status": name, "text": text, "unstable": bool(unstable), "wall_ms": wall_ms}
    name, text = _ending(status, in_time, data, request)
    return {"status": name, "text": text, "unstable": False, "wall_ms": wall_ms}


def _become_child(
    request: dict[str, Any],
    nonce: bytes,
    entropy: bytes,
    writer: int,
    program: seccomp.Program | None,
    base: int,
    server: int,
) -> NoReturn:
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)
        if writer != seccomp.RESULT_FD:
            os.dup2(writer, seccomp.RESULT_FD)
        os.closerange(0, seccomp.RESULT_FD)
        os.closerange(seccomp.RESULT_FD + 1, 32)
        cpu = request["cpu_s"]
        space = base + request["memory_mb"] * 2**20
        for what, amount in (
            (resource.RLIMIT_AS, space),
            (resource.RLIMIT_CPU, int(cpu) + 1),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_NPROC, 0),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, seccomp.RESULT_FD + 1),
        ):
            resource.setrlimit(what, (amount, amount))
        signal.setitimer(signal.ITIMER_PROF, cpu)
        for name in [key for key in sys.modules if key.startswith(("code_verifier", "ctypes"))]:
            del sys.modules[name]
        if program is not None:
            address = ctypes.c_ulong(ctypes.addressof(program))
            if _libc.prctl(_PR_SET_SECCOMP, 2, address, 0, 0) != 0:
                raise OSError("the filter was refused")
    except BaseException as error:
        text = f"the child could not be set up: {error}".encode()[:200]
        code = child.STATUSES.index("sandbox_error")
        os.write(writer, child.HEADER.pack(nonce, code, 0, len(text)) + text)
        os._exit(0)
    try:
        child.serve(request, nonce, entropy)
    except MemoryError:
        os._exit(_NO_MEMORY)
    finally:
        os._exit(1)


def _collect(fd: int, deadline: float, limit: int, now: Any) -> tuple[bytes, bool]:
    """Everything the child wrote until it left, sent a whole frame, or ran out of time."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    poller.register(0, 0)  # hang-up only: the caller is gone
    data = b""
    while (left := deadline - now()) > 0:
        events = poller.poll(left * 1000.0 + 1.0)
        if any(which == 0 for which, _ in events):
            return data, False
        if events:
            chunk = os.read(fd, _READ)
            data += chunk
            if not chunk or len(data) > limit or _complete(data):
                return data, len(data) <= limit
    return data, False


def _complete(data: bytes) -> bool:
    size = child.HEADER.size
    return len(data) >= size and len(data) == size + child.HEADER.unpack_from(data)[3]


def _ending(status: int, in_time: bool, data: bytes, request: dict[str, Any]) -> tuple[str, str]:
    """Status and reason for a child that left no valid frame."""
    if len(data) >= child.HEADER.size + 4 * request["output_chars"]:
        return "violation", "wrote to the result pipe itself"
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number in (signal.SIGXCPU, signal.SIGPROF):
        return "timeout", f"used more than {request['cpu_s']:g} s of processor time"
    if not in_time:
        return "timeout", f"ran longer than {request['wall_s']:g} s"
    if number == signal.SIGSYS:
        return "violation", "made a system call that is not allowed"
    if data:
        return "violation", "wrote to the result pipe itself"
    if number == signal.SIGKILL:
        return "memory", "killed by the kernel, probably for lack of memory"
    if number:
        name = signal.Signals(number).name
        return "exception", f"crashed with {name} (often by recursion without end)"
    code = os.waitstatus_to_exitcode(status)
    if code == _NO_MEMORY:
        return "memory", f"used more than {request['memory_mb']} MiB of memory"
    return "violation", f"left without a result (exit code {code})"


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            continue


def _address_space() -> int:
    """Bytes of address space this process has now; a guess where /proc is missing."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 256 * 2**20


def _prctl(option: int, value: int, pointer: int = 0) -> bool:
    rest = (ctypes.c_ulong(pointer), ctypes.c_ulong(0), ctypes.c_ulong(0))
    return int(_libc.prctl(option, ctypes.c_ulong(value), *rest)) == 0


def _receive() -> dict[str, Any] | None:
    head = _read_exactly(_LENGTH.size)
    body = _read_exactly(_LENGTH.unpack(head)[0]) if head else None
    if body is None:
        return None
    request: dict[str, Any] = json.loads(body)
    return request


def _read_exactly(size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(0, min(size, _READ))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _send(message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    view = memoryview(_LENGTH.pack(len(body)) + body)
    while view:
        view = view[os.write(1, view) :]
