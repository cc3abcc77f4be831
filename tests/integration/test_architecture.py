"""The house rules that a reader of one file cannot see."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "lora_evo": set(),
    "code_verifier": set(),
    "league": set(),
    "evals": {"code_verifier", "lora_evo"},
    "selfplay": {"code_verifier", "lora_evo", "league", "evals"},
}
LIGHT = ("code_verifier", "league")


def sources(package: str) -> list[Path]:
    found = sorted((ROOT / package / "src" / package).rglob("*.py"))
    assert found
    return found


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_only_point_down(package: str) -> None:
    ours = set(ALLOWED) - {package}
    for path in sources(package):
        wrong = (imported(path) & ours) - ALLOWED[package]
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


@pytest.mark.parametrize("package", LIGHT)
def test_light_packages_never_import_torch(package: str) -> None:
    for path in sources(package):
        assert "torch" not in imported(path), path.relative_to(ROOT)


@pytest.mark.parametrize("package", ALLOWED)
def test_no_file_is_longer_than_400_lines(package: str) -> None:
    for path in sources(package):
        assert len(path.read_text().splitlines()) <= 400, path.relative_to(ROOT)


def test_no_test_file_is_longer_than_400_lines() -> None:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        assert len(path.read_text().splitlines()) <= 400, path.relative_to(ROOT)


def test_versions_are_lockstep() -> None:
    found = set()
    for package in ALLOWED:
        tree = ast.parse((ROOT / package / "src" / package / "__init__.py").read_text())
        versions = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == "__version__" for t in node.targets)
        ]
        assert versions, package
        found.add(versions[0])
    assert len(found) == 1, found


@pytest.mark.parametrize("package", ALLOWED)
def test_declared_siblings_are_the_imported_ones(package: str) -> None:
    data = tomllib.loads((ROOT / package / "pyproject.toml").read_text())
    declared = {
        name.partition(">")[0].partition("[")[0].removeprefix("populab-").replace("-", "_")
        for name in data["project"]["dependencies"]
        if name.startswith("populab-")
    }
    used = set().union(*(imported(path) for path in sources(package))) & set(ALLOWED) - {package}
    assert declared == used


@pytest.mark.parametrize("package", ALLOWED)
def test_every_package_is_typed_and_licensed(package: str) -> None:
    assert (ROOT / package / "src" / package / "py.typed").exists()
    assert (ROOT / package / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_no_init_files_under_tests() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))
