"""Each way to extend PopuLab that CONTRIBUTING.md shows works as it stands.

A block that begins with `# PACKAGE/...py` is a file of a new package; every other `python` block is
a program, whose printed lines are those that its comments promise.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = {part.splitlines()[0]: part for part in PAGE.split("\n## Add ")[1:]}
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
NEW_FILE = re.compile(r"# ((\w+)/[\w/]+\.py)\n")


@pytest.mark.parametrize("title", SECTIONS)
def test_an_extension_works_as_shown(title: str, tmp_path: Path) -> None:
    programs = []
    for kind, text in BLOCK.findall(SECTIONS[title]):
        if new := NEW_FILE.match(text):
            (tmp_path / new[2]).mkdir(exist_ok=True)
            (tmp_path / new[1]).write_text(text)
        elif kind == "python":
            programs.append(text)
    assert programs
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == re.findall(r"^ *print\(.*  # (.*)$", program, re.M)


def test_the_files_it_names_exist() -> None:
    packages = ("lora_evo", "code_verifier", "league", "evals", "selfplay")
    homes = [ROOT, *(ROOT / p / "src" for p in packages), *(ROOT / p / "src" / p for p in packages)]
    prose = BLOCK.sub("", PAGE)
    for name in re.findall(r"`([\w/]+/[\w.]+)`", prose):
        assert name == "tests/PACKAGE" or any((home / name).exists() for home in homes), name


def test_what_make_is_asked_for_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make\s+([\w-]+)", PAGE)) <= targets
