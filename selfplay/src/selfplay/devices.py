"""Devices: their memory, and how fast they compute and read."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from selfplay.errors import ConfigError
from selfplay.settings import one_of

GIB = 2**30
CARDS = {
    "H200": (139.7, 989, 4800),
    "H100": (79.1, 989, 3350),
    "A100-80GB": (79.1, 312, 2039),
    "A100-40GB": (39.4, 312, 1555),
    "L40S": (44.4, 362, 864),
    "RTX4090": (23.5, 165, 1008),
    "RTX3090": (23.6, 71, 936),
    "L4": (22.0, 121, 300),
}
"""GiB of memory, and the data sheet's TFLOP/s (dense bfloat16) and GB/s."""
REACHED = {
    "vllm": ((0.5, 0.7), (0.3, 0.4)),
    "eager": ((0.35, 0.4), (0.15, 0.1)),
    "cpu": ((1.5, 1.5), (0.5, 0.5)),
}
"""Shares of arithmetic and of reading at a fast end and at a slow one: assumptions."""
CPU_FLOPS, CPU_READS = 60e9, 8e9
"""Per thread; measured with a model of 135 M parameters in float32 on a busy machine."""


@dataclass(frozen=True)
class Machine:
    """A device: bytes of memory; operations and bytes read a second, a GPU's at most."""

    name: str
    memory: float
    flops: float
    reads: float
    is_gpu: bool

    def reached(self, *, eager: bool, slow: bool) -> tuple[float, float]:
        """Return operations and bytes a second that are taken as reached, by vLLM or eager code."""
        kind = ("eager" if eager else "vllm") if self.is_gpu else "cpu"
        computed, read = REACHED[kind][slow]
        return self.flops * computed, self.reads * read


def gpu(what: str) -> Machine:
    """Return a GPU of `CARDS`, or one of so many GiB with the rates of that next in size."""
    known = {name.lower(): name for name in CARDS}
    name = known.get(what.lower())
    try:
        gib = CARDS[name][0] if name else float(what)
    except ValueError:
        expected = one_of(what, list(CARDS))
        raise ConfigError(f"--gpu is {what!r}; {expected}; or a number of GiB") from None
    return _card(name or f"a GPU of {gib:.4g} GiB", gib * GIB, [name] if name else CARDS)


def _card(name: str, memory: float, like: Iterable[str]) -> Machine:
    """Return a GPU with the rates of that of `like` which is next in size."""
    nearest = min(like, key=lambda known: abs(CARDS[known][0] - memory / GIB))
    _, teraflops, gigabytes = CARDS[nearest]
    return Machine(name, memory, teraflops * 1e12, gigabytes * 1e9, is_gpu=True)


def this_machine(device: str, threads: int) -> Machine:
    """Return what is here: device as in a configuration, threads of torch (0: all cores)."""
    import torch

    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
        if not torch.cuda.is_available():
            raise ConfigError(
                "device is cuda, and torch finds no GPU here; name one with --gpu, or plan for "
                "--set device=cpu"
            )
        card = torch.cuda.get_device_properties(torch.device(device if ":" in device else "cuda"))
        names = [n for n in CARDS if n.partition("-")[0] in card.name.upper().replace(" ", "")]
        return _card(card.name, card.total_memory, names or CARDS)
    cores = threads or os.cpu_count() or 1
    memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # no such file, or `max`
        memory = min(memory, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    name = f"CPU, {cores} thread{'s' * (cores > 1)}"
    return Machine(name, memory, CPU_FLOPS * cores, CPU_READS * cores, is_gpu=False)
