"""Make the environment that `make` works in: `python3 tools/install.py .venv STAGE...`.

Each stage is a line that says what is downloaded and how much of it, with pip's own progress
below on a terminal, and a line that says what the environment then holds. All versions come from
constraints.txt, so that pip never tries one release after another. Of the user's pip configuration
only the way to an index is kept: `user`, `target` or other constraints would break the environment.
Runs on Python 3.11 to 3.14, without any package.
"""

import ast
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

ROOT = Path(__file__).parents[1]
STAGES = {
    "pip": ("pip, 2 MB", ("--upgrade", "pip")),
    "torch": (
        "torch, 0.2 GB (CPU build) or 2.7 GB (CUDA; see docs/install.md)",
        ("torch",),
    ),
    "selfplay": ("what selfplay requires, 90 MB", ("-e", ".")),
    "tests": ("what tests and checks require, 210 MB", ("-e", ".[dev]")),
}
"""Stage -> what it downloads, on Linux x86_64 and Python 3.11, and pip's arguments."""
WAY_TO_AN_INDEX = {
    *("index-url", "extra-index-url", "no-index", "find-links", "trusted-host", "keyring-provider"),
    *("proxy", "cert", "client-cert", "timeout", "default-timeout", "retries"),
    *("cache-dir", "no-cache-dir"),
}
"""The pip settings that are kept (`default-timeout` is another name of `timeout`)."""


def stop(message: str) -> NoReturn:
    """End with one line and exit code 1."""
    sys.exit(f"install: {message}")


def environment(folder: Path) -> Path:
    """Return the interpreter of the virtual environment in a folder, made if it does not work."""
    python = folder / "bin" / "python"
    works = [python, "-m", "pip", "--version"]
    if python.exists() and subprocess.run(works, capture_output=True).returncode == 0:
        return python
    try:
        for module in ("venv", "ensurepip"):
            import_module(module)
    except ImportError as error:
        version = ".".join(map(str, sys.version_info[:2]))
        stop(
            f"Python {version} lacks {error.name}, which makes virtual environments; on Debian and "
            f"Ubuntu type: apt install python{version}-venv"
        )
    print(f"environment {folder}, of Python {sys.version.split()[0]}", flush=True)
    if subprocess.run([sys.executable, "-m", "venv", "--clear", folder]).returncode:
        stop(f"python -m venv could not make {folder}; it says why above")
    return python


def pip_variables(python: Path) -> dict[str, str]:
    """Return the environment variables in which pip runs: of its settings, the way to an index."""
    listing = [python, "-m", "pip", "config", "list"]
    lines = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
    settings = dict(line.split("=", 1) for line in lines)
    choices = {}
    for section in ("global", "install", ":env:"):  # in pip's order: the last one counts
        for key, value in settings.items():
            name = key.removeprefix(f"{section}.")
            if name in WAY_TO_AN_INDEX and name != key:
                choices["PIP_" + name.upper().replace("-", "_")] = ast.literal_eval(value)
    try:
        cache = subprocess.run(
            [python, "-m", "pip", "cache", "dir"], capture_output=True, text=True
        )
        folder = Path(choices.get("PIP_CACHE_DIR", cache.stdout.strip()))
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError:  # a home that cannot be written to
        choices["PIP_NO_CACHE_DIR"] = "1"
    switches = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    return variables | choices | switches | {"PIP_ROOT_USER_ACTION": "ignore"}


def uv_variables(python: Path) -> dict[str, str]:
    """Return the environment variables that give uv the way to an index that pip has."""
    names = {
        "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
        "PIP_EXTRA_INDEX_URL": "UV_INDEX",
        "PIP_FIND_LINKS": "UV_FIND_LINKS",
        "PIP_NO_INDEX": "UV_NO_INDEX",
        "PIP_CERT": "SSL_CERT_FILE",
    }
    variables = pip_variables(python)
    values = {names[name]: value for name, value in variables.items() if name in names}
    if "UV_FIND_LINKS" in values:
        values["UV_FIND_LINKS"] = values["UV_FIND_LINKS"].replace(" ", ",")
    return values | {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # as pip


def install(python: Path, title: str, *arguments: str) -> None:
    """Show and run one stage: pip's own progress on a terminal, else what it warns of."""
    print(f"installing {title} ...", flush=True)
    begin = time.monotonic()
    quiet = () if sys.stdout.isatty() else ("--quiet",)
    command = (python, "-m", "pip", "install", *quiet, *arguments)
    if subprocess.run(command, cwd=ROOT, env=pip_variables(python)).returncode:
        stop("pip failed, it says why above; the same command goes on from here")
    files = [path.lstat() for path in python.parents[1].rglob("*") if not path.is_symlink()]
    packages = sum(1 for _ in python.parents[1].glob("lib/*/site-packages/*.dist-info"))
    print(
        f"  {time.monotonic() - begin:.0f} s; the environment has {packages} packages, "
        f"{sum(file.st_size for file in files) / 1e6:,.0f} MB",
        flush=True,
    )


def main(folder: Path, stages: list[str]) -> None:
    """Make the environment unless it is there, and install the stages in turn."""
    python = environment(folder.absolute())
    for stage in stages:
        title, arguments = STAGES[stage]
        install(python, title, "-c", "constraints.txt", *arguments)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2:])
    except KeyboardInterrupt:
        sys.exit(130)
