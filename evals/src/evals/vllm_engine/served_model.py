"""One `vllm.LLM`: started, put to sleep, woken up, ended."""

import gc
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import torch

from evals.errors import EvalsError, first_line
from evals.vllm_engine.engine_process import EngineProcess
from evals.vllm_engine.options import Serving, VLLMOptions, llm_arguments

T = TypeVar("T")


class ServedModel:
    """The base model and its adapters inside vLLM.

    new: the class `vllm.LLM`. threads: torch's, on a CPU; 0 leaves them. Raises EvalsError, in one
    line, when vLLM cannot serve the model.
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
            raise EvalsError(
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
        """Give the cache's memory back; the weights stay where that can be told apart."""
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
