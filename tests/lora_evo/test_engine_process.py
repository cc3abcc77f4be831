"""An engine's process that dies while it is asked; real processes, no vLLM."""

import multiprocessing
import os
import signal
import threading
import time

import pytest
import torch

from lora_evo import EngineStopped
from lora_evo.model import Serving, VLLMOptions, vllm_server
from lora_evo.model.vllm_server import ServedModel

FOR_EVER = threading.Event().wait
SERVING = Serving("tiny", "float32", torch.device("cpu"), None)


def sleeper(**arguments):
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    process.start()
    return process


def ended():
    death = r"vLLM failed to sample \(process \d+ ended with exit code -9\)"
    return pytest.raises(EngineStopped, match=death)


@pytest.fixture
def engine():
    """Return an engine whose `vllm.LLM` is its process."""
    served = ServedModel(sleeper, SERVING, VLLMOptions())
    process = served.llm
    yield served
    process.kill()
    process.join()
    process.close()


def test_answers_and_errors_of_a_living_engine_come_through(engine, monkeypatch):
    monkeypatch.setattr(vllm_server, "_GRACE_S", 0.1)
    assert engine.call("sample", lambda process: process.pid) == engine.llm.pid
    with pytest.raises(EngineStopped, match=r"vLLM failed to sample \('none'\)"):
        engine.call("sample", lambda process: {}["none"])
    assert engine.call("sample", lambda process: 8) == 8


def test_a_death_ends_a_call_that_would_wait_for_ever(engine):
    def dying(process):
        os.kill(process.pid, signal.SIGKILL)
        FOR_EVER()

    with ended():
        engine.call("sample", dying)


def test_what_a_dying_engine_raises_is_its_death(engine, monkeypatch):
    monkeypatch.setattr(vllm_server, "_GRACE_S", 3600.0)

    def dying(process):
        threading.Timer(0.2, os.kill, [process.pid, signal.SIGKILL]).start()
        raise RuntimeError("lost")

    with ended() as died:
        engine.call("sample", dying)
    assert str(died.value.__cause__.__cause__) == "lost"
