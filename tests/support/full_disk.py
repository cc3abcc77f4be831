"""A disk that gets full: a file system of its own for a program, or a limit on file sizes."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HEAD = """
import resource, sys
from pathlib import Path

home, kib = Path(sys.argv[1]), int(sys.argv[2])
(home / "ballast").write_bytes(bytes(1024 * kib))

def make_room():
    (home / "ballast").unlink(missing_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)

"""


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """Let writes of this process fail that would make a file longer than `size` bytes."""
    limit, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiles = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        sys.dont_write_bytecode = compiles


def on_full_disk(folder: Path, kib: int, program: str) -> None:
    """Run a Python program that does and asserts everything itself.

    It has `home`, a folder with room for `kib` KiB, and `make_room()`, which makes more. That is a
    tmpfs in namespaces of its own where the system has them, else RLIMIT_FSIZE.
    """
    folder.mkdir()
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f'mount -t tmpfs -o size={2 * kib}k none "$0"'
    if subprocess.run([*shell, mount, folder], capture_output=True, check=False).returncode:
        shell, mount = ["sh", "-c"], "true"
        soft, hard = 1024 * kib, resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        program = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({soft}, {hard}))\n{program}"
    python = [sys.executable, "-c", _HEAD + program, folder, str(kib)]
    command = [*shell, f'{mount} && exec "$@"', folder, *python]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
