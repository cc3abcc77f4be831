"""`make` installs with any Python from 3.11 to 3.14, and says what to type where it cannot.

The slow test installs for real, with each interpreter in POPULAB_PYTHONS (`make env-check`).
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
NAMED = os.environ.get("POPULAB_PYTHONS", sys.executable).split()
PYTHONS = list({os.path.realpath(shutil.which(name) or name): name for name in NAMED}.values())


def made(
    folder: Path, goal: str, python: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `make GOAL` with an interpreter, for an environment that is not there yet."""
    return subprocess.run(
        ["make", "--silent", goal, f"PYTHON={python}", f"VENV={folder / 'venv'}"],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_an_old_python_is_refused_with_what_to_type(tmp_path: Path) -> None:
    old = script(tmp_path / "python3.9", '[ "$1" = --version ] && echo Python 3.9.2')
    done = made(tmp_path, "demo", old)
    first, *rest = done.stderr.splitlines()
    assert first == (
        f"{old} is Python 3.9.2; expected Python 3.11 to 3.14; type: make demo PYTHON=python3.11 "
        "(on Debian and Ubuntu after: apt install python3.11-venv)"
    )
    assert [line for line in rest if not line.startswith("make")] == []
    assert done.returncode
    assert not (tmp_path / "venv").exists()


def test_a_python_without_venv_names_the_package_that_has_it(tmp_path: Path) -> None:
    """As on Debian, which keeps ensurepip in a package of its own."""
    (tmp_path / "ensurepip.py").write_text('raise ModuleNotFoundError(name="ensurepip")')
    done = made(tmp_path, "demo", sys.executable, PYTHONPATH=str(tmp_path))
    version = "{}.{}".format(*sys.version_info)
    assert done.stderr.splitlines()[0] == (
        f"install: Python {version} lacks ensurepip, which makes virtual environments; on Debian "
        f"and Ubuntu type: apt install python{version}-venv"
    )
    assert not (tmp_path / "venv").exists()


def test_the_lock_has_every_package_that_make_installs() -> None:
    """Also indirect ones, in the installed version, so that pip never has a release to choose."""
    text = (ROOT / "constraints.txt").read_text()
    locked = [Requirement(line) for line in text.splitlines() if not line.startswith("#")]
    versions = {
        canonicalize_name(one.name): str(one.specifier)
        for one in locked
        if one.marker is None or one.marker.evaluate()
    }
    queue = [Requirement("populab-workspace[dev]")]
    seen: set[str] = set()
    while queue:
        requirement = queue.pop()
        for needed in map(Requirement, distribution(requirement.name).requires or []):
            name = canonicalize_name(needed.name)
            wanted = needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)
            )
            if wanted and str(needed) not in seen:
                seen.add(str(needed))
                queue.append(needed)
                installed = distribution(name).version.partition("+")[0]
                assert versions[name] == f"=={installed}", name
    assert len(seen) > 100


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS)
def test_training_runs_in_a_new_environment(python: str, tmp_path: Path) -> None:
    """With a read-only home, and a pip configuration that would break every environment."""
    if shutil.which(python) is None:
        pytest.skip(f"{python} is not here")
    (tmp_path / "constraints.txt").write_text("numpy==1.0\ntorch==1.0\n")
    (tmp_path / "pip.conf").write_text(
        "[global]\nrequire-hashes = true\n"
        "[install]\nuser = true\nno-deps = true\nno-binary = :all:\n"
        f"target = {tmp_path / 'target'}\n"
        f"constraint = {tmp_path / 'constraints.txt'}\n"
    )
    unusual = {
        "HOME": "/proc",
        "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
        "PIP_PREFIX": "/proc",
    }
    done = made(tmp_path, f"{tmp_path}/venv/.selfplay", python, **unusual)
    assert done.returncode == 0, done.stdout + done.stderr
    stages = [line for line in done.stdout.splitlines() if line.startswith("installing")]
    assert [line.split()[1].rstrip(",:") for line in stages] == ["pip", "torch", "what"]
    commands = tmp_path / "venv" / "bin"
    for command in ("code-verifier", "evals", "league", "lora-evo"):
        subprocess.run([commands / command, "--help"], check=True, env=os.environ | unusual)
    subprocess.run(
        [commands / "selfplay", "train", "--preset", "nano", "--steps", "1", "--out", "run"],
        cwd=tmp_path,
        env=os.environ | unusual,
        check=True,
    )
    assert (tmp_path / "run" / "metrics.jsonl").exists()
    again = made(tmp_path, f"{tmp_path}/venv/.selfplay", python)
    assert (again.returncode, again.stdout) == (0, "")
