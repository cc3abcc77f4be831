"""docs/architecture.md shows the rooms that there are, and `make house` draws them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
PACKAGES = ("selfplay", "evals", "lora_evo", "code_verifier", "league")
ROOMS = {
    (package, path.parent.name)
    for package in PACKAGES
    for path in (ROOT / package / "src" / package).glob("*/__init__.py")
}


def named(page: str) -> set[tuple[str, str]]:
    """The rooms that the table of a page names, each with its package."""
    found, package = set(), ""
    for line in page.splitlines():
        row = re.match(r"\| (?:\*\*(\w+)\*\*)? *\| (?:all|`(\w+)`) *\|", line)
        if row:
            package = row[1] or package
            found |= {(package, row[2])} if row[2] else set()
    return found


def labels(picture: Path) -> set[str]:
    return {str(element.text) for element in ElementTree.parse(picture).iter() if element.text}


def test_the_table_names_the_rooms_there_are() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert named(page) == ROOMS, "run `make house`"


def test_the_picture_shows_the_rooms_there_are() -> None:
    assert {room for _, room in ROOMS} <= labels(ROOT / "docs" / "house.svg"), "run `make house`"


def test_the_house_is_counted_and_drawn_again(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    (tmp_path / "architecture.md").write_text(re.sub(r"\n\| .*", "", page))
    command = [sys.executable, str(ROOT / "tests" / "integration" / "house.py"), str(tmp_path)]
    subprocess.run(command, check=True)
    assert named((tmp_path / "architecture.md").read_text()) == ROOMS
    assert labels(tmp_path / "house.svg") >= {*PACKAGES, *(room for _, room in ROOMS)}
    shutil.copy(tmp_path / "house.svg", tmp_path / "first.svg")
    subprocess.run(command, check=True)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "house.svg").read_bytes()
