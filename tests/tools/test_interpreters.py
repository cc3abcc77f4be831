"""The sandbox on each interpreter in POPULAB_PYTHONS (`make env-check`, `make test-slow`).

Where two of them are builds of one version, as a system's own is at a fixed address and another
position-independent, every program gets the same verdict and output from both. POPULAB_DATA: a
folder that has Absolute Zero's files `*_seed_io.jsonl`, whose programs are compared, too.
"""

import json
import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = os.environ.get("POPULAB_PYTHONS", "").split()
PYTHONS = sorted({os.path.realpath(path) for path in map(shutil.which, NAMED) if path})
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHONS, reason="POPULAB_PYTHONS names interpreters, as make does"),
]


@pytest.fixture(scope="module")
def within(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the interpreter of an environment with code_verifier and what its tests need."""

    @cache
    def environment(python: str) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        subprocess.run([python, "-m", "venv", folder], check=True)
        install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        needed = ["-e", ROOT / "code_verifier[report]", "pytest", "hypothesis", "pytest-xdist"]
        subprocess.run([*install, *needed], check=True)
        return folder / "bin" / "python"

    return environment


@pytest.mark.parametrize("python", PYTHONS)
def test_the_sandbox_passes_its_tests(python: str, within: Callable[[str], Path]) -> None:
    options = ["-m", "slow or not slow", "--deselect", "tests/code_verifier/test_mutants.py"]
    words = [within(python), "-m", "pytest", *options, "tests/code_verifier"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]


def test_builds_of_one_version_give_the_same_verdicts(
    within: Callable[[str], Path], tmp_path: Path
) -> None:
    builds = defaultdict(list)
    for python in PYTHONS:
        words = [python, "-c", "import sys; print(sys.version_info[:2])"]
        builds[subprocess.check_output(words)].append(python)
    pairs = [pair for same in builds.values() for pair in pairwise(same)]
    if not pairs:
        pytest.skip(f"no two of {' '.join(PYTHONS)} are builds of one version")
    data = os.environ.get("POPULAB_DATA")

    @cache
    def verdicts(python: str) -> list[list[str | None]]:
        out = tmp_path / "verdicts.jsonl"
        script = ROOT / "tests" / "support" / "verdicts.py"
        subprocess.run([within(python), script, out, *([data] if data else [])], check=True)
        return [json.loads(line) for line in out.read_text().splitlines()]

    for one, other in pairs:
        found = list(zip(verdicts(one), verdicts(other), strict=True))
        print(f"{len(found)} verdicts of {one} and {other} compared")
        assert len(found) > 500
        assert [(a, b) for a, b in found if a != b] == []
