"""Each way to extend PopuLab that CONTRIBUTING.md shows works as it stands.

A block that begins with `# PACKAGE/...py` is a new file of that package, a `diff` block changes
files, and both go into a copy; every other `python` block is a program, whose printed lines are
those that its comments promise.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = {part.splitlines()[0]: part for part in PAGE.split("\n## Add ")[1:]}
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
NEW_FILE = re.compile(r"# ((\w+)/[\w/]+\.py)\n")


def copied(package: str, place: Path) -> None:
    if (place / package).exists():
        return
    if (ROOT / package).exists():
        shutil.copytree(ROOT / package / "src" / package, place / package)
    else:
        (place / package).mkdir()  # a package of the reader's own


def changed(blocks: list[tuple[str, str]], place: Path) -> None:
    """Copies of the packages that these blocks add to or change, in `place`."""
    for language, text in blocks:
        new = NEW_FILE.match(text)
        if new:
            copied(new[2], place)
            (place / new[1]).write_text(text)
        if language == "diff":
            for package in re.findall(r"^\+\+\+ b/(\w+)/", text, re.MULTILINE):
                copied(package, place)
            apply = ["git", "apply", "--unidiff-zero", "-"]
            done = subprocess.run(apply, cwd=place, input=text, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("title", SECTIONS)
def test_an_extension_works_as_shown(title: str, tmp_path: Path) -> None:
    blocks = BLOCK.findall(SECTIONS[title])
    changed(blocks, tmp_path)
    programs = [text for kind, text in blocks if kind == "python" and not NEW_FILE.match(text)]
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


@pytest.mark.parametrize("title", SECTIONS)
def test_an_example_is_short(title: str) -> None:
    for _, text in BLOCK.findall(SECTIONS[title]):
        assert sum(bool(line.strip()) for line in text.splitlines()) < 30


def test_the_files_it_names_exist() -> None:
    packages = ("lora_evo", "code_verifier", "league", "evals", "selfplay")
    homes = [ROOT, *(ROOT / p / "src" for p in packages), *(ROOT / p / "src" / p for p in packages)]
    prose = BLOCK.sub("", PAGE)
    for name in re.findall(r"`([\w/]+/[\w.]+)`", prose):
        assert name == "tests/PACKAGE" or any((home / name).exists() for home in homes), name


def test_what_make_is_asked_for_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make\s+([\w-]+)", PAGE)) <= targets
