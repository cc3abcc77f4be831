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
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import IO, Any

from code_verifier.sandbox.closing import Closing
from evals.errors import EvalsError
from evals.math.golds import Gold

PATIENCE_S = 10.0
"""For a process that was asked to end."""


@dataclass(frozen=True)
class Reply:
    """A verdict. correct is None when the process, not the answer, failed.

    deferred: the own rules cannot tell; Math-Verify is to be asked.
    """

    correct: bool | None
    extracted: str | None
    reason: str
    deferred: bool = False


class Worker(Closing):
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
        replies = self._replies() or self._restart()
        if replies is None:
            raise EvalsError("two grading processes in a row were killed; free memory, run again")
        self._sent.popleft()
        reply = replies[-1]
        extracted = replies[0].get("extracted")
        if "died" in reply:
            return _death(reply["died"], extracted)
        if reply.get("deferred"):
            return Reply(None, extracted, "deferred", deferred=True)
        return Reply(reply["correct"], extracted, reply["reason"])

    def close(self) -> None:
        """End the process and what it started."""
        process, self._process = self._process, None
        self._sent.clear()
        if process is None:
            return
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _restart(self) -> list[dict[str, Any]] | None:
        """What a new process replies, where the server itself was killed."""
        waiting = list(self._sent)
        self.close()
        for request in waiting:
            self._sent.append(request)
            self._write(request)
        return self._replies()

    def _write(self, request: bytes) -> None:
        if self._process is None:
            self._process = _start(self._kind, self._seconds)
        with suppress(BrokenPipeError):  # `receive` finds the end and starts again
            _send(_pipe(self._process.stdin), request)

    def _replies(self) -> list[dict[str, Any]] | None:
        """The extracted answer, if one was found, and the verdict; None when the process ended."""
        found: list[dict[str, Any]] = []
        while self._process is not None and (not found or "extracted" in found[-1]):
            pipe = _pipe(self._process.stdout)
            size = _receive(pipe, 8)
            data = _receive(pipe, int.from_bytes(size, "big")) if size else None
            if data is None:
                return None
            found.append(json.loads(data))
        return found or None


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


def _send(pipe: IO[bytes], request: bytes) -> None:
    """All of a request: a pipe without a buffer may take less at a time."""
    rest = memoryview(request)
    while rest:
        rest = rest[pipe.write(rest) :]


def _receive(pipe: IO[bytes], count: int) -> bytes | None:
    """So many bytes; None when the process ended before."""
    data = b""
    while len(data) < count:
        part = pipe.read(count - len(data))
        if not part:
            return None
        data += part
    return data


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data


def _death(number: int, extracted: str | None) -> Reply:
    """What it means for the answer that its judge was ended by a signal."""
    if number == signal.SIGPROF:
        return Reply(False, extracted, "timeout")
    if number == signal.SIGSEGV:
        return Reply(False, extracted, "crash")
    return Reply(None, extracted, f"not judged: ended by signal {number}")
