"""Figures on the pages can be made again.

To add a figure, write it as `VALUE [LOW, HIGH]` (a mean, a difference, or `3 of 10`, with its 95 %
interval) or `VALUE ± ERROR`, and say in the same section of the page how it is made:

- from kept runs, by a command that prints it in seconds: `study table NAME...` or `study warnings
  NAME...`, short for `python -m studies.recipe.study` (rows: studies/recipe/results), or `python -m
  studies.lab.table [PLAN]` (rows: in `results` beside PLAN). The tests below run it and compare. In
  a table whose head begins with `arm`, `difference` or `students` all numbers of a row must be
  those of the arm in its first cell: the arm's name, or a text that has it in backticks, or `ARM −
  ARM`.
- by another command: "Made by `COMMAND` in N minutes at commit `HASH`", ten minutes at most.

A page may also repeat a figure of docs/results.md with a link to its section. What comes from
longer runs that nobody kept is on no page. Programs and logs in blocks of code are not figures.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import product, takewhile
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import pytest
import yaml
from size import PACKAGES, ROOT
from studies.lab import table as lab
from studies.recipe import study

from selfplay.experiments.kept import read_kept

RESULTS = ROOT / "docs" / "results.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "studies").glob("*/README.md"))
COMMANDS = {name.replace("_", "-"): import_module(f"{name}.cli").main for name in PACKAGES}
WITHOUT_FIGURES = {"Limits"}
SHARE = re.compile(r"\d+(?:\.\d+)?(?: ± \d+\.\d+)?(?= %| points| percentage)")
NUMBER = r"-?\d+(?:\.\d+)?"
INTERVAL = re.compile(rf"\[({NUMBER}), ({NUMBER})\]")
FIGURE = re.compile(rf"(\d+ of \d+|{NUMBER})(?: %| points)?(?: \w+)? {INTERVAL.pattern}")
ERROR = re.compile(r"[\d.]+ ± [\d.]+")
KEPT = re.compile(r"[`.]study (table|warnings) ([^`]+)")
LAB = re.compile(r"python -m studies\.lab\.table(?: (studies/\w+/\w+\.yaml))?")
MINUTES = re.compile(r"in (?:about )?(\d+) (?:second|minute)s?\b")
HEADS = ("arm", "difference", "students")
"""What the head of a table of arms begins with."""
OTHERS = (*HEADS, "steps", "predicted", "teachers", "trained on")
"""Its columns that are not measured."""


class Section(NamedTuple):
    """What stands below a heading: its title, the text, and the text without blocks of code."""

    page: Path
    title: str
    text: str
    prose: str


Figure = tuple[str | float, ...]
"""A value and the ends of its interval; of a difference in the order in which it is above 0."""


def sections_of(page: Path) -> Iterator[Section]:
    """Yield the parts of a page, each from a heading of any level to the next."""
    coded = re.sub(
        r"```.*?```", lambda m: m[0].replace("\n#", "\n #"), page.read_text(), flags=re.S
    )
    for part in re.split(r"^#+ ", coded, flags=re.M)[1:]:
        title, _, text = part.partition("\n")
        yield Section(page, title, text, re.sub(r"```.*?```", "", text, flags=re.S))


SECTIONS = [section for page in PAGES for section in sections_of(page)]
OF_RESULTS = {section.title: section for section in SECTIONS if section.page == RESULTS}
IDS = [f"{s.page.relative_to(ROOT)}: {s.title}" for s in SECTIONS]


def figures(text: str) -> list[Figure]:
    """Return the intervals of a text with their values."""
    plain = re.sub(r"\s+", " ", text.replace("*", ""))
    return [_figure(*found) for found in FIGURE.findall(plain)]


def _figure(value: str, low: str, high: str) -> Figure:
    if " of " in value:
        return value, float(low), float(high)
    numbers = float(value), float(low), float(high)
    return max(numbers, (-numbers[0], -numbers[2], -numbers[1]))


def rows_of(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables of a text, heads included."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip()[1:-1].split("|")]


@cache
def printed_of(plan: Path) -> str:
    """Return what `studies.lab.table` prints of the kept runs of a plan."""
    return "\n".join(f"| {' | '.join(row)} |" for row in lab.table_rows(plan))


@cache
def printed_by(command: str, *names: str) -> str:
    """Return what a command prints of kept runs, of a table with each arm in turn subtracted."""
    rows = [row for name in names for row in study.kept(name)]
    if command == "warnings":
        return f"{study.warnings(rows)}\n{study.warnings_of_falls(rows)}"
    arms, measures = [*dict.fromkeys(row["arm"] for row in rows)], study.measures_of(names)
    orders = [sorted(arms, key=lambda arm: arm != first) for first in arms]
    return "\n".join(study.table(rows, order, measures) for order in orders)


def printed_for(section: Section) -> str:
    """Return what the commands that a section names print of kept runs."""
    text = re.sub(r"\s+", " ", section.text)
    plans = [ROOT / place if place else lab.LAB for place in LAB.findall(text)]
    printed = [printed_of(plan) for plan in dict.fromkeys(plans)]
    for command, words in KEPT.findall(text):
        names = [*takewhile(lambda name: study.kept(name), words.split())]
        assert names or words.startswith("NAME"), f"{words}: no kept runs of that name"
        printed += [printed_by(command, *names)] if names else []
    return "\n".join(printed)


def linked(section: Section) -> str:
    """Return the text of the sections of `docs/results.md` that a section links to."""
    anchors = {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-"): t for t in OF_RESULTS}
    found = re.findall(r"results\.md#([\w-]+)\)", section.text)
    return "\n".join(OF_RESULTS[anchors[a]].prose for a in found if a in anchors)


def made_by(text: str) -> list[tuple[list[str], str, str]]:
    """Return commands, commit and the words around of what says how figures were made."""
    sentences = re.findall(r"[Mm]ade\sby\s(.*?)at\scommit\s`(\w+)`", text, re.S)
    rows = re.findall(r"\| ([^|]*), `([0-9a-f]{7})` \|$", text, re.M)
    return [(re.findall(r"`([^`]+)`", words), commit, words) for words, commit in sentences + rows]


def is_quick(section: Section) -> bool:
    """Return whether a section says how its figures are made in ten minutes at most."""
    times = [
        MINUTES.search(re.sub(r"\s+", " ", words))
        for _, _, words in made_by(section.prose)
        if words
    ]
    return any(time is not None and int(time[1]) <= 10 for time in times)


@pytest.mark.parametrize("section", SECTIONS, ids=IDS)
def test_an_interval_is_made_again_from_kept_runs_or_by_a_quick_command(section: Section) -> None:
    prose = re.sub(r"`[^`]*`", "``", section.prose).replace("−", "-")
    with_value = figures(prose)
    is_bare = len(with_value) < len(INTERVAL.findall(re.sub(r"\s+", " ", prose)))
    assert not is_bare, "an interval without its value: write it as VALUE [LOW, HIGH]"
    known = figures(printed_for(section)) + figures(linked(section))
    unknown = [figure for figure in with_value if figure not in known]
    unknown += [error for error in ERROR.findall(prose) if error not in linked(section)]
    assert not unknown or is_quick(section), f"{unknown}: neither kept runs nor a quick command"


@pytest.mark.parametrize("section", SECTIONS, ids=IDS)
def test_a_row_of_an_arm_has_the_numbers_of_that_arm(section: Section) -> None:
    printed = [*rows_of(printed_for(section))]
    for name, cells in rows_of_arms(section.prose) if printed else ():
        theirs = [row for row in printed if name in (row[0], row[0].split(" − ")[0])]
        text = " | ".join(" | ".join(row[1:]) for row in theirs)
        for cell in cells:
            assert set(figures(cell)) <= set(figures(text)), f"{name}: {cell}"
            for number in re.findall(NUMBER, INTERVAL.sub("", cell)):
                digits = len(number.partition(".")[2])
                near = 0.5 / 10**digits + 0.05 * (digits == 0)  # of what is printed with one digit
                close = [abs(float(number) - float(of)) <= near for of in re.findall(NUMBER, text)]
                assert any(close), f"{name}: {cell}"


def rows_of_arms(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the cells with numbers of runs of each row of an arm, or of two."""
    head: Sequence[str] = []
    for row in rows_of(text):
        if row[0] in HEADS:
            head = row
        elif len(row) != len(head):
            head = []
        else:
            named = re.findall(r"`([^`]+)`", row[0])
            of_runs = (c for title, c in zip(head, row, strict=True) if title not in OTHERS)
            cells = [cell.replace("−", "-") for cell in of_runs]
            yield named[0] if named else row[0], cells


def test_the_tables_of_studies_are_compared() -> None:
    """And not skipped, as for a head of another name."""
    with_rows = [section for section in SECTIONS if printed_for(section)]
    assert sum(len([*rows_of_arms(section.prose)]) for section in with_rows) > 60
    assert sum(len(figures(section.prose)) for section in with_rows) > 90


def test_a_wrong_figure_is_found() -> None:
    """In a value, an end, a sign, or an arm; or without a source."""

    def check(section: Section) -> None:
        test_an_interval_is_made_again_from_kept_runs_or_by_a_quick_command(section)
        test_a_row_of_an_arm_has_the_numbers_of_that_arm(section)

    (section,) = (s for s in SECTIONS if s.title == "The main arms with a rate that falls")
    right = "| slow regret | 25.0 | 0.2 | 10 | 0 | -0.3 [-1.1, 0.6] |"
    assert right in section.prose
    for wrong in (
        right.replace("-0.3 [-1.1, 0.6]", "-0.3 [-1.1, 0.7]"),
        right.replace("-0.3 [-1.1, 0.6]", "0.3 [-1.1, 0.6]"),
        right.replace("slow regret", "regret"),
        right.replace("25.0", "24.0"),
        right.replace("-0.3 [-1.1, 0.6]", "[-1.1, 0.6]"),
    ):
        changed = section._replace(prose=section.prose.replace(right, wrong))
        with pytest.raises(AssertionError):
            check(changed)
    with pytest.raises(AssertionError, match="neither"):
        check(section._replace(text="", prose="It gains 3.0 [1.0, 5.0] points."))


def last_thirds(results: Path) -> dict[str, dict[int, float]]:
    """Return points over the base by arm and seed, of kept runs."""
    gains: dict[str, dict[int, float]] = {}
    for row in read_kept(results):
        of_steps = [np.mean([*members.values()]) for _, members in row.gains]
        of_steps = of_steps[len(of_steps) - -(-len(of_steps) // 3) :]
        gains.setdefault(row.arm, {})[row.seed] = 100 * float(np.mean(of_steps))
    return gains


@pytest.mark.parametrize(
    "plan",
    [
        lab.LAB,
        *(ROOT / "studies" / n / "plan.yaml" for n in ("narrow", "ease", "evolve", "gate", "tape")),
    ],
    ids=str,
)
def test_a_table_has_students_intervals_of_the_kept_gains(plan: Path) -> None:
    """By other code: means of the last third of the evaluations, paired by seed."""
    quantiles = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
    live = plan.with_name("live")
    of_lab = last_thirds(live if live.is_dir() else lab.LAB.with_name("results"))
    gains = last_thirds(plan.with_name("results"))
    content = yaml.safe_load(plan.read_text())
    pairs = [(f"{a} − {b}", gains.get(a, {}), gains.get(b, {})) for a, b in content["contrasts"]]
    across = {"evolve": ["slow regret"], "gate": [*of_lab], "tape": [*of_lab]}
    for a, b in product(gains, across.get(content["name"], [])):
        if content["name"] == "evolve" or a.startswith((f"{b} leak", f"{b} tape", f"{b} shuf")):
            pairs.append((f"{a} − lab's {b}", gains[a], of_lab[b]))
    of_rows = {arm: [*of.values()] for arm, of in gains.items()}
    of_rows |= {f"lab's {arm}": [*of.values()] for arm, of in of_lab.items() if live.is_dir()}
    for name, one, other in pairs:
        both = sorted(one.keys() & other.keys())
        of_rows |= {name: [one[seed] - other[seed] for seed in both]} if both else {}
    printed = {row[0]: row[1:3] for row in lab.table_rows(plan)}
    assert printed.keys() == of_rows.keys()
    for name, values in of_rows.items():
        seeds, cell = printed[name]
        assert int(seeds) == len(values)
        found = [float(number) for number in re.findall(NUMBER, cell)]
        expected = [float(np.mean(values))]
        if len(values) > 1:
            half = quantiles[len(values)] * float(np.std(values, ddof=1)) / len(values) ** 0.5
            expected += [expected[0] - half, expected[0] + half]
        assert found == pytest.approx(expected, abs=0.051), name


RECORDS = [record for section in SECTIONS for record in made_by(section.text)]


@pytest.mark.parametrize("title", sorted(OF_RESULTS.keys() - WITHOUT_FIGURES - {"Results"}))
def test_a_section_of_results_says_how_its_figures_were_made(title: str) -> None:
    section = OF_RESULTS[title]
    records = made_by(section.text)
    assert records or printed_for(section)
    assert all(commands for commands, _, _ in records)


@pytest.mark.parametrize("commit", sorted({commit for _, commit, _ in RECORDS}))
def test_a_commit_that_figures_name_is_one_of_this_history(commit: str) -> None:
    git = ["git", "-C", str(ROOT)]
    shallow = [*git, "rev-parse", "--is-shallow-repository"]
    if subprocess.run(shallow, capture_output=True, text=True).stdout.strip() != "false":
        pytest.skip("the history is not here")
    assert subprocess.run([*git, "merge-base", "--is-ancestor", commit, "HEAD"]).returncode == 0


@pytest.mark.parametrize("command", sorted({c for commands, _, _ in RECORDS for c in commands}))
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


def test_the_study_prints_what_is_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands, as they are typed."""
    words = ["table", "recipe-steady-3", "recipe-schedule", "--minus", "azr"]
    monkeypatch.setattr(sys, "argv", ["study", *words])
    study.main()
    typed = capsys.readouterr().out
    assert "| paper − azr |" in typed
    compared = printed_by("table", "recipe-steady-3", "recipe-schedule")
    assert set(figures(typed)) <= set(figures(compared))
    lab.main([], standalone_mode=False)
    assert printed_of(lab.LAB) in capsys.readouterr().out


def test_what_the_readme_claims_is_in_the_results_that_it_links_to() -> None:
    (found,) = (s for s in SECTIONS if (s.page.parent, s.title) == (ROOT, "What was found"))
    claims = 0
    for bullet in found.text.split("\n- "):
        results = re.sub(r"\s+", " ", linked(found._replace(text=bullet)))
        for figure in SHARE.findall(re.sub(r"\s+", " ", bullet)):
            claims += 1
            assert figure in results, f"{figure}: not in the results"
        assert set(figures(bullet)) <= set(figures(results))
    assert claims >= 4


def test_the_chart_says_what_the_results_say() -> None:
    """The numbers in its description are those of the demo, rounded."""
    readme = (ROOT / "README.md").read_text()
    (described,) = re.findall(r"!\[(.*?)\]\(docs/screens/demo\.svg\)", readme)
    drawn = (ROOT / "docs" / "screens" / "demo.svg").read_text()
    learn = re.sub(r"\s+", " ", OF_RESULTS["Does it learn?"].text)
    (end, base) = re.findall(r"ends at (\d+\.\d) % where the base has (\d+\.\d) %", learn)[0]
    for name, number in ("students", end), ("frozen base", base):
        assert f"{float(number):.0f}" in described
        assert f">{name} {float(number):.0f} %<" in drawn
