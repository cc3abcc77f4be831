"""An engine's process that dies while it is asked; real processes, no vLLM."""

import multiprocessing
import os
import signal
import threading
import time

import pytest

from lora_evo.model import vllm_server as engine_process
from lora_evo.model.vllm_server import EngineProcess, ProcessGone

FOR_EVER = threading.Event().wait


def sleeper():
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    process.start()
    return process


@pytest.fixture
def engine():
    process, watched = EngineProcess.of(sleeper)
    yield process, watched
    process.kill()
    process.join()
    process.close()


def test_answers_and_errors_of_a_living_engine_come_through(engine, monkeypatch):
    monkeypatch.setattr(engine_process, "_GRACE_S", 0.1)
    _, watched = engine
    assert watched.call(lambda: 7) == 7
    with pytest.raises(KeyError, match="none"):
        watched.call(lambda: {}["none"])
    assert watched.call(lambda: 8) == 8


def test_a_death_ends_a_call_that_would_wait_for_ever(engine):
    process, watched = engine

    def dying():
        os.kill(process.pid, signal.SIGKILL)
        FOR_EVER()

    with pytest.raises(ProcessGone, match=rf"process {process.pid} ended with exit code -9"):
        watched.call(dying)


def test_a_death_between_two_calls_is_found_at_the_next(engine):
    process, watched = engine
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with pytest.raises(ProcessGone, match="exit code -9"):
        watched.call(FOR_EVER)


def test_what_a_dying_engine_raises_is_its_death(engine, monkeypatch):
    monkeypatch.setattr(engine_process, "_GRACE_S", 3600.0)
    process, watched = engine

    def dying():
        threading.Timer(0.2, os.kill, [process.pid, signal.SIGKILL]).start()
        raise RuntimeError("lost")

    with pytest.raises(ProcessGone, match="exit code -9") as died:
        watched.call(dying)
    assert str(died.value.__cause__) == "lost"


def test_an_engine_in_this_process_is_asked_directly():
    here, watched = EngineProcess.of(threading.get_ident)
    assert watched.call(threading.get_ident) == here


def test_children_of_others_are_not_the_engines():
    other = sleeper()
    try:
        _, watched = EngineProcess.of(lambda: None)
        other.kill()
        other.join()
        assert watched.call(lambda: 1) == 1
    finally:
        other.kill()
        other.join()
        other.close()
