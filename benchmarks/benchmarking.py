"""What the benchmarks share: arguments, a process for each figure, clocks, memory and tables."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]
MIB = 2**20


def parser(text: str | None, **defaults: str | float) -> argparse.ArgumentParser:
    """Return a parser whose help is the script's docstring, with an option for each default."""
    plain = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(description=text, formatter_class=plain)
    for name, default in defaults.items():
        options.add_argument(f"--{name}", type=type(default), default=default)
    return options


def alone(*words: object, env: Mapping[str, str] | None = None) -> Any:
    """Run Python on `words` in a process of its own; return the JSON that it printed."""
    command = [sys.executable, *map(str, words)]
    process = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | (env or {})
    )
    return json.loads(process.stdout)


def best_of(
    rounds: int,
    variants: Mapping[str, Callable[[], object]],
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Return the fewest seconds of each variant, measured in turn, after one round to warm up."""
    best = dict.fromkeys(variants, float("inf"))
    for turn in range(rounds + 1):
        for name, work in variants.items():
            start = clock()
            work()
            if turn:
                best[name] = min(best[name], clock() - start)
    return best


def show(rows: Sequence[Row], head: bool = True) -> None:
    """Print the rows as a Markdown table; head: with the names of its columns."""
    if head:
        print("| " + " | ".join(rows[0]) + " |\n" + "|---" * len(rows[0]) + "|")
    for row in rows:
        print("| " + " | ".join(map(text, row.values())) + " |", flush=True)


def text(value: object) -> str:
    """Return a cell: numbers in three digits or more."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def memory(field: str) -> int:
    """Return a figure of the kernel's about this process in bytes: VmRSS, VmHWM. Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(f"{field}:")))


@dataclass(frozen=True)
class Process:
    """cpu_s: user and system seconds, with those of children that were waited for."""

    pid: int
    parent: int
    state: str
    cpu_s: float
    rss_mib: float
    descriptors: int


def read_process(pid: int) -> Process | None:
    """Return the process, or None when it is gone. Linux only."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    cpu_s = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    rss_mib = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / MIB
    return Process(pid, int(fields[1]), fields[0], cpu_s, rss_mib, descriptors)


def family(root: int) -> list[Process]:
    """Return the process `root` and all its descendants, zombies among them."""
    processes = [read_process(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    alive = [process for process in processes if process is not None]
    result = [process for process in alive if process.pid == root]
    for parent in result:  # grows while it is read
        result += [process for process in alive if process.parent == parent.pid]
    return result
