"""Processor seconds until a package is imported, and until its command has printed its help.

    python benchmarks/start_up.py [--rounds 5]

Each figure is the least of some runs in processes of their own, user and system time together;
the first row is Python that does nothing.
"""

import os
import subprocess
import sys

from benchmarking import Row, parser, show

PACKAGES = ("league", "code_verifier", "lora_evo", "lora_evo.model", "evals", "selfplay")


def spent(words: list[str]) -> float:
    """Return the processor seconds of a Python process. Raises CalledProcessError."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure all packages in turn, print the table."""
    args = parser(__doc__, rounds=5).parse_args()
    runs = {"nothing": ["-c", "pass"]}
    runs |= {f"import {name}": ["-c", f"import {name}"] for name in PACKAGES}
    commands = [name for name in PACKAGES if "." not in name]
    runs |= {f"{name} --help": ["-m", name, "--help"] for name in commands}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(args.rounds):
        for name, words in runs.items():
            best[name] = min(best[name], spent(words))
    floor = best["nothing"]
    rows: list[Row] = [
        {"what": name, "CPU s": seconds, "beyond Python": seconds - floor}
        for name, seconds in best.items()
    ]
    show(rows)


if __name__ == "__main__":
    main()
