"""The machine under whose name digests of bytes are recorded."""

import platform
from pathlib import Path

import torch


def machine() -> str:
    """Return the build of torch and the kind of processor, which decide how results are rounded."""
    words = Path("/proc/cpuinfo").read_text().partition("vendor_id")[2].split()
    maker, capability = words[1] if words else "", torch.backends.cpu.get_cpu_capability()
    processor = f"{platform.machine()} {maker}".strip()
    return f"torch {torch.__version__.split('+')[0]}, {processor}, {capability}"
