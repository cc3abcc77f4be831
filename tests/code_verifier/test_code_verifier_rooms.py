"""The package's rooms: small, empty-doored, and with arrows between them that point one way."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import code_verifier

ROOT = Path(code_verifier.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MOST_LINES, MOST_FILES = 300, 16


def room(module: str) -> str:
    """The first part of a module's name below the package."""
    return module.removeprefix("code_verifier").removeprefix(".").partition(".")[0]


def imported(path: Path) -> set[str]:
    """Rooms and files of the package that a file names in its imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("code_verifier"):
            names = [alias.name for alias in node.names if node.module == "code_verifier"]
            found |= set(names or [room(str(node.module))])
    return found


def test_arrows_between_rooms_point_one_way() -> None:
    arrows: dict[str, set[str]] = {}
    for path in FILES:
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        arrows.setdefault(own, set()).update(imported(path) - {own})
    order = list(TopologicalSorter(arrows).static_order())
    assert order.index("errors") < order.index("literals") < order.index("jail")
    assert order.index("jail") < order.index("sandbox") < order.index("commands")


def test_rooms_are_small_and_their_doors_empty() -> None:
    for path in FILES:
        assert len(path.read_text().splitlines()) <= MOST_LINES, path
        if path.name == "__init__.py" and path.parent != ROOT:
            assert path.read_text() == "", path
            assert len(list(path.parent.glob("*.py"))) <= MOST_FILES, path.parent


def test_a_confined_process_imports_little() -> None:
    """What it imports, its start costs, and a program might reach."""
    for path in (ROOT / "jail").glob("*.py"):
        assert imported(path) <= {"errors", "jail", "literals"}, path


def test_the_door_keeps_its_names() -> None:
    for name in code_verifier.__all__:
        assert hasattr(code_verifier, name), name
