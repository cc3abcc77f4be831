"""What a run would run on: memory, and the rates that times are reckoned with.

Rates are assumptions. Peaks are those of the vendor's data sheets (dense bfloat16, the SXM form
where there is one), and of them `COMPUTE_SHARE` and `READ_SHARE` are taken as reached, which is
usual for models of this kind. Those of the CPU are per thread and were measured with a model of
135 M parameters in float32 on a busy machine: 225 tokens a second read, 15 written in one row.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from selfplay.errors import ConfigError

GIB = 2**30
COMPUTE_SHARE, READ_SHARE = 0.4, 0.6
CPU_FLOPS, CPU_READS = 60e9, 8e9


@dataclass(frozen=True)
class Machine:
    """A device."""

    name: str
    memory: float
    """Bytes that programs can use."""
    flops: float
    """Floating-point operations a second that are reached."""
    reads: float
    """Bytes a second that are read."""
    is_gpu: bool


@dataclass(frozen=True)
class _Card:
    gib: float
    teraflops: float
    gigabytes: float


CARDS = {
    "H200": _Card(139.7, 989, 4800),
    "H100": _Card(79.1, 989, 3350),
    "A100-80GB": _Card(79.1, 312, 2039),
    "A100-40GB": _Card(39.4, 312, 1555),
    "L40S": _Card(44.4, 362, 864),
    "RTX4090": _Card(23.5, 165, 1008),
    "RTX3090": _Card(23.6, 71, 936),
    "L4": _Card(22.0, 121, 300),
}


def gpu_named(name: str) -> Machine:
    """Return a GPU of the table, by any spelling. Raises ConfigError for another."""
    spelt = {_plain(known): known for known in CARDS}
    found = spelt.get(_plain(name))
    if found is None:
        close = get_close_matches(_plain(name), list(spelt), n=1, cutoff=0.5)
        hint = f"did you mean {spelt[close[0]]}? " if close else ""
        raise ConfigError(
            f"no rates are known of a GPU {name!r}; {hint}known: {', '.join(CARDS)}; or give "
            "--memory-gb"
        )
    return _gpu(found, CARDS[found], CARDS[found].gib * GIB)


def gpu_with(memory_gb: float) -> Machine:
    """Return a GPU of so many GiB, with the rates of the known one next in size."""
    name = min(CARDS, key=lambda n: abs(CARDS[n].gib - memory_gb))
    return _gpu(f"a GPU of {memory_gb:g} GiB", CARDS[name], memory_gb * GIB)


def found_machine(device: str, threads: int) -> Machine:
    """Return what is here: device as in a configuration, threads of torch (0: all cores)."""
    import torch

    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
        if not torch.cuda.is_available():
            raise ConfigError(
                "device is cuda, and torch finds no GPU here; name one with --gpu "
                f"({', '.join(CARDS)}) or --memory-gb, or plan for --set device=cpu"
            )
        card = torch.cuda.get_device_properties(torch.device(device if ":" in device else "cuda"))
        names = [n for n in CARDS if _plain(n.partition("-")[0]) in _plain(card.name)]
        near = min(names or CARDS, key=lambda n: abs(CARDS[n].gib * GIB - card.total_memory))
        return _gpu(card.name, CARDS[near], card.total_memory)
    cores = threads or os.cpu_count() or 1
    name = f"CPU, {cores} thread{'s' * (cores > 1)}"
    return Machine(name, main_memory(), CPU_FLOPS * cores, CPU_READS * cores, is_gpu=False)


def main_memory() -> float:
    """Return the bytes of main memory that this process may use: the machine's, or its group's."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no such file, or `max`
        whole = min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return float(whole)


def _gpu(name: str, card: _Card, memory: float) -> Machine:
    flops, reads = card.teraflops * 1e12 * COMPUTE_SHARE, card.gigabytes * 1e9 * READ_SHARE
    return Machine(name, memory, flops, reads, is_gpu=True)


def _plain(name: str) -> str:
    return "".join(c for c in name.upper() if c.isalnum())
