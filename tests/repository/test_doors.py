"""Packages meet at their doors, imports point one way, and light packages stay light."""

import ast
import importlib
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from itertools import takewhile
from pathlib import Path
from types import ModuleType

import pytest
from programs import python
from size import DOORS, PACKAGES, ROOT, folder_faults, modules, past_doors

ALLOWED = {
    "lora_evo": set(),
    "code_verifier": set(),
    "league": set(),
    "evals": {"code_verifier", "lora_evo"},
    "selfplay": {"code_verifier", "lora_evo", "league"},
}
OFFERS_BENCHMARKS = "selfplay/src/selfplay/nano_benchmarks.py"
"""The one module of selfplay that may import evals, which finds it by entry point."""
MOST_NAMES = 40


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the names of the modules that a file imports, those for types alone too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def siblings(path: Path, package: str) -> set[str]:
    return {name.split(".")[0] for name in imports(path)} & set(PACKAGES) - {package}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_goes_past_a_door(package: str) -> None:
    assert not list(past_doors(package))


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_down(package: str) -> None:
    for path in modules(package):
        place = path.relative_to(ROOT).as_posix()
        allowed = ALLOWED[package] | ({"evals"} if place == OFFERS_BENCHMARKS else set())
        assert siblings(path, package) <= allowed, place


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_of_a_package_form_no_cycle(package: str) -> None:
    source = ROOT / package / "src"
    named = {}
    for path in modules(package):
        if path.name not in ("__init__.py", "__main__.py"):
            named[".".join(path.relative_to(source).with_suffix("").parts)] = path
    graph = {name: imports(path) & set(named) - {name} for name, path in named.items()}
    TopologicalSorter(graph).prepare()


def floors(package: str) -> list[str]:
    """Return the rooms of a package from the lowest, in the order of docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = text.partition("## Floors")[2].partition(f"\n{package}\n")[2]
    lines = takewhile(lambda line: line.startswith("  "), block.splitlines())
    return [room for line in lines for room in line.partition(":")[0].split(",")]


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_of_a_package_form_no_circle(package: str) -> None:
    rooms, source = [room.strip() for room in floors(package)], ROOT / package / "src" / package
    paths = [path for path in modules(package) if path.name not in ("__init__.py", "__main__.py")]
    room_of = {path: path.relative_to(source).with_suffix("").parts[0] for path in paths}
    assert sorted(rooms) == sorted({*room_of.values()})
    for path, room in room_of.items():
        names = {name.split(".")[1] for name in imports(path) if name.startswith(f"{package}.")}
        assert not names.intersection(rooms[rooms.index(room) + 1 :]), path


@pytest.mark.parametrize("package", PACKAGES)
def test_folders_are_flat_and_hold_several_modules(package: str) -> None:
    assert not list(folder_faults(package))


@pytest.mark.parametrize("door", sorted(DOORS))
def test_a_door_is_one_short_list_whose_names_exist(door: str) -> None:
    module = importlib.import_module(door)
    names = [name for name in module.__all__ if name != "__version__"]
    assert len(names) == len(set(names)) <= MOST_NAMES
    assert all(hasattr(module, name) for name in names)
    # A module of the name would take its place as soon as it is imported.
    assert not [name for name in names if isinstance(getattr(module, name), ModuleType)]


@pytest.mark.parametrize("package", PACKAGES)
def test_neither_import_nor_help_brings_what_loads_slowly(package: str) -> None:
    slow = {"torch", "rich.progress", "altair", "scipy", "mpmath", "transformers"}
    slow |= {"numpy"} if package != "league" else set()
    program = f"import sys, {package}, {package}.cli; print({slow} & set(sys.modules))"
    assert python("-c", program) == "set()\n"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_declares_the_siblings_it_imports(package: str) -> None:
    project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
    declared = {
        name.partition(">")[0].partition("[")[0].removeprefix("populab-").replace("-", "_")
        for name in project["dependencies"]
        if name.startswith("populab-")
    }
    used = set().union(*(siblings(path, package) for path in modules(package)))
    assert declared == used - ({"evals"} if package == "selfplay" else set())


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_typed_and_licensed(package: str) -> None:
    assert (ROOT / package / "src" / package / "py.typed").exists()
    assert (ROOT / package / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
