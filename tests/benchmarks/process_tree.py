"""What /proc says about a process and everything below it. Linux only."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """cpu_s: user and system seconds, with those of children that were waited for."""

    pid: int
    parent: int
    state: str
    cpu_s: float
    rss_bytes: int


def read_process(pid: int) -> Process | None:
    """The process, or None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    ticks = sum(int(field) for field in fields[11:15])
    return Process(pid, int(fields[1]), fields[0], ticks / _TICKS, int(fields[21]) * _PAGE)


def below(root: int) -> list[Process]:
    """All descendants of `root`, zombies among them."""
    found = [read_process(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    children: dict[int, list[Process]] = {}
    for process in found:
        if process is not None:
            children.setdefault(process.parent, []).append(process)
    result: list[Process] = []
    waiting = [root]
    while waiting:
        offspring = children.get(waiting.pop(), [])
        result += offspring
        waiting += [process.pid for process in offspring]
    return result


def cpu_seconds(root: int) -> float:
    """Processor seconds of `root` and everything below it so far."""
    own = read_process(root)
    return total_cpu([*below(root), *([own] if own is not None else [])])


def total_cpu(processes: Iterable[Process]) -> float:
    """Sum of processor seconds."""
    return sum(process.cpu_s for process in processes)


def descriptors(pid: int) -> int:
    """Open descriptors of a process; 0 when it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0
