"""A Python whose kernel refuses some calls, as old kernels and some containers do."""

import errno
import json
import platform
import struct
import subprocess
import sys
from pathlib import Path

import code_verifier
from code_verifier.jail import walls

_LOAD, _EQUAL, _BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARGUMENTS = 0, 16  # offsets in struct seccomp_data
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X86 = platform.machine() == "x86_64"
_PR_SET_NO_NEW_PRIVS, _PR_SET_MDWE = 38, 65
PIDFD_OPEN, MEMFD_CREATE = 434, 319 if _X86 else 279
MPROTECT, MUNMAP = (10, 11) if _X86 else (226, 215)
OPENAT = 257 if _X86 else 56
PROT_EXEC, O_CREAT = 4, 0o100
_HEAD = """
import json, sys
from confinement import *
"""


def refuse(call: int, number: int = errno.ENOSYS, argument: int = 0, bits: int = 0) -> None:
    """Have the kernel answer a call with an error number, in this process and all that it starts.

    bits: only if this argument has one of them.
    """
    lines = [(_LOAD, 0, 0, _NUMBER), (_EQUAL, 1, 0, call), (_RETURN, 0, 0, _ALLOW)]
    if bits:
        lines += [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (_BITS, 1, 0, bits)]
        lines += [(_RETURN, 0, 0, _ALLOW)]
    lines += [(_RETURN, 0, 0, _ERRNO | number)]
    instructions = b"".join(struct.pack("<HBBI", *line) for line in lines)
    assert walls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    assert walls.install_filter(walls.load_filter(instructions))


def refuse_new_code() -> bool:
    """Have the kernel refuse to make memory executable, for good; False before Linux 6.3."""
    return walls.prctl(_PR_SET_MDWE, 1)


def confined(
    program: str, *words: object, setup: str = "", shell: str = "", data: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python of its own and return how it ended.

    setup: Python that runs first, with the names of this module. shell: commands before all that,
    such as `ulimit`. data: standard input. variables: added to the few that the process gets.
    """
    folders = [Path(__file__).parent, Path(code_verifier.__file__).parents[1]]
    folders += [Path(folder) for folder in sys.path if folder.endswith("site-packages")]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(map(str, folders)), **variables}
    command = [sys.executable, "-c", f"{_HEAD}\n{setup}\n{program}", *map(str, words)]
    if shell:
        command = ["bash", "-c", f'{shell}; exec "$@"', "bash", *command]
    return subprocess.run(command, env=env, input=data, capture_output=True, text=True)


def printed(program: str, *words: object, **more: str) -> object:
    """Return the JSON that a program prints, which must end well."""
    done = confined(program, *words, **more)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
