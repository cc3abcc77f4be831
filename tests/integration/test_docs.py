"""The pages are right: programs on them run as they stand, and what they name exists.

In CONTRIBUTING.md a block that begins with `# PACKAGE/...py` is a file of a new package; every
other `python` block is a program, whose printed lines are those that its comments promise.
"""

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner
from size import DOORS

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("[!.]*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
SCRIPTS = {entry.name: entry for entry in entry_points(group="console_scripts")}
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = {part.splitlines()[0]: part for part in CONTRIBUTING.split("\n## Add ")[1:]}
RUNNABLE = [
    (path, i)
    for path in (ROOT / "README.md", ROOT / "docs" / "tutorial-judge.md")
    for i in range(len(FENCE.findall(path.read_text())))
]


@pytest.mark.parametrize(
    ("path", "index"), RUNNABLE, ids=[f"{path.stem}-{index}" for path, index in RUNNABLE]
)
def test_python_examples_run(path: Path, index: int, tmp_path: Path) -> None:
    assert printed(FENCE.findall(path.read_text())[index], tmp_path).strip()


def printed(program: str, folder: Path) -> str:
    """Run a program in a folder from which it can import, and return what it prints."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("title", SECTIONS)
def test_an_extension_works_as_shown(title: str, tmp_path: Path) -> None:
    programs = []
    for kind, text in BLOCK.findall(SECTIONS[title]):
        if new := re.match(r"# ((\w+)/[\w/]+\.py)\n", text):
            (tmp_path / new[2]).mkdir(exist_ok=True)
            (tmp_path / new[1]).write_text(text)
        elif kind == "python":
            programs.append(text)
    assert programs
    for program in programs:
        promised = re.findall(r"^ *print\(.*  # (.*)$", program, re.M)
        assert printed(program, tmp_path).splitlines() == promised


def test_what_contributing_names_exists() -> None:
    packages = ("lora_evo", "code_verifier", "league", "evals", "selfplay")
    homes = [ROOT, *(ROOT / p / "src" for p in packages), *(ROOT / p / "src" / p for p in packages)]
    for name in re.findall(r"`([\w/]+/[\w.]+)`", BLOCK.sub("", CONTRIBUTING)):
        assert name == "tests/PACKAGE" or any((home / name).exists() for home in homes), name
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make\s+([\w-]+)", CONTRIBUTING)) <= targets


def test_the_tests_that_the_threat_model_names_exist() -> None:
    page = (ROOT / "docs" / "threat-model.md").read_text()
    files = {path.name: path for path in (ROOT / "tests" / "code_verifier").glob("*.py")}
    tests = "".join(path.read_text() for path in files.values())
    named = re.findall(r"`(test_\w+)[^`]*`", page)
    functions = {name for name in named if not name.startswith("test_code_verifier_")}
    assert len(functions) >= 15
    assert functions <= set(re.findall(r"def (test_\w+)", tests))
    assert set(re.findall(r"`(test_code_verifier_\w+\.py)`", page)) <= files.keys()


@pytest.mark.parametrize(
    ("name", "pictures"),
    [
        ("tutorial-adapters.md", ("tree.html", "diversity.html")),
        ("tutorial-league.md", ("league.html",)),
    ],
)
def test_a_tutorial_runs_from_top_to_bottom(
    name: str,
    pictures: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "docs" / name).read_text()
    blocks = BLOCK.findall(page)
    assert {language for language, _ in blocks} == {"python", "sh"}
    monkeypatch.chdir(tmp_path)
    for language, code in blocks:
        if language == "python":
            exec(compile(code, name, "exec"), {"__name__": "__main__"})
            assert capsys.readouterr().out.strip()
        for line in code.splitlines() if language == "sh" else ():
            command, *words = shlex.split(line)
            done = CliRunner().invoke(SCRIPTS[command].load(), words)
            assert done.exit_code == 0, done.output
            assert done.stdout.strip()
    for picture in pictures:
        assert (tmp_path / picture).exists()


def test_the_league_tutorial_shows_the_example_as_it_is() -> None:
    page = (ROOT / "docs" / "tutorial-league.md").read_text()
    script = (ROOT / "examples" / "league" / "two_populations.py").read_text()
    assert FENCE.findall(page)[0] == script


def test_every_local_link_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_reference_has_every_door() -> None:
    page = (ROOT / "docs" / "reference.md").read_text()
    assert set(re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)) == DOORS
