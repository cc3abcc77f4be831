"""CPU seconds, memory and errors of children of LoRA adapters, ours and those of peers.

    OMP_NUM_THREADS=1 taskset -c 0 python tests/benchmarks/lora_children.py [--ranks 32]
        [--dtypes bfloat16] [--layers 28] [--repeats 3] [--only NAME ...] [--json]

Adapters of Qwen2.5-7B's shapes (196 modules) are made on the spot in a temporary folder (TMPDIR).
The floor is safetensors' load_file and save_file of the first parent's weights. Every operator of
lora_evo then makes a directory from directories: reading, checking, hashing, writing, syncing.
populora computes in memory alone. Each contestant is a process of its own with one torch thread;
CPU seconds are those of the process, the least of the repeats, on one and on two worker threads
(the latter only without taskset), and so are those of the floor, taken by turns in the same
process. Memory is how far the resident memory peaks during the first child above what it was
before, imports done (Linux only): anonymous memory and touched pages of mapped files. lora_evo
does not map files.
Errors are of the update, on a reduced shape in float32, relative to the exact answer cut to rank r.
populora and peft are optional: what is missing is named.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lora_peers import (
    POPULORA,
    missing,
    peft_updates,
    population,
    populora_call,
    populora_updates,
    relative_error,
)
from lora_shapes import KINDS, REDUCED, adapter, relative, write_family
from safetensors.torch import load_file, save_file

from lora_evo import OPERATORS, Adapter, cross, cross_directory, load_adapter, mutate_directory

WEIGHTS = "adapter_model.safetensors"
FITNESS = {"xes", "factor_xes"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument("--ranks", type=int, nargs="+", default=[32])
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16"])
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.one:
        folder, name, threads = options.one
        print(json.dumps(one(Path(folder), name, int(threads), options.repeats)))
        return
    rows = [*speeds(options), *([] if options.only else errors())]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print("\n".join(row["text"] for row in rows))
    for name in missing():
        print(f"{name} is not installed: left out")


def names(chosen: list[str]) -> list[str]:
    """The contestants, as `--one` knows them."""
    ours = [f"{n}/{other}" for n in OPERATORS for other in others(n)]
    peers = [] if "populora" in missing() else [f"populora {name}" for name in POPULORA]
    everyone = ["floor", *ours, *peers]
    return [n for n in everyone if not chosen or n == "floor" or any(c in n for c in chosen)]


def others(operator: str) -> list[str]:
    """The second parents to try: none for a mutation."""
    return ["-"] if OPERATORS[operator].kind == "mutation" else ["independent", "sibling"]


def speeds(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for rank in options.ranks:
        for dtype in options.dtypes:
            with tempfile.TemporaryDirectory() as scratch:
                write_family(Path(scratch), rank, getattr(torch, dtype), options.layers)
                size = (Path(scratch) / "first" / WEIGHTS).stat().st_size
                for name in names(options.only):
                    alone = name == "floor" or name.startswith("populora")
                    for threads in (1,) if alone else options.threads:
                        row = started(scratch, name, threads, options.repeats)
                        row |= {
                            "rank": rank,
                            "dtype": dtype,
                            "times_floor": row["cpu_s"] / row["floor_s"],
                        }
                        row["memory_share"] = row["memory"] / size
                        row["text"] = (
                            f"r{rank:<3} {dtype:9} {name:34} threads {threads}  "
                            f"cpu {row['cpu_s']:7.3f} s  wall {row['wall_s']:7.3f} s  "
                            f"x floor {row['times_floor']:6.2f}  memory {row['memory'] / 1e6:6.0f} "
                            f"MB ({row['memory_share']:.0%} of the adapter)"
                        )
                        print(row["text"], file=sys.stderr, flush=True)
                        rows.append(row)
    return rows


def started(folder: str, name: str, threads: int, repeats: int) -> dict[str, Any]:
    """One contestant in a process of its own."""
    command = [sys.executable, __file__, "--one", folder, name, str(threads)]
    done = subprocess.run(
        [*command, "--repeats", str(repeats)], check=True, capture_output=True, text=True
    )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def one(folder: Path, name: str, threads: int, repeats: int) -> dict[str, Any]:
    """Best CPU and wall seconds of one contestant, and how far its memory grew."""
    call = contestant(folder, name, threads)
    floor = contestant(folder, "floor", 1)
    before = memory_peak("VmRSS")
    call()
    grown = memory_peak("VmHWM") - before
    # By turns with the floor: a busy machine is then equally busy for both.
    best = {"cpu_s": float("inf"), "wall_s": float("inf"), "floor_s": float("inf")}
    for _ in range(repeats):
        start, start_wall = time.process_time(), time.perf_counter()
        call()
        middle = time.process_time()
        best["cpu_s"] = min(best["cpu_s"], middle - start)
        best["wall_s"] = min(best["wall_s"], time.perf_counter() - start_wall)
        middle = time.process_time()
        floor()
        best["floor_s"] = min(best["floor_s"], time.process_time() - middle)
    return {"name": name, "threads": threads, "memory": max(grown, 0), **best}


def memory_peak(field: str) -> int:
    """A memory figure of this process in bytes, as Linux keeps it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(field)))


def contestant(folder: Path, name: str, threads: int) -> Callable[[], object]:
    first, out = folder / "first", folder / "child"
    if name == "floor":
        target = folder / "floor.safetensors"
        return lambda: save_file(load_file(first / WEIGHTS), target, metadata={"format": "pt"})
    if name.startswith("populora"):
        parents = [load_adapter(first), load_adapter(folder / "independent")]
        return populora_call(name.removeprefix("populora "), population(parents))
    operator, _, other = name.partition("/")
    if other == "-":
        return lambda: mutate_directory(
            operator, first, out, seed=1, threads=threads, overwrite=True
        )
    extra: dict[str, Any] = {"fitness": [0.7, 0.4]} if operator in FITNESS else {}
    pair = [first, folder / other]
    return lambda: cross_directory(
        operator, pair, out, seed=1, threads=threads, overwrite=True, **extra
    )


def errors() -> list[dict[str, Any]]:
    """The mean of two parents: |child - exact| / |exact| for every maker and kind of pair."""
    rows = []
    for kind in (*KINDS, "other alpha"):
        first = adapter(1, 8, torch.float32, REDUCED, layers=2)
        second = relative(first, kind)
        if kind == "other alpha":
            second = adapter(3, 8, torch.float32, REDUCED, layers=2, alpha=64)
        exact = exact_mean(first, second)
        found = {"average": dense(cross([first, second], "average", 1))}
        found["factor_average"] = dense(cross([first, second], "factor_average", 1))
        if "populora" not in missing():
            members = population([first, second])
            populora_call("average", members)()
            found["populora average"] = populora_updates(members)
        if "peft" not in missing():
            for way in ("linear", "dare_linear", "svd"):
                found[f"peft {way}"] = peft_updates([first, second], way, [0.5, 0.5])
        for name, updates in found.items():
            error = relative_error(updates, exact)
            text = f"mean of two parents, {kind:12} {name:20} error {error:.2e}"
            rows.append({"name": name, "parents": kind, "error": error, "text": text})
            print(text, file=sys.stderr, flush=True)
    return rows


def dense(made: Adapter) -> dict[str, torch.Tensor]:
    return {p: s.scale * s.B.double() @ s.A.double() for p, s in made.slots.items()}


def exact_mean(first: Adapter, second: Adapter) -> dict[str, torch.Tensor]:
    """The best rank-r approximation of the mean update, by a dense SVD in float64."""
    one_side, other_side = dense(first), dense(second)
    best = {}
    for path, update in one_side.items():
        u, values, vt = torch.linalg.svd((update + other_side[path]) / 2, full_matrices=False)
        rank = first.slots[path].rank
        best[path] = (u[:, :rank] * values[:rank]) @ vt[:rank]
    return best


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the docstring."""


if __name__ == "__main__":
    main()
