"""One sandbox for the whole folder: starting fork servers is the dear part."""

import signal

import pytest

from code_verifier import Limits, Sandbox, ScriptRunner
from code_verifier.jail import syscalls

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it


@pytest.fixture(scope="session")
def sandbox():
    with Sandbox(workers=2, limits=Limits(wall_s=30.0, cpu_s=10.0)) as opened:
        yield opened


@pytest.fixture(scope="session")
def quick():
    """For programs that are meant to run out of time."""
    with Sandbox(workers=1, limits=Limits(wall_s=0.5, cpu_s=0.4)) as opened:
        yield opened


@pytest.fixture(scope="session")
def small():
    """For programs that are meant to run out of memory, however busy the machine is."""
    with Sandbox(workers=1, limits=Limits(wall_s=60.0, cpu_s=60.0, memory_mb=32)) as opened:
        yield opened


@pytest.fixture(scope="session")
def one():
    """One worker, so that every program follows the one before it."""
    with Sandbox(workers=1, limits=Limits(wall_s=60.0, cpu_s=20.0)) as opened:
        yield opened


@pytest.fixture(scope="session")
def runner():
    with ScriptRunner() as opened:
        yield opened


@pytest.fixture
def without_filter(monkeypatch):
    monkeypatch.setattr(syscalls, "build", lambda *_, **__: None)
