"""Packages are divided into rooms, and the arrows between rooms point one way.

A room is a folder directly inside a package; a file directly inside it is a room of its own. The
package's `__init__.py` is the door: it may look into every room, and no room looks back at it but
for `__version__`. `python tests/integration/test_rooms.py` prints the arrows of every package.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMED = ("lora_evo", "code_verifier", "league", "evals", "selfplay")
MOST_FILES = 16
MOST_LINES = 300


def source(package: str) -> Path:
    """The folder of a package's modules."""
    return ROOT / package / "src" / package


def room_of(module: tuple[str, ...]) -> str:
    """The room of a module, given by the words of its name after the package's; "" is the door."""
    return module[0] if module else ""


def imported(tree: ast.Module, here: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every module that a file in the package `here` imports names from, as the words of its name.

    A name that is itself a module (`from lora_evo.files import adapter`) counts as that module's.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else ()
            base = (*above, *(node.module.split(".") if node.module else ()))
            if len(base) == 1:  # names of the door itself, of which only a room's is an arrow
                yield from ((*base, alias.name) for alias in node.names)
            else:
                yield base


def arrows_in(folder: Path) -> dict[tuple[str, str], int]:
    """Imports from one room's files of another's, counted, for a package that lies in `folder`."""
    package = folder.name
    found: Counter[tuple[str, str]] = Counter()
    for path in sorted(folder.rglob("*.py")):
        words = path.relative_to(folder).with_suffix("").parts
        if words == ("__init__",):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in imported(tree, (package, *words[:-1])):
            if name[0] != package or name == (package, "__version__"):
                continue
            start, end = room_of(words), room_of(name[1:])
            if not ((folder / end).is_dir() or (folder / f"{end}.py").is_file()):
                end = ""
            if start != end:
                found[start, end] += 1
    return dict(found)


def arrows(package: str) -> dict[tuple[str, str], int]:
    """Imports between the rooms of one of our packages, (from, to) to their number."""
    return arrows_in(source(package))


def cycle(found: Mapping[tuple[str, str], int]) -> list[str]:
    """Rooms of which each imports the next, the first and last the same; empty when none do."""
    graph: dict[str, set[str]] = {}
    for start, end in found:
        graph.setdefault(start, set()).add(end)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def faults(folder: Path) -> list[str]:
    """What is wrong with the rooms of the package in `folder`, in words."""
    found = arrows_in(folder)
    circle = cycle(found)
    told = [f"rooms in a circle: {' -> '.join(circle)}"] if circle else []
    told += [f"{start} imports from the package's door" for start, end in found if not end]
    for inner in sorted(folder.rglob("__init__.py")):
        if inner.parent != folder and inner.read_text(encoding="utf-8").strip():
            told.append(f"{inner.relative_to(folder)} is not empty")
    for place in (folder, *sorted(path for path in folder.rglob("*") if path.is_dir())):
        count = len(list(place.glob("*.py")))
        if count > MOST_FILES:
            told.append(f"{place.relative_to(folder.parent)} holds {count} files")
        if count and not (place / "__init__.py").is_file():
            told.append(f"{place.relative_to(folder.parent)} has no __init__.py")
    for path in sorted(folder.rglob("*.py")):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MOST_LINES:
            told.append(f"{path.relative_to(folder.parent)} has {lines} lines")
    return told


@pytest.mark.parametrize("package", ROOMED)
def test_rooms_are_small_and_their_arrows_point_one_way(package: str) -> None:
    assert not faults(source(package))


def house(folder: Path, files: Mapping[str, str]) -> Path:
    """A package called `house` made of these files, with an empty `__init__.py` in every folder."""
    for name, text in files.items():
        path = folder / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for place in (folder / "house", *(p for p in (folder / "house").rglob("*") if p.is_dir())):
        (place / "__init__.py").touch()
    return folder / "house"


def test_arrows_are_counted_in_every_spelling(tmp_path: Path) -> None:
    here = house(
        tmp_path,
        {
            "__init__.py": "from house.hall.door import open",
            "errors.py": "",
            "hall/door.py": "from house import __version__\nimport house.cellar.wine\nimport os",
            "hall/lamp.py": "from ..cellar import wine\nfrom .door import x\n"
            "def late():\n    from house.errors import Oops",
            "cellar/wine.py": "from house import errors",
        },
    )
    assert arrows_in(here) == {
        ("hall", "cellar"): 2,
        ("hall", "errors"): 1,
        ("cellar", "errors"): 1,
    }
    assert not faults(here)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"a/one.py": "from house.b.two import x", "b/two.py": "import house.a.one"},
            "rooms in a circle: ",
        ),
        (
            {
                "a/one.py": "from house.b import two",
                "b/two.py": "from house.c import x",
                "c.py": "def late():\n    from .a import one",
            },
            "rooms in a circle: ",
        ),
        ({"a/one.py": "from house import thing"}, "a imports from the package's door"),
        ({"a/__init__.py": "x = 1"}, "a/__init__.py is not empty"),
        ({f"a/f{number}.py": "" for number in range(16)}, "house/a holds 17 files"),
        ({"a/long.py": "\n" * 301}, "house/a/long.py has 301 lines"),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, files: dict[str, str], told: str) -> None:
    found = faults(house(tmp_path, files))
    assert len(found) == 1
    assert found[0].startswith(told)


if __name__ == "__main__":
    for name in ("lora_evo", "code_verifier", "league", "evals", "selfplay"):
        counts = arrows(name)
        mark = "" if name in ROOMED else " (not divided yet)"
        print(f"{name}: {sum(counts.values())} arrows, {len(counts)} different{mark}")
        if name in ROOMED:
            for (start, end), count in sorted(counts.items()):
                print(f"  {start} -> {end or 'door'}: {count}")
