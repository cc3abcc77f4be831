"""Grading processes as their owner sees them: send pairs, receive verdicts in the same order.

A process ends with its owner: it reads from a pipe that closes then. A terminal's interrupt does
not reach it; `close` ends it at once.
"""

import json
import os
import signal
import subprocess
import sys
from collections import deque
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import IO

from evals.errors import EvalsError
from evals.math.golds import Gold


@dataclass(frozen=True)
class Reply:
    """A verdict. correct is None when the process, not the answer, failed.

    deferred: the own rules cannot tell; Math-Verify is to be asked.
    """

    correct: bool | None
    extracted: str | None
    reason: str
    deferred: bool = False


class Worker:
    """One process that is started when it is first needed.

    symbolic: whether it has Math-Verify, which takes seconds to start.
    seconds: of processor time for one comparison.
    """

    def __init__(self, symbolic: bool, seconds: float) -> None:
        self._kind = "symbolic" if symbolic else "own"
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._sent: deque[bytes] = deque()

    def send(self, gold: Gold, response: str) -> None:
        """Queue a pair. At most two may be under way, so that neither pipe fills."""
        request = _frame(json.dumps(asdict(gold)).encode()) + _frame(
            response.encode("utf-8", "surrogatepass")
        )
        self._sent.append(request)
        self._write(request)

    def receive(self) -> Reply:
        """The verdict on the pair that was sent first of those under way."""
        data = self._read()
        if data is None:  # the server itself was killed: once more, in a new one
            self._restart()
            data = self._read()
        if data is None:
            raise EvalsError("two grading processes in a row were killed; free memory, run again")
        self._sent.popleft()
        reply = json.loads(data)
        if "died" in reply:
            return _death(reply["died"])
        if reply.get("deferred"):
            return Reply(None, None, "deferred", deferred=True)
        return Reply(reply["correct"], reply["extracted"], reply["reason"])

    def close(self) -> None:
        """End the process and what it started."""
        process, self._process = self._process, None
        self._sent.clear()
        if process is None:
            return
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _restart(self) -> None:
        waiting = list(self._sent)
        self.close()
        for request in waiting:
            self._sent.append(request)
            self._write(request)

    def _write(self, request: bytes) -> None:
        if self._process is None:
            self._process = _start(self._kind, self._seconds)
        try:
            _pipe(self._process.stdin).write(request)
        except BrokenPipeError:
            pass  # `receive` finds the end and starts again

    def _read(self) -> bytes | None:
        if self._process is None:
            return None
        pipe = _pipe(self._process.stdout)
        size = pipe.read(8)
        data = pipe.read(int.from_bytes(size, "big")) if len(size) == 8 else b""
        return data or None


def _start(kind: str, seconds: float) -> subprocess.Popen[bytes]:
    places = [place for place in sys.path if place]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "evals.math.worker", kind, str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("a grading process without pipes")
    return pipe


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data


def _death(number: int) -> Reply:
    """What it means for the answer that its judge was ended by a signal."""
    if number == signal.SIGPROF:
        return Reply(False, None, "timeout")
    if number == signal.SIGSEGV:
        return Reply(False, None, "crash")
    return Reply(None, None, f"not judged: ended by signal {number}")
