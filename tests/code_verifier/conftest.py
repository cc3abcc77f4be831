"""One sandbox for the whole folder: starting fork servers is the dear part."""

from collections.abc import Iterator

import pytest

from code_verifier import Limits, Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2, limits=Limits(wall_s=10.0, cpu_s=5.0)) as opened:
        yield opened


@pytest.fixture(scope="session")
def quick() -> Iterator[Sandbox]:
    """For programs that are meant to hit their limits."""
    with Sandbox(workers=2, limits=Limits(wall_s=0.5, cpu_s=0.4, memory_mb=64)) as opened:
        yield opened
