"""The processes of a run, found by a word in their environment, also where their parent is gone."""

import os
import subprocess
import sys
import time
from ipaddress import ip_address
from pathlib import Path

_COMMAND = "-m", "selfplay"
_OURS = {
    "gcs_server": b"/gcs/gcs_server",
    "raylet": b"/raylet/raylet",
    "worker": b"ray::Worker",
    "driver": b"\0selfplay\0",
    "vllm": b"VLLM::EngineCore",
}


def started(
    home: Path, token: str, *words: object, program: tuple[object, ...] = _COMMAND, **variables: str
) -> "subprocess.Popen[bytes]":
    """Start a command of selfplay; what it says is added to `said` beside the run's directory."""
    home.parent.mkdir(exist_ok=True)
    with home.with_name("said").open("ab") as said:
        return subprocess.Popen(
            [sys.executable, *map(str, (*program, *words))],
            env=os.environ | {"OMP_NUM_THREADS": "1", "OF_THIS_RUN": token} | variables,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def living(token: str) -> dict[int, str]:
    """Return what each living process with this word is: a key of `_OURS`, or its command line."""
    kinds = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"OF_THIS_RUN={token}\0".encode() in (path / "environ").read_bytes():
                line = (path / "cmdline").read_bytes()
                text = line.replace(b"\0", b" ").decode()
                kinds[int(path.name)] = next((k for k, p in _OURS.items() if p in line), text)
        except OSError:  # it ended, or is not ours to read
            continue
    return kinds


def gone(token: str, seconds: float) -> dict[int, str]:
    """Wait until no process with this word lives; return those that still do after so long."""
    end = time.monotonic() + seconds
    while (left := living(token)) and time.monotonic() < end:
        time.sleep(0.2)
    return left


def listening(process: int) -> set[str]:
    """Return the addresses at which a process listens."""
    home = Path(f"/proc/{process}")
    links = [os.readlink(p) for p in (home / "fd").iterdir() if p.is_symlink()]
    sockets = {link[8:-1] for link in links if link.startswith("socket:[")}
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in (home / "net" / table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in sockets:
                digits = words[1].partition(":")[0]  # four bytes at a time, the last first
                quads = [bytes.fromhex(digits[i : i + 8])[::-1] for i in range(0, len(digits), 8)]
                address = ip_address(b"".join(quads))
                addresses.add(str(getattr(address, "ipv4_mapped", None) or address))
    return addresses
