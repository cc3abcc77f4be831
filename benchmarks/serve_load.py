"""Requests a second of `code-verifier serve`, and how long each takes, by the number of clients.

    python benchmarks/serve_load.py [--requests N] [--workers N]

Every request is a short script with an input of its own, on a connection of its own, as the usual
clients send it; an answer to another's input ends the benchmark with exit code 1. Clients are
threads of another process than the server's.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles

from benchmarking import parser, show

PROGRAM = "print(sum(map(int, input().split())))"


def ask(url: str, number: int) -> float:
    """Send one request; return its seconds."""
    row = {"code": PROGRAM, "language": "python", "stdin": f"{number} 1"}
    started = time.perf_counter()
    with urllib.request.urlopen(url, json.dumps(row).encode()) as response:
        answer = json.load(response)
    if answer["run_result"]["stdout"] != f"{number + 1}\n":
        raise SystemExit(f"wrong answer to {number}: {answer}")
    return time.perf_counter() - started


def main() -> None:
    args = parser(__doc__, requests=600, workers=os.cpu_count() or 1).parse_args()
    command = ["-m", "code_verifier", "serve", "--port", "0", "--workers", str(args.workers)]
    rows = []
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[0]
            for clients in (1, 8, 32):
                with ThreadPoolExecutor(clients) as pool:
                    list(pool.map(lambda k: ask(url, k), range(4 * clients)))
                    started = time.perf_counter()
                    seconds = list(pool.map(lambda k: ask(url, k), range(args.requests)))
                    spent = time.perf_counter() - started
                rows.append(
                    {
                        "clients": clients,
                        "requests/s": args.requests / spent,
                        "median ms": 1000 * median(seconds),
                        "99 % ms": 1000 * quantiles(seconds, n=100)[98],
                    }
                )
        finally:
            server.terminate()
    show(rows)


if __name__ == "__main__":
    main()
