"""Ordinary modules and scripts of unknown origin, run in fresh processes under the jail's walls.

Unlike the programs of `Sandbox`, these may import most of the standard library and numpy, have
threads and clocks, and leave out no name; what the kernel refuses them is the same: files, the
network and other processes. Their verdict is nobody's word: values and output come back as data.
"""

from __future__ import annotations

import marshal
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from code_verifier.errors import SandboxUnavailable
from code_verifier.jail import seccomp
from code_verifier.jail.protocol import RESULT_FD
from code_verifier.modules import libraries
from code_verifier.modules.reports import Calls, ScriptRun, read_report
from code_verifier.modules.wire import ENDINGS, HEAD, pack_request
from code_verifier.sandbox.closing import Closing
from code_verifier.sandbox.pool import HASH_SEEDS, REQUIRED_LAYERS
from code_verifier.sandbox.process import Process, ProcessLost

_IDLE_S = 30.0
_GRACE_S, _GRACE_FACTOR = 180.0, 110.0
_MIB = 1 << 20
_RECURSION = 1000


class ModuleRunner(Closing):
    """Fork servers for ordinary programs; a context manager, and safe to use by many threads.

    memory_mb: MiB of address space that a program may use. slots: a program runs while it holds
    one of these; runners may share them. Raises SandboxUnavailable where the kernel's filter cannot
    be had, unless `allow_weak`.
    """

    def __init__(
        self,
        memory_mb: int = 4096,
        allow_weak: bool = False,
        slots: AbstractContextManager[object] | None = None,
    ) -> None:
        self._slots = nullcontext() if slots is None else slots
        self._memory = memory_mb * _MIB
        self._allow_weak = allow_weak
        self._lock = threading.Lock()
        self._idle: dict[int, list[Process]] = {}
        self._busy: set[Process] = set()
        self._closed = False

    def close(self) -> None:
        """End all processes; a call that still waits for one ends with `fault`."""
        with self._lock:
            self._closed = True
            idle = [process for some in self._idle.values() for process in some]
            self._idle = {}
            busy = list(self._busy)
        for process in busy:
            process.end()
        for process in idle:
            process.close()

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
        full: Sequence[int] = (),
        text_chars: int = 1 << 14,
        output_bytes: int = 32 * _MIB,
        deep: bool = False,
    ) -> Calls:
        """Values of `entry(*input)` for each input, in one process, up to the first exception.

        limits_s: processor seconds of each call; module_s: of the module; total_s: of it all, for
        a program that takes the others away. prelude: a trusted program that is executed before it
        in the same module. owner: where the module has a class of this name, `entry` is a method
        of an instance of it. recursion: the recursion limit. draw: see `values.describe`. Texts of
        more than `text_chars` are left out, but for inputs at the places `full`. deep: the stack
        may grow as the memory.
        """
        order = {
            "kind": "calls",
            "cpu_s": module_s,
            "hard_s": total_s,
            "output_bytes": output_bytes,
            "stdin": b"",
            "deep": deep,
        }
        task = {
            "program": program,
            "entry": entry,
            "prelude": prelude,
            "owner": owner,
            "recursion": recursion,
            "inputs": marshal.dumps([tuple(item) for item in inputs]),
            "limits": [float(limit) for limit in limits_s],
            "draw": draw,
            "full": tuple(full),
            "text_chars": text_chars,
        }
        ending, call, spent, reason, data = self._ask(order, task)
        values, end = read_report(data, len(inputs))
        if ending == "left" and end is not None:
            ending, reason = end
            call = len(values) + 1 if ending == "exception" else call
        elif ending == "left" and not reason:
            reason = "left without a whole report"
        return Calls(tuple(values), ending, call, reason, spent)

    def run_script(
        self,
        program: str,
        stdin: str,
        *,
        cpu_s: float,
        prelude: str = "",
        recursion: int = _RECURSION,
        output_bytes: int = 16 * _MIB,
    ) -> ScriptRun:
        """Output of the program as a script with this standard input.

        prelude, recursion: as in `call`.
        """
        order = {
            "kind": "script",
            "cpu_s": cpu_s,
            "hard_s": cpu_s,
            "output_bytes": output_bytes,
            "stdin": stdin.encode("utf-8", "surrogateescape"),
            "deep": False,
        }
        task = {"program": program, "prelude": prelude, "recursion": recursion}
        ending, _, spent, reason, data = self._ask(order, task)
        done = ending == "left" and not reason
        return ScriptRun(data, "done" if done else ending, reason, spent)

    def _ask(
        self, order: dict[str, Any], task: dict[str, Any]
    ) -> tuple[str, int, float, str, bytes]:
        """The reply of a fork server, asked again in a new one if it is lost."""
        body = pack_request(order, task)
        tier = libraries.tier(task["program"])
        grace = _GRACE_S + _GRACE_FACTOR * (order["cpu_s"] + order["hard_s"])
        lost = ""
        for _ in range(2):
            process = self._take(tier)
            try:
                if process.pid is None:
                    process.start()
                    self._inspect(process)
                with self._slots:
                    reply = process.ask(body, time.monotonic() + grace)
            except ProcessLost as error:
                lost = f"a fork server was lost: {error}"
                continue
            finally:
                self._give(tier, process)
            code, call, spent, size = HEAD.unpack_from(reply)
            start = HEAD.size + size
            reason = reply[HEAD.size : start].decode("utf-8", "replace")
            return ENDINGS[code], call, spent, reason, reply[start:]
        return "fault", 0, 0.0, lost, b""

    def _take(self, tier: int) -> Process:
        with self._lock:
            if self._closed:
                raise SandboxUnavailable("the runner is closed; open it with `with`")
            idle = self._idle.get(tier)
            process = idle.pop() if idle else self._made(tier)
            self._busy.add(process)
            return process

    def _give(self, tier: int, process: Process) -> None:
        with self._lock:
            self._busy.discard(process)
            keep = process.alive and not self._closed
            if keep:
                self._idle.setdefault(tier, []).append(process)
        if not keep:
            process.close()

    def _made(self, tier: int) -> Process:
        filters = {
            "calls": seccomp.build(RESULT_FD, mild=True),
            "script": seccomp.build(1, 0, mild=True),
        }
        config: dict[str, Any] = {
            "numpy": libraries.numpy_folder() if tier == libraries.NUMPY else None,
            "memory": self._memory,
            "filters": {kind: found for kind, found in filters.items() if found is not None},
            "idle_s": _IDLE_S,
        }
        return Process("modules.server", HASH_SEEDS[0], config)

    def _inspect(self, process: Process) -> None:
        missing = [name for name in REQUIRED_LAYERS if not process.layers.get(name)]
        if missing and not self._allow_weak:
            process.close()
            raise SandboxUnavailable(
                f"this machine lacks {' and '.join(missing)}, without which a program could reach "
                "files and the network; type `code-verifier doctor`"
            )
