"""CPU seconds and peak memory of `diversity` on synthetic adapters of a Qwen2.5-7B's shapes.

    python tests/benchmarks/lora_diversity.py FOLDER [--members 8] [--rank 32] [--layers 28]

Adapters are made in FOLDER (161 MB each at rank 32 in bf16; kept for the next run). Each figure is
of a process of its own, on one thread; the floor is reading all factors and checking them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch

from lora_evo import Adapter, AdapterConfig, Slot, save_adapter
from lora_evo.files.directory import open_adapter
from lora_evo.population.diversity import diversity_of_directories

_WIDTH, _KEYS, _INNER = 3584, 512, 18944
_SHAPES = {
    "self_attn.q_proj": (_WIDTH, _WIDTH),
    "self_attn.k_proj": (_WIDTH, _KEYS),
    "self_attn.v_proj": (_WIDTH, _KEYS),
    "self_attn.o_proj": (_WIDTH, _WIDTH),
    "mlp.gate_proj": (_WIDTH, _INNER),
    "mlp.up_proj": (_WIDTH, _INNER),
    "mlp.down_proj": (_INNER, _WIDTH),
}


def make(folder: Path, seed: int, rank: int, layers: int) -> None:
    """Write one adapter: A at PEFT's initial scale, columns of B decaying."""
    names = [name.rpartition(".")[2] for name in _SHAPES]
    config = AdapterConfig.new(r=rank, lora_alpha=2 * rank, target_modules=names)
    noise = torch.Generator().manual_seed(seed)
    slots = {}
    for layer in range(layers):
        for name, (inputs, outputs) in _SHAPES.items():
            a = (torch.rand(rank, inputs, generator=noise) * 2 - 1) / inputs**0.5
            b = torch.randn(outputs, rank, generator=noise) * 0.01 / torch.arange(1, rank + 1)
            path = f"model.layers.{layer}.{name}"
            slots[path] = Slot(a.bfloat16(), b.bfloat16(), config.scale(path))
    save_adapter(Adapter(config, slots), folder)


def measure(task: str, folders: list[Path]) -> dict[str, float]:
    """Run one task in this process: CPU seconds, and MiB over what was held before."""
    before = _held("VmRSS")
    start = time.process_time()
    if task == "floor":
        for folder in folders:
            with open_adapter(folder) as reader:
                for path in reader.paths:
                    reader.slot(path)
    else:
        diversity_of_directories(folders, spaces=task == "spaces")
    seconds = time.process_time() - start
    return {"cpu_seconds": round(seconds, 2), "peak_mib": round(_held("VmHWM") - before)}


def _held(name: str) -> float:
    """A line of Linux's account of this process, in MiB; ru_maxrss would count its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--task", choices=("floor", "diversity", "spaces"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    folders = [
        given.folder / f"r{given.rank}-l{given.layers}-{seed:03d}" for seed in range(given.members)
    ]
    torch.set_num_threads(1)
    if given.task:
        print(json.dumps(measure(given.task, folders)))
        return
    for seed, folder in enumerate(folders):
        if not folder.is_dir():
            make(folder, seed, given.rank, given.layers)
    for task in ("floor", "diversity", "spaces"):
        command = [sys.executable, *sys.argv, "--task", task]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print(f"{task:10} {done.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
