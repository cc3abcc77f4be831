"""Work over processes: in order, lazy, and clear about its end.

The functions are built-in ones, which a fresh process can import.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from operator import neg

import pytest

from code_verifier import CodeVerifierError
from code_verifier.commands.processes import process_map

OWNER = "__import__('os').getpid()"


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [0, 5, 1000, 1001, 1700])
def test_results_are_in_order(workers: int, number: int) -> None:
    expected = [-item for item in range(number)]
    assert list(process_map(neg, range(number), workers)) == expected


def test_long_work_is_shared_and_read_lazily() -> None:
    taken = []

    def items() -> Iterator[str]:
        while True:
            taken.append(OWNER)
            yield OWNER

    results = process_map(eval, items(), 2)
    owners = set(islice(results, 2000))
    results.close()  # type: ignore[attr-defined]
    assert os.getpid() in owners
    assert len(owners) >= 2
    assert len(taken) < 4000


@pytest.mark.parametrize(("workers", "number"), [(1, 1100), (2, 300), (2, 1000), (2, 1100)])
def test_an_error_of_the_items_arrives_at_its_place(workers: int, number: int) -> None:
    def items() -> Iterator[int]:
        yield from range(number)
        raise LookupError("no more")

    found: list[int] = []
    with pytest.raises(LookupError, match="no more"):
        found.extend(process_map(neg, items(), workers))
    assert len(found) == number


def test_a_worker_that_dies_is_told() -> None:
    with pytest.raises(CodeVerifierError, match="--workers 1"):
        list(process_map(eval, ["0"] * 1200 + ["__import__('os')._exit(3)"] + ["0"] * 500, 2))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_workers_end_with_a_parent_that_is_killed() -> None:
    """The workers hold the parent's output open: it ends only when they are gone."""
    program = (
        "from code_verifier.commands.processes import process_map\n"
        "from itertools import repeat\n"
        "if __name__ == '__main__':\n"
        "    for done, _ in enumerate(process_map(abs, repeat(1), 2)):\n"
        "        if done == 3000:\n"
        "            print('started', flush=True)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"started\n"
    parent.kill()
    rest, _ = parent.communicate(timeout=120)
    assert rest == b""
