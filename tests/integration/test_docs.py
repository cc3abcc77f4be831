"""The examples in the README and the docs run as they stand."""

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
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)
RUNNABLE = [
    (path, i)
    for path in (ROOT / "README.md", ROOT / "docs" / "tutorial-judge.md")
    for i in range(len(FENCE.findall(path.read_text())))
]


@pytest.mark.parametrize(
    ("path", "index"), RUNNABLE, ids=[f"{path.stem}-{index}" for path, index in RUNNABLE]
)
def test_python_examples_run(path: Path, index: int, tmp_path: Path) -> None:
    code = FENCE.findall(path.read_text())[index]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


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
    blocks = re.findall(r"```(python|sh)\n(.*?)```", page, re.DOTALL)
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
