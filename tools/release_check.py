"""Try what a release would upload: `python tools/release_check.py [--address] [PACKAGE...]`.

Builds wheel and source distribution of the five packages into dist/, has `twine check --strict`
read them, and installs each in an empty environment, whose siblings come from dist/, too: the
package is imported, and its command prints the version that is in the name of the file. --address
also asks for the repository's address in the metadata (`Repository` in `project.urls`). Runs in the
environment of `make env`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from install import ROOT, uv_variables

PACKAGES = ("lora_evo", "code_verifier", "league", "evals", "selfplay")
DIST = ROOT / "dist"


def uv(*words: object) -> None:
    """Run uv with the way to an index that pip has; a failure ends the check."""
    command = [sys.executable, "-m", "uv", "--quiet", *map(str, words)]
    if subprocess.run(
        command, cwd=ROOT, env=os.environ | uv_variables(Path(sys.executable))
    ).returncode:
        sys.exit(f"release_check: uv {words[0]} failed, it says why above")


def metadata(package: str) -> dict[str, dict[str, str]]:
    """Return the table `project` of a package."""
    project: dict[str, dict[str, str]] = tomllib.loads(
        (ROOT / package / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]
    return project


def build() -> None:
    """Build both files of every package, and check them."""
    shutil.rmtree(DIST, ignore_errors=True)
    for package in PACKAGES:
        uv("build", "--no-build-isolation", "--out-dir", DIST, package)
    files = sorted(DIST.glob("*.whl")) + sorted(DIST.glob("*.tar.gz"))
    if len(files) != 2 * len(PACKAGES):
        sys.exit(f"release_check: {DIST} has {len(files)} files; expected {2 * len(PACKAGES)}")
    uv("tool", "run", "twine", "check", "--strict", *files)


def try_out(package: str, file: Path) -> None:
    """Install a file in an empty environment, import the package and ask for its version."""
    (command,) = metadata(package)["scripts"]
    version = file.name.split("-")[1].removesuffix(".tar.gz")
    with TemporaryDirectory() as work:
        environment = Path(work) / "env"
        uv("venv", "--python", sys.executable, environment)
        python = environment / "bin" / "python"
        constraints = ROOT / "constraints.txt"
        options = ("--python", python, "--constraints", constraints, "--find-links", DIST)
        uv("pip", "install", *options, file)
        texts = [
            subprocess.run(words, cwd=work, capture_output=True, text=True, check=True).stdout
            for words in (
                [python, "-c", f"import {package}; print({package}.__version__)"],
                [environment / "bin" / command, "--version"],
            )
        ]
    if any(version not in text for text in texts):
        sys.exit(f"release_check: {file.name} says {texts}; expected {version}")
    print(f"{file.name}: installs, imports, and {command} --version says {version}", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Check all packages, or those that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("packages", nargs="*", default=PACKAGES, metavar="PACKAGE")
    parser.add_argument("--address", action="store_true", help="Ask for the repository's address.")
    options = parser.parse_args(arguments)
    lack = [name for name in PACKAGES if "Repository" not in metadata(name).get("urls", {})]
    if options.address and lack:
        sys.exit(
            f"release_check: no Repository in project.urls of {', '.join(lack)}; add to each "
            'pyproject.toml, below [project.urls]: Repository = "ADDRESS"'
        )
    build()
    for package in options.packages:
        for file in sorted(DIST.glob(f"populab_{package}-*")):
            try_out(package, file)


if __name__ == "__main__":
    main(sys.argv[1:])
