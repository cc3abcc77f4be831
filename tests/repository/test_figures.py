"""Figures in the docs can be made again: each names its command and commit, and both exist.

A section of `docs/results.md` has a sentence "Made by `COMMAND` at commit `HASH`", or rows that end
in both. What README claims, results says in the section that it links to. What comes from runs that
are kept is computed again.
"""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from studies.recipe import study

from code_verifier.cli import main as code_verifier
from evals.cli import main as evals
from league.cli import main as league
from lora_evo.cli import main as lora_evo
from selfplay.cli import main as selfplay

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "docs" / "results.md").read_text()
COMMANDS = {
    "code-verifier": code_verifier,
    "evals": evals,
    "league": league,
    "lora-evo": lora_evo,
    "selfplay": selfplay,
}
WITHOUT_FIGURES = {"Limits"}
FIGURE = re.compile(r"\d+(?:\.\d+)?(?: ± \d+\.\d+)?(?= %| points| percentage)")


def sections(text: str) -> dict[str, str]:
    """Return the text below each heading of the second level, by its title."""
    return dict(part.split("\n", 1) for part in ("\n" + text).split("\n## ")[1:])


def made_by(text: str) -> list[tuple[list[str], str]]:
    """Return commands and commit of each sentence or row that says how figures were made."""
    sentences = re.findall(r"[Mm]ade by\s(.*?)at\scommit\s`(\w+)`", text, re.S)
    rows = re.findall(r"\| ([^|]*), `([0-9a-f]{7})` \|$", text, re.M)
    return [(re.findall(r"`([^`]+)`", told), commit) for told, commit in sentences + rows]


PAGES = [ROOT / "docs" / name for name in ("results.md", "adapters.md", "league.md")]
RECORDS = [record for page in PAGES for record in made_by(page.read_text())]


@pytest.mark.parametrize("title", sorted(sections(RESULTS).keys() - WITHOUT_FIGURES))
def test_a_section_of_results_says_how_its_figures_were_made(title: str) -> None:
    records = made_by(sections(RESULTS)[title])
    assert records
    assert all(commands for commands, _ in records)


@pytest.mark.parametrize("commit", sorted({commit for _, commit in RECORDS}))
def test_a_commit_that_figures_name_is_one_of_this_history(commit: str) -> None:
    git = ["git", "-C", str(ROOT)]
    shallow = [*git, "rev-parse", "--is-shallow-repository"]
    if subprocess.run(shallow, capture_output=True, text=True).stdout.strip() != "false":
        pytest.skip("the history is not here")
    assert subprocess.run([*git, "merge-base", "--is-ancestor", commit, "HEAD"]).returncode == 0


@pytest.mark.parametrize("command", sorted({c for commands, _ in RECORDS for c in commands}))
def test_a_command_that_figures_name_can_be_typed(command: str) -> None:
    """Its script or target is there, and takes the options."""
    command = command.removeprefix("OMP_NUM_THREADS=1 ").removeprefix("taskset -c 0 ")
    words = command.split()
    program, *rest = words
    options = {word for word in rest if word.startswith("--")}
    if program == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.M)
    elif program in COMMANDS:
        group = COMMANDS[program]
        sub = group.get_command(click.Context(group), rest[0])
        assert sub is not None
        assert options <= {option for parameter in sub.params for option in parameter.opts}
    else:
        assert program in ("python", "pytest")
        file = rest[1].replace(".", "/") + ".py" if rest[0] == "-m" else rest[0]
        text = (ROOT / file).read_text()  # its head or its parser names the options
        assert all(option in text for option in options)


TABLES = [
    ("recipe-steady-3", "recipe-schedule", "--minus", "azr"),
    ("recipe-steady-3", "recipe-schedule", "--minus", "linear"),
    ("recipe-candidates-2", "recipe-populations", "--minus", "azr"),
    ("recipe-candidates-2", "recipe-populations", "--minus", "1T+1S"),
    ("recipe-candidates-3",),
    ("recipe-real", "--minus", "2T+2S frozen"),
]
"""What results.md takes from `python -m studies.recipe.study table`."""


def test_figures_of_kept_runs_are_those_that_the_study_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in TABLES:
        monkeypatch.setattr(sys, "argv", ["study", "table", *words])
        study.main()
    printed = capsys.readouterr().out
    collapse = sections(RESULTS)["When self-play collapses"].split("[Another study]")[1]
    told = (collapse + sections(RESULTS)["A real model in self-play"]).replace("*", "")
    figures = re.findall(r"-?\d+\.\d \[-?\d+\.\d, -?\d+\.\d\]", re.sub(r"\s+", " ", told))
    assert len(figures) > 20
    assert [figure for figure in figures if figure not in printed] == []


def test_what_the_readme_claims_is_in_the_results_that_it_links_to() -> None:
    found = sections((ROOT / "README.md").read_text())["What was found"]
    below = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-"): text
        for title, text in sections(RESULTS).items()
    }
    claims = 0
    for bullet in found.split("\n- "):
        told = "".join(below[anchor] for anchor in re.findall(r"results\.md#([\w-]+)\)", bullet))
        for figure in FIGURE.findall(re.sub(r"\s+", " ", bullet)):
            claims += 1
            assert figure in re.sub(r"\s+", " ", told), f"{figure}: not in the results"
    assert claims >= 4


def test_the_chart_says_what_the_results_say() -> None:
    """The numbers in its description are those of the demo, rounded."""
    readme = (ROOT / "README.md").read_text()
    (described,) = re.findall(r"!\[(.*?)\]\(docs/screens/demo\.svg\)", readme)
    drawn = (ROOT / "docs" / "screens" / "demo.svg").read_text()
    learn = re.sub(r"\s+", " ", sections(RESULTS)["Does it learn?"])
    (end, base) = re.findall(r"ends at (\d+\.\d) % where the base has (\d+\.\d) %", learn)[0]
    for name, number in ("students", end), ("frozen base", base):
        assert f"{float(number):.0f}" in described
        assert f">{name} {float(number):.0f} %<" in drawn
