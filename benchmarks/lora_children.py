"""CPU seconds and memory of children of LoRA adapters, ours and those of populora.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/lora_children.py [--ranks 32]
        [--dtypes bfloat16] [--layers 28] [--repeats 3] [--only NAME ...]

Adapters of Qwen2.5-7B's shapes (196 modules) are made on the spot in a temporary folder (TMPDIR).
The floor is safetensors' load_file and save_file of the first parent's weights. Every operator of
lora_evo then makes a directory from directories: reading, checking, hashing, writing, syncing.
populora computes in memory alone. Each contestant is a process of its own with one torch thread;
CPU seconds are the fewest of the repeats, by turns with the floor. Memory is how far the resident
memory peaks during the first child above what it was before, imports done (Linux only): anonymous
memory and touched pages of mapped files. lora_evo maps a file for a
module at a time. populora is optional.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from benchmarking import Row, alone, best_of, memory, parser, show
from lora_peers import POPULORA, population, populora_call, write_family
from safetensors.torch import load_file, save_file

from lora_evo import OPERATORS, load_adapter, write_child

WEIGHTS = "adapter_model.safetensors"


def main() -> None:
    options = parser(__doc__, layers=28, repeats=3)
    options.add_argument("--ranks", type=int, nargs="+", default=[32])
    options.add_argument("--dtypes", nargs="+", default=["bfloat16"])
    options.add_argument("--only", nargs="+", default=[], help="parts of names")
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = options.parse_args()
    torch.set_num_threads(1)
    if args.one:
        print(json.dumps(one(Path(args.one[0]), args.one[1], args.repeats)))
        return
    if find_spec("populora") is None:
        print("populora is not installed: left out")
    for rank in args.ranks:
        for dtype in args.dtypes:
            print(f"rank {rank}, {dtype}")
            show(speeds(rank, dtype, args))


def names(chosen: list[str]) -> list[str]:
    """The contestants, as `--one` knows them: an operator and its second parent."""
    mutations = [f"{n}/-" for n in OPERATORS if OPERATORS[n].kind == "mutation"]
    crosses = [n for n in OPERATORS if OPERATORS[n].kind == "crossover"]
    pairs = [f"{n}/{other}" for n in crosses for other in ("independent", "sibling")]
    peers = [] if find_spec("populora") is None else [f"populora {name}" for name in POPULORA]
    everyone = ["floor", *mutations, *pairs, *peers]
    return [n for n in everyone if not chosen or n == "floor" or any(c in n for c in chosen)]


def speeds(rank: int, dtype: str, args: argparse.Namespace) -> list[Row]:
    """Return a row for each contestant, each from a process of its own."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        write_family(Path(scratch), rank, getattr(torch, dtype), args.layers)
        size = (Path(scratch) / "first" / WEIGHTS).stat().st_size
        for name in names(args.only):
            row = alone(__file__, "--one", scratch, name, "--repeats", args.repeats)
            row["times floor"] = row["CPU s"] / row.pop("floor s")
            row["memory of the adapter"] = row.pop("memory") / size
            rows.append({"contestant": name, **row})
    return rows


def one(folder: Path, name: str, repeats: int) -> Row:
    """Fewest CPU seconds of one contestant and the floor, and how far its memory grew."""
    call, floor = contestant(folder, name), contestant(folder, "floor")
    before = memory("VmRSS")
    started = time.perf_counter()
    call()
    wall, grown = time.perf_counter() - started, memory("VmHWM") - before
    best = best_of(repeats, {"CPU s": call, "floor s": floor})
    return {"first wall s": wall, **best, "memory": max(grown, 0)}


def contestant(folder: Path, name: str) -> Callable[[], object]:
    """Return what makes one child."""
    first, out = folder / "first", folder / "child"
    if name == "floor":
        target = folder / "floor.safetensors"
        return lambda: save_file(load_file(first / WEIGHTS), target, metadata={"format": "pt"})
    if name.startswith("populora"):
        parents = [load_adapter(first), load_adapter(folder / "independent")]
        return populora_call(name.removeprefix("populora "), population(parents))
    operator, _, other = name.partition("/")
    parents = [first] if other == "-" else [first, folder / other]
    return lambda: write_child(operator, parents, out, seed=1, overwrite=True)


if __name__ == "__main__":
    main()
