"""One `vllm.LLM` in its process, which may die meanwhile: started, put to sleep, woken up, ended.

vLLM's client notices such a death, stops listening, and lets the caller wait for ever.
"""

import gc
import multiprocessing
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any, TypeVar

import torch

from lora_evo.errors import LoraEvoError, first_line
from lora_evo.model.vllm_options import Serving, VLLMOptions, llm_arguments

T = TypeVar("T")
_GRACE_S = 10.0
"""How long a process that has said that it dies may take to be dead."""


class EngineDied(Exception):
    """The engine's process is gone; the message says how it ended."""


class EngineProcess:
    """The processes that an engine lives in; none when it lives in this one."""

    def __init__(self, processes: Sequence[BaseProcess] = ()) -> None:
        self._processes = list(processes)

    @classmethod
    def of(cls, start: Callable[[], T]) -> tuple[T, "EngineProcess"]:
        """Return what start returns, and the child processes that it left running."""
        before = set(multiprocessing.active_children())
        started = start()
        return started, cls([p for p in multiprocessing.active_children() if p not in before])

    def call(self, action: Callable[[], T]) -> T:
        """Return what action returns, or raise what it raises.

        Raises EngineDied as soon as the engine's process is dead; action's thread is then left
        behind. An engine within this process is asked directly.
        """
        if not self._processes:
            return action()
        outcome: Future[T] = Future()
        ready, done = multiprocessing.Pipe(duplex=False)

        def run() -> None:
            try:
                outcome.set_result(action())
            except BaseException as error:
                outcome.set_exception(error)
            finally:
                done.close()

        with ready:
            Thread(target=run, name="vllm-call", daemon=True).start()
            wait([ready, *(process.sentinel for process in self._processes)])
        if not outcome.done():
            raise EngineDied(self._ending(_GRACE_S))
        error = outcome.exception()
        ending = self._ending(_GRACE_S) if isinstance(error, Exception) else ""
        if ending:
            raise EngineDied(ending) from error
        return outcome.result()

    def _ending(self, seconds: float) -> str:
        """How the first dead process ended; empty if all of them still live after so long."""
        gone = wait([process.sentinel for process in self._processes], timeout=seconds)
        for process in self._processes:
            if process.sentinel in gone:
                process.join(seconds)  # its pipes close a moment before it can be reaped
                return f"process {process.pid} ended with exit code {process.exitcode}"
        return ""


class ServedModel:
    """The base model and its adapters inside vLLM.

    new: the class `vllm.LLM`. threads: torch's, on a CPU; 0 leaves them. Raises LoraEvoError
    when vLLM cannot serve the model.
    """

    def __init__(self, new: Any, serving: Serving, options: VLLMOptions, threads: int = 0) -> None:
        self._on_cpu = serving.device.type == "cpu"
        self._can_sleep = options.sleep and not self._on_cpu
        self._asleep: list[str] = []
        if threads:
            torch.set_num_threads(threads)  # the engine's own, once it is built, stay
        preload = os.environ.get("LD_PRELOAD")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those of vLLM's own files
                self.llm, self._process = EngineProcess.of(
                    lambda: new(**llm_arguments(serving, options))
                )
        except Exception as error:
            raise LoraEvoError(
                f"vLLM cannot serve {serving.model}: {first_line(error)}; see docs/vllm.md, "
                "or use --engine hf"
            ) from error
        finally:
            # It asks for libraries in the processes to come, which include those that judge.
            os.environ.pop("LD_PRELOAD", None)
            if preload is not None:
                os.environ["LD_PRELOAD"] = preload

    def call(self, ask: Callable[[Any], T]) -> T:
        """Return what ask makes of the `vllm.LLM`. Raises EngineDied when its process ends."""
        return self._process.call(lambda: ask(self.llm))

    def sleep(self) -> None:
        """Give the cache's memory back; the weights stay where vLLM keeps them apart."""
        if self._asleep or not self._can_sleep:
            return
        if hasattr(self.llm, "release_kv_cache_memory"):
            self.call(lambda llm: llm.sleep(level=0))
            self.call(lambda llm: llm.release_kv_cache_memory())
            self._asleep = ["kv_cache", "scheduling"]
        else:
            self.call(lambda llm: llm.sleep(level=1))
            self._asleep = ["weights", "kv_cache", "scheduling"]

    def wake_up(self) -> bool:
        """Take the memory again; whether it slept."""
        if not self._asleep:
            return False
        self.call(lambda llm: llm.wake_up(tags=self._asleep))
        self._asleep = []
        return True

    def close(self) -> None:
        """End the engine and free its memory."""
        llm, self.llm = self.llm, None
        if llm is not None:
            with suppress(Exception):  # what is dead need not be ended
                llm.llm_engine.engine_core.shutdown()
            del llm
            gc.collect()
            if not self._on_cpu:
                torch.cuda.empty_cache()
