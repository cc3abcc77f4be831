"""The pages are right: programs on them run as they stand, and what they name exists.

In CONTRIBUTING.md a block that begins with `# PACKAGE/...py` is a file of a new package; every
other `python` block is a program, whose printed lines are those that its comments promise.
"""

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from programs import python
from size import DOORS, ROOT

from league import LeagueConfig
from selfplay import Config

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("[!.]*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
ADAPTERS, LEAGUE = "tutorial-adapters.md", "tutorial-league.md"
"""They run in this process, as a process for each command takes minutes."""
TRAINING = "tutorial-train.md"
"""One that takes minutes."""
TASKSETS = "tutorial-tasksets.md"
"""The one that needs verifiers, and takes minutes, too."""
SLOW = {TRAINING, TASKSETS}
OWN_MODEL = "tutorial-own-model.md"
"""It needs a model: tests/selfplay/test_own_model.py runs it."""
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = {part.splitlines()[0]: part for part in CONTRIBUTING.split("\n## Add ")[1:]}


def here(program: str) -> str:
    """Run a program in this process, in a namespace of its own, and return what it prints."""
    with redirect_stdout(StringIO()) as said:
        exec(program, {"__name__": "__main__"})
    return said.getvalue()


def printed(program: str, folder: Path) -> str:
    """Run a program in a folder from which it can import, and return what it prints."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return python("-c", program, cwd=folder, PYTHONPATH=os.pathsep.join(paths))


@pytest.mark.usefixtures("short")
def test_the_training_from_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = FENCE.findall((ROOT / "docs" / TRAINING).read_text())
    (promised,) = re.findall(r"^ *print\(.*  # (.*)$", code, re.M)
    assert here(code).splitlines()[-1] == promised


@pytest.mark.parametrize("title", SECTIONS)
def test_an_extension_works_as_shown(title: str, tmp_path: Path) -> None:
    programs, packages = [], False
    for kind, text in BLOCK.findall(SECTIONS[title]):
        if new := re.match(r"# ((\w+)/[\w/]+\.py)\n", text):
            (tmp_path / new[2]).mkdir(exist_ok=True)
            (tmp_path / new[1]).write_text(text)
            packages = True
        elif kind == "python":
            programs.append(text)
    assert programs
    for program in programs:
        promised = re.findall(r"^ *print\(.*  # (.*)$", program, re.M)
        said = printed(program, tmp_path) if packages else here(program)
        assert said.splitlines() == promised


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
    named = set(re.findall(r"`(test_\w+(?:\.py)?)[^`]*`", page))
    functions = {name for name in named if not name.endswith(".py")}
    assert len(functions) >= 15
    assert functions <= set(re.findall(r"def (test_\w+)", tests))
    assert named - functions <= files.keys()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.name, marks=[pytest.mark.slow] * (path.name in SLOW))
        for path in sorted((ROOT / "docs").glob("tutorial-*.md"))
        if path.name not in {ADAPTERS, LEAGUE, OWN_MODEL}
        and (path.name != TASKSETS or find_spec("verifiers"))
    ],
)
def test_a_tutorial_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    page = (ROOT / "docs" / name).read_text()
    blocks = [block for block in BLOCK.findall(page) if block[0] in ("python", "sh")]
    assert blocks
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for language, code in blocks:
        if language == "python":
            assert printed(code, tmp_path).strip()
            continue
        done = subprocess.run(
            ["bash", "-euc", code],
            cwd=tmp_path,
            env=os.environ | {"PATH": scripts},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.strip()
    for page_of_charts in re.findall(r"--html (\S+)", "".join(code for _, code in blocks)):
        assert (tmp_path / page_of_charts).exists()


@pytest.mark.parametrize(
    ("name", "least"),
    [
        (ADAPTERS, {"inspect", "mutate", "cross", "merge", "verify"}),
        (LEAGUE, {"board", "matrix", "calibrate", "replay"}),
    ],
)
def test_a_tutorial_runs_in_one_process(
    name: str, least: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = set()
    for language, code in BLOCK.findall((ROOT / "docs" / name).read_text()):
        if language == "python":
            assert here(code).strip()
        for command in code.splitlines() if language == "sh" else ():
            program, *words = shlex.split(command)
            if program == "python":
                assert here((ROOT / words[0]).read_text()).strip()
                continue
            main = import_module(f"{program.replace('-', '_')}.cli").main
            done = CliRunner().invoke(main, words)
            assert done.exit_code == 0, f"{command}: {done.output}"
            assert done.stdout.strip()
            commands.add(words[0])
    assert least <= commands


def test_the_league_tutorial_shows_the_example_as_it_is() -> None:
    page = (ROOT / "docs" / "tutorial-league.md").read_text()
    script = (ROOT / "examples" / "league" / "two_populations.py").read_text()
    (shown,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    assert script.endswith(shown)


def test_every_local_link_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_no_link_is_broken_where_a_package_index_shows_the_page() -> None:
    for page in sorted(ROOT.glob("*/pyproject.toml")):
        links = re.findall(r"\]\(([^)]+)\)", (page.parent / "README.md").read_text())
        assert all(link.startswith("https://") for link in links), f"{page.parent.name}: {links}"


def test_nothing_is_installed_by_a_name_that_no_index_has() -> None:
    """Packages are installed from a checkout."""
    named = subprocess.run(
        ["git", "grep", "-nE", r"(pip|uv) (install|add)\b.*populab"], cwd=ROOT, capture_output=True
    )
    assert [row for row in named.stdout.splitlines() if b"test_docs.py" not in row] == []


def test_the_reference_has_a_page_for_each_package() -> None:
    documented = DOORS | {"selfplay.config", "selfplay.files.rows"}
    doors = {
        door: page.stem
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for door in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
    }
    assert doors == {door: door.split(".")[0] for door in documented}


@pytest.mark.parametrize("door", sorted(DOORS))
def test_the_reference_lists_every_public_name_once(door: str) -> None:
    """In the order in which people need them; selfplay's Config is with the settings."""
    page = (ROOT / "docs" / "reference" / f"{door.split('.')[0]}.md").read_text()
    block = rf"^::: {re.escape(door)}\n    options:\n      members: \[(.*?)\]"
    (listed,) = re.findall(block, page, re.S | re.M)
    names = re.findall(r"\w+", listed)
    public = {*import_module(door).__all__} - {"__version__"}
    assert sorted(names) == sorted(public - ({"Config"} if door == "selfplay" else set()))


def test_every_setting_has_a_sentence_and_its_section_a_place_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "selfplay.md").read_text()
    sections = [f.type for f in fields(Config) if is_dataclass(f.type)]
    assert len(sections) == 8
    for section in (Config, *sections):
        assert section is LeagueConfig or f"        - {section.__name__}\n" in page
        (tree,) = ast.parse(inspect.getsource(section)).body
        assert isinstance(tree, ast.ClassDef)
        documented = {
            ast.unparse(field.target)
            for field, below in pairwise(tree.body)
            if isinstance(field, ast.AnnAssign)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        }
        assert documented >= {f.name for f in fields(section) if f.type not in sections}
