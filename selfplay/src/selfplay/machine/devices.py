"""Devices and their memory."""

import math
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from code_verifier import cores
from lora_evo.model import BaseModel, choose_device
from selfplay.config import Config
from selfplay.errors import ConfigError
from selfplay.settings import one_of

GIB = 2**30
CARDS = {
    "H200": (139.7, 4.8e12, 989e12),
    "H100": (79.1, 3.35e12, 989e12),
    "A100-80GB": (79.1, 2.039e12, 312e12),
    "A100-40GB": (39.4, 1.555e12, 312e12),
    "L40S": (44.4, 0.864e12, 362e12),
    "RTX4090": (23.5, 1.008e12, 165e12),
    "RTX3090": (23.6, 0.936e12, 71e12),
    "L4": (22.0, 0.3e12, 121e12),
}
"""GPUs by name: GiB of memory; of the data sheet, bytes and dense bfloat16 FLOP a second."""
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_LENGTHENED = "expandable_segments:True"


@dataclass(frozen=True)
class Machine:
    """A device; memory: bytes."""

    name: str
    memory: float
    is_gpu: bool


def gpu(name: str) -> Machine:
    """Return a GPU of `CARDS`, in any spelling, or one with a number of GiB."""
    plain = re.sub(r"nvidia|geforce|rtx|pcie|[\W_]", "", name.lower())
    card = next((c for c in CARDS if re.sub(r"rtx|\W", "", c.lower()) == plain), None)
    gib = CARDS[card][0] if card else 0.0
    with suppress(ValueError):
        gib = gib or float(re.sub(r"gi?b\s*$", "", name.lower()))
    if not 0 < gib < math.inf:
        expected = one_of(name, list(CARDS))
        raise ConfigError(f"--gpu is {name!r}; {expected}; or a number of GiB")
    return Machine(card or f"a GPU of {gib:.4g} GiB", gib * GIB, is_gpu=True)


def this_machine(device: str, threads: int) -> Machine:
    """Return this machine's device. device: of a configuration; threads: of torch, 0 for all."""
    import torch

    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
        if not torch.cuda.is_available():
            raise ConfigError(
                "device is cuda, and torch finds no GPU here; name one with --gpu, or plan for "
                "--set device=cpu"
            )
        card = torch.cuda.get_device_properties(torch.device(device if ":" in device else "cuda"))
        return Machine(card.name, float(card.total_memory), is_gpu=True)
    count = threads or min(torch.get_num_threads(), cores())
    if not hasattr(os, "sysconf"):
        raise ConfigError("the memory of this machine is not known; name a GPU with --gpu")
    memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # no such file, or `max`
        memory = min(memory, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    return Machine(f"CPU, {count} thread{'s' * (count > 1)}", memory, is_gpu=False)


def set_allocator(config: Config) -> None:
    """Let torch's GPU allocator use expandable segments, which fragment less, with engine hf.

    The user's own value stays. vLLM's process would inherit the setting, and its sleep mode would
    then free no memory. torch reads the variable when it first uses the GPU.
    """
    if config.engine == "vllm":
        if os.environ.get(_ALLOCATOR[0]) == _LENGTHENED:
            del os.environ[_ALLOCATOR[0]]
        return
    free = not any(name in os.environ for name in _ALLOCATOR)
    if free and config.device != "cpu" and choose_device("auto").type == "cuda":
        os.environ[_ALLOCATOR[0]] = _LENGTHENED


def refuse_float32(config: Config, on_gpu: bool) -> None:
    """Raise ConfigError for dtype float32 with vLLM on a GPU: its LoRA kernels need 16 bits."""
    if on_gpu and config.engine == "vllm" and config.dtype == "float32":
        raise ConfigError(
            "dtype is float32, and on a GPU vLLM serves adapters in bfloat16 or float16 alone; "
            "type --set dtype=bfloat16, or use --engine hf"
        )


def refuse_four_bits(config: Config) -> None:
    """Raise ConfigError for a base that is stored in 4 bits with vLLM."""
    if config.engine == "vllm" and (bits := BaseModel.quantization_of(config.base)):
        raise ConfigError(f"{config.base} is in {bits}, which vLLM does not load; type --engine hf")


def refuse_spread_base(config: Config) -> None:
    """Raise ConfigError for a base that vLLM spreads over several GPUs: a worker has one."""
    gpus = config.vllm.tensor_parallel_size
    if config.engine == "vllm" and gpus > 1:
        raise ConfigError(
            f"vllm.tensor_parallel_size is {gpus}, and each of several workers has one GPU; type "
            "--set vllm.tensor_parallel_size=1, or leave out --workers and --ray"
        )


def memory_mb() -> float:
    """Return the largest resident memory that this process has had, in megabytes."""
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024 if sys.platform != "darwin" else 1024**2), 1)
