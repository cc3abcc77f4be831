"""How long our packages take to import and our commands to answer `--help`, and their memory.

    python tests/benchmarks/startup.py [--rounds 5]

Seconds of the wall in a process of its own, the fewest of the rounds, and those of Python alone.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarking import Row, parser, show

IMPORTS = ("lora_evo", "lora_evo.model", "code_verifier", "league", "evals", "selfplay")
COMMANDS = ("lora-evo", "code-verifier", "league", "evals", "selfplay")


def started(command: list[str], rounds: int) -> Row:
    """Return the fewest seconds and the largest memory of a command."""
    seconds, peak = float("inf"), 0.0
    for _ in range(rounds + 1):  # the first one fills the caches
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"exit code {process.returncode} of: {' '.join(command)}")
        seconds = min(seconds, time.perf_counter() - began)
        peak = max(peak, used.ru_maxrss / 1024)
    return {"seconds": seconds, "peak MiB": peak}


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    cases = {"python": [sys.executable, "-c", "pass"]}
    cases |= {f"import {name}": [sys.executable, "-c", f"import {name}"] for name in IMPORTS}
    tools = Path(sys.executable).parent
    cases |= {f"{name} --help": [str(tools / name), "--help"] for name in COMMANDS}
    show([{"what": name, **started(command, rounds)} for name, command in cases.items()])


if __name__ == "__main__":
    main()
