"""The program of a grading process: `python -m evals.math.worker own|symbolic SECONDS`.

A server that never reads an answer forks judges; a judge reads requests and writes verdicts. Each
comparison has an alarm of processor time, which ends the judge whatever it computes, and the server
forks the next one from its warm memory. A judge has `MEMORY` bytes more than the server.

Request: two frames, the gold as JSON and the response as UTF-8. Reply: the extracted answer, if
there is one, before anything computes with it; then the verdict, or what ended the judge. A frame
is its length in 8 bytes, then its bytes; replies are JSON.
"""

import gc
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

from evals.math import symbolic
from evals.math.equality import compare
from evals.math.extraction import extract
from evals.math.golds import Gold

MEMORY = 1 << 30
"""Bytes of address space that a judge may add."""
ROUNDS = 2_000
"""Comparisons until a judge makes room for a fresh one: symbolic caches grow."""
SHOWN = 2_000
"""Characters of an extracted answer in a verdict."""
_ENDED, _AGAIN = 3, 4


class _Deferred(Exception):
    """Only Math-Verify can tell, and this process does not have it."""


def main() -> None:
    """Serve until the requests end."""
    with_symbolic, seconds = sys.argv[1] == "symbolic", float(sys.argv[2])
    if with_symbolic:
        symbolic.warm()
    gc.collect()
    gc.freeze()
    while True:
        judge = os.fork()
        if judge == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os._exit(_judge(with_symbolic, seconds))
        signal.signal(signal.SIGTERM, partial(_end, judge))
        _, status = os.waitpid(judge, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.WIFSIGNALED(status):
            _write({"died": os.WTERMSIG(status)})
        elif os.WEXITSTATUS(status) != _AGAIN:
            return


def _end(judge: int, number: int, frame: FrameType | None) -> None:
    """Take the judge along, and wait for it: nobody else would."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(judge, signal.SIGKILL)
        os.waitpid(judge, 0)
    os._exit(0)


def _judge(with_symbolic: bool, seconds: float) -> int:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for _ in range(ROUNDS):
        gold, response = _read(), _read()
        if gold is None or response is None:
            return _ENDED
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            reply = _verdict(gold, response, with_symbolic)
        except MemoryError:
            signal.setitimer(signal.ITIMER_PROF, 0)
            _write({"correct": False, "reason": "memory"})
            return _AGAIN
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(reply)
    return _AGAIN


def _verdict(gold_json: bytes, response: bytes, with_symbolic: bool) -> dict[str, object]:
    gold = Gold(**json.loads(gold_json))
    found = extract(response.decode("utf-8", "surrogatepass"), gold.kind != "value")
    if found.text is None:
        return {"correct": False, "reason": found.rule}
    _write({"extracted": found.text[:SHOWN]})
    try:
        verdict = compare(gold, found.text, symbolic.same if with_symbolic else _defer)
    except _Deferred:
        return {"deferred": True}
    except MemoryError:
        raise
    except Exception as error:  # of Math-Verify, on an answer that it cannot read
        return {"correct": False, "reason": f"unreadable: {type(error).__name__}"}
    return {"correct": verdict.equal, "reason": verdict.reason}


def _defer(gold: str, answer: str) -> bool:
    raise _Deferred


def _read() -> bytes | None:
    """One frame; None at the end. Reads no byte beyond it: the next judge needs the rest."""
    size = _bytes(8)
    return None if size is None else _bytes(int.from_bytes(size, "big"))


def _bytes(count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = os.read(0, min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _write(reply: dict[str, object]) -> None:
    payload = json.dumps(reply).encode()
    data = len(payload).to_bytes(8, "big") + payload
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
